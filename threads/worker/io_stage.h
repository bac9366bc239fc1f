// io_stage.h - one worker's I/O stage: orders, joins and submits the requests of a turn in batches.
//
// Concepts   A *packet* is a request. Each class has one line, and StageClasses picks the class
//            that comes next: log > demand read > read-ahead > write-back. A class that was passed
//            over kPassedMax times while it could be served comes first.
//            Each class has a limit of packets on the device, so the stage decides the order, not
//            the device's queue. The limit of write-back is tighter while demand reads or log
//            requests wait or are on the device.
//            Within a batch, each class but the log is sorted by file and offset. Equal reads are
//            then *merged*: one transfer, copied to the others. Neighbours are *joined*: one
//            vectored transfer, a *carrier*. Syncs of one file are merged as well.
//            Back-pressure: at most kCapacity packets are inside. A user thread that brings one
//            more is suspended (threads/sync/stage.h). The log has places of its own, kLogCapacity,
//            so a commit never waits until earlier reads have been admitted.
// States     of a packet: outside -> queued (add) -> on the device (submit), alone, in a carrier or
//            merged into another -> complete (on_done, on_carrier_done). When a carrier failed: in
//            the carrier -> queued again, never joined again (on_carrier_done).
// Invariants IOS-1 Every request completes once, with its own result. If a carrier fails, each
//            member is submitted alone, so only the faulty member fails. [checked: stage verify()
//            at close()]
//            IOS-2 A class that can be served is passed over at most kPassedMax + kIoClasses times
//            in a row. [StageClasses]
//            IOS-3 No class but the log has more on the device than its limit. The limits together
//            are below the ring's capacity, so the ring's own strict class order never decides.
//            [checked: submit()]
// Blocking   add() may park a user thread (back-pressure). wait() blocks the kernel thread. All
//            calls but wake() come from the owning worker.
// Source     S. Harizopoulos, "Staged Database Systems", 2005 (stages that see all requests at
//            once); the rest is our own design.
#pragma once

#include <memory>

#include <lockstep/io_stats.h>
#include "threads/io/io.h"
#include "threads/io/transfer.h"
#include "threads/sync/stage.h"
#include "threads/sync/stage_counters.h"

namespace lockstep::threads {

class IoStage {
public:
    static constexpr uint32_t kCapacity = 1024;  // of all classes but the log
    static constexpr uint32_t kLogCapacity = 64;
    // Limits of packets on the device, as the next three.
    static constexpr uint32_t kDemandMax = 128;
    static constexpr uint32_t kReadAheadMax = 128;
    static constexpr uint32_t kWriteBackMax = 192;
    static constexpr uint32_t kWriteBackMaxBusy = 32;  // while demand reads or log requests exist
    // This many queued packets are submitted before the end of the turn.
    static constexpr uint32_t kBatchMax = 64;
    static constexpr uint32_t kPassedMax = 64;
    static constexpr uint64_t kCarrierBytes = 256u << 10;
    // When all carriers are on the device, neighbours go one by one.
    static constexpr uint32_t kCarriers = 64;
    // A sleep gathers 1 / kGatherShare of the requests on the device.
    static constexpr uint64_t kGatherShare = 8;

    IoStage(std::unique_ptr<IoQueue> queue, const Clock& clock);
    ~IoStage();
    const char* name() const { return queue_->name(); }

    // On a user thread, parks while the stage is full. A request made by a completion queues
    // outside (awaiting_admission_) instead.
    void add(IoRequest& request);
    // The same for an optional request: false if the stage is full now.
    bool try_add(IoRequest& request);
    // Forms one batch and submits it. False if nothing could be served.
    bool submit();
    size_t poll() { return queue_->poll(); }
    size_t wait(Nanos deadline);
    void wake() { queue_->wake(); }  // any kernel thread
    bool idle() const { return queued() == 0 && queue_->in_flight() == 0; }
    bool has_in_flight() const { return queue_->in_flight() + queue_->fd_polls() > 0; }
    bool log_in_flight() const { return on_device_[static_cast<size_t>(IoClass::log)] > 0; }
    bool can_submit() const { return servable() != 0 || awaiting_admission_ != nullptr; }
    uint64_t queued() const { return queued_ + awaiting_count_; }
    // Waits for descriptors of the application pass the stage: they are no transfers.
    bool start_fd_poll(FdPoll& wait) { return queue_->start_fd_poll(wait); }
    bool cancel_fd_poll(FdPoll& wait) { return queue_->cancel_fd_poll(wait); }
    void set_mode(IoMode mode) { mode_ = mode; }
    void add_stats(IoStats& stats) const;  // any kernel thread
    // Checks that the stage is empty. Text if the counters disagree (STG-1), or empty.
    std::string verify_idle() const;

private:
    struct Carrier;
    struct Batch {  // requests for the queue, in order
        IoRequest* first = nullptr;
        IoRequest* last = nullptr;
        size_t requests = 0;
    };
    // Neighbours found in a walk over a sorted class.
    struct Run {
        IoRequest* first = nullptr;
        IoRequest* last = nullptr;
        uint32_t packets = 0, pieces = 0;
        uint64_t bytes = 0;
    };

    Stage<IoRequest, false>& stage_of(const IoRequest& packet) {
        return packet.io_class == IoClass::log ? log_stage_ : stage_;
    }
    void enter(IoRequest& packet);
    void admit_waiting();
    uint32_t servable() const;
    IoRequest* take(size_t io_class, Nanos now);
    void arrange_log(IoRequest* packets, Batch& batch);
    void arrange(IoRequest* packets, Batch& batch);
    static bool fits(const Run& run, const IoRequest& request);
    void close_run(Run& run, Batch& batch);
    void emit(IoRequest& packet, Batch& batch);
    void emit_carrier(Carrier& carrier, Run& run, Batch& batch);
    static void append(IoRequest& request, Batch& batch);
    void off_device(const IoRequest& request);
    void deliver(IoRequest& request);
    static void on_done(IoRequest* request);
    static void on_carrier_done(IoRequest* request);
    void wait_alone(IoRequest& packet);
    void assert_state() const;

    std::unique_ptr<IoQueue> queue_;
    const Clock& clock_;
    IoMode mode_ = IoMode::staged;
    Stage<IoRequest, false> stage_, log_stage_;
    StageLine<IoRequest> lines_[kIoClasses];
    StageClasses<kIoClasses> classes_{kPassedMax};
    // Requests made by completions while the stage was full, newest first.
    IoRequest* awaiting_admission_ = nullptr;
    uint64_t awaiting_count_ = 0;
    uint64_t queued_ = 0;                  // in the lines
    uint32_t on_device_[kIoClasses] = {};  // packets
    std::unique_ptr<Carrier[]> carriers_;
    Carrier* carriers_free_ = nullptr;
    StageCounter<false> packets_[kIoClasses], bytes_[kIoClasses], transfers_[kIoClasses],
        merged_[kIoClasses], joined_[kIoClasses];
    StageCounter<false> batches_, split_;
    LiveHistogram<false> depth_;
};

}  // namespace lockstep::threads
