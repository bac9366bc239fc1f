// pool_queue.h - I/O by kernel threads with preadv, pwritev and fdatasync, where the kernel refuses
// io_uring.
//
// Concepts   A disk has one IoPool. Every queue adds kThreadsPerQueue kernel threads to it, up to
//            kThreadsMax. A thread takes one request, executes it completely and hands it back to
//            its queue. It takes the log's requests first, and the others in order of arrival,
//            which the I/O stages have chosen. Queues share ownership of the pool, so it ends with
//            the disk and the last queue.
// Invariants PQ-1 The pool thread touches a request before it is handed back, the worker only
//            after. [mutex_ of the queue]
// Blocking   submit() takes a mutex for a few instructions. wait() blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "threads/io/sleep_gate.h"
#include "threads/io/transfer.h"

namespace lockstep::threads {

class IoPool {
public:
    static constexpr size_t kThreadsPerQueue = 4;
    static constexpr size_t kThreadsMax = 64;
    // One line for the log, one for all other requests in order of submission.
    static constexpr size_t kLines = 2;

    ~IoPool();  // finishes what is queued, then joins
    // Error too_many if the system grants not even one thread.
    Result<void> grow();
    // Takes `count` requests; the tag of each names its queue.
    void push(RequestQueue (&requests)[kLines], size_t count);

private:
    void work();
    IoRequest* take();

    std::mutex mutex_;
    std::condition_variable more_;
    RequestQueue pending_[kLines];      // under mutex_
    bool ending_ = false;               // under mutex_
    std::vector<std::thread> threads_;  // under mutex_ until the destructor
};

class PoolQueue final : public IoQueue {
public:
    PoolQueue(std::shared_ptr<IoPool> pool, const Clock& clock, SyncsAfterWrite syncs)
        : syncs_(std::move(syncs)), pool_(std::move(pool)), clock_(clock) {}
    // Waits for requests in flight, without running their `done`.
    ~PoolQueue() override;
    const char* name() const override { return "pool"; }
    void submit(IoRequest* first, size_t count) override;
    size_t poll() override;
    size_t wait(Nanos deadline) override;
    void wake() override;
    size_t in_flight() const override { return in_flight_; }
    // For pool threads: the request has its result.
    void hand_back(IoRequest* request);
    const SyncsAfterWrite& syncs_after_write() const { return syncs_; }

private:
    IoRequest* take_done();
    // Under mutex_.
    void assert_state() const {
        DCHECK((done_first_ == nullptr) == (done_last_ == nullptr));
        DCHECK(done_last_ == nullptr || done_last_->next == nullptr);
    }

    const SyncsAfterWrite syncs_;
    std::shared_ptr<IoPool> pool_;
    const Clock& clock_;
    size_t in_flight_ = 0;  // worker only
    // done_first_ is set; lets poll() look without the mutex.
    std::atomic<bool> any_done_{false};
    std::mutex mutex_;
    std::condition_variable wakeup_;
    IoRequest* done_first_ = nullptr;  // under mutex_
    IoRequest* done_last_ = nullptr;
    bool sleeping_ = false;
    bool kicked_ = false;
    SleepGate gate_;
};

}  // namespace lockstep::threads
