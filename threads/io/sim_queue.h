// sim_queue.h - one worker's queue on a simulated disk.
//
// Concepts   An operation is an active request, with the time at which its next attempt ends. An
//            attempt may move all bytes, a part, or nothing. After a part the operation continues
//            by itself (IO-3).
#pragma once

#include <condition_variable>
#include <map>
#include <optional>

#include "threads/io/sim_disk.h"
#include "threads/io/sim_file.h"
#include "threads/io/sleep_gate.h"
#include "threads/io/transfer.h"

namespace lockstep::threads {

class SimQueue final : public IoQueue {
public:
    SimQueue(SimDisk& disk, const Clock& clock) : disk_(disk), clock_(clock) {}
    // Forgets requests in flight, as if their process had ended. Does not touch their memory.
    ~SimQueue() override;
    const char* name() const override { return "simulated"; }
    void submit(IoRequest* first, size_t count) override;
    size_t poll() override;
    size_t wait(Nanos deadline) override;
    void wake() override;
    size_t in_flight() const override { return in_flight_; }

    // Under the disk's mutex.
    Nanos next_due() const {
        return operations_.empty() ? kNever : operations_.begin()->first.first;
    }

private:
    struct Operation {
        IoRequest* request = nullptr;
        std::shared_ptr<SimFile> file;
        uint64_t progress = 0;
        uint64_t attempt = 0;  // bytes that the present attempt moves
        // Of a write: its whole memory when it was submitted (SD-1).
        std::shared_ptr<const std::byte[]> data;
        uint64_t sync_point = 0;
        std::optional<SimFile::WriteHandle> write;
        bool misaligned = false;
        bool syncing = false;  // the write is complete; a sync of its file follows
    };

    // All under the disk's mutex.
    void start(IoRequest* request);
    void begin_attempt(Operation operation);
    bool attempt(Operation& operation);  // true: the request is finished
    int64_t attempt_read(Operation& operation);
    int64_t attempt_write(Operation& operation);
    int64_t attempt_sync(Operation& operation);
    Nanos time() const;
    bool take_due(Operation& operation);

    void complete(Operation& operation);
    // Of the queue's worker, under the disk's mutex.
    void assert_state() const { DCHECK(operations_.size() <= in_flight_); }

    SimDisk& disk_;
    const Clock& clock_;
    // By due time, then by number; under the disk's mutex.
    std::map<std::pair<Nanos, uint64_t>, Operation> operations_;
    size_t in_flight_ = 0;  // worker only
    std::mutex sleep_mutex_;
    std::condition_variable wakeup_;
    bool kicked_ = false;  // under sleep_mutex_
    SleepGate gate_;
};

}  // namespace lockstep::threads
