// io_stage.h - one worker's I/O stage: requests wait as packets; at each scheduler turn a batch of
// them is chosen, put in order, joined, submitted.
//
// Concepts   A *packet* is a request. One line per class; StageClasses picks whose packet comes
//            next: log > demand read > read-ahead > write-back, but a class that was passed over
//            kPassedMax times while it could be served comes first. How many packets of each class
//            the device has at a time is bounded, so that the order is decided here and not in its
//            queue: write-back more tightly while anybody waits for a read or the log. Within a
//            batch each class but the log is sorted by file and offset; then equal reads are
//            *merged* (one transfer, copied to the others) and neighbours *joined* (one vectored
//            transfer, a *carrier*). Syncs of one file are merged as well. Back-pressure: kCapacity
//            packets are inside; a user thread that brings one more is suspended
//            (threads/sync/stage.h).
// States     of a packet: outside -> queued (add) -> on the device (submit), alone, in a carrier or
//            merged into another -> complete (on_done, on_carrier_done); in a carrier -> queued
//            again, never to be joined (on_carrier_done, when the carrier failed).
// Invariants IOS-1 Every request completes once, with its own result: if a carrier fails, each
//                  member is asked for alone, so that only the member with the fault fails.
//                  [checked: stage verify() at close()]
//            IOS-2 A class that can be served is passed over at most kPassedMax + kIoClasses times
//            in a row. [StageClasses]
//            IOS-3 No class but the log has more on the device than its bound; together these are
//                  fewer than a ring has places, so the ring's own strict order of classes never
//                  decides. [checked: submit()]
// Blocking   add() may park a user thread (back-pressure). wait() blocks the kernel thread. All
//            calls from the owning worker but wake().
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
    static constexpr uint32_t kCapacity = 1024;
    // Packets on the device, as the next three.
    static constexpr uint32_t kDemandMax = 128;
    static constexpr uint32_t kReadAheadMax = 128;
    static constexpr uint32_t kWriteBackMax = 192;
    static constexpr uint32_t kWriteBackMaxBusy = 32;  // while a read or the log is wanted
    // Queued packets that do not wait for the end of the turn.
    static constexpr uint32_t kBatchMax = 64;
    static constexpr uint32_t kPassedMax = 64;
    static constexpr uint64_t kCarrierBytes = 256u << 10;
    // When all are on the device, neighbours go one by one.
    static constexpr uint32_t kCarriers = 64;
    // A sleep ends when one of so many requests is back.
    static constexpr uint64_t kGatherShare = 8;

    IoStage(std::unique_ptr<IoQueue> queue, const Clock& clock);
    ~IoStage();
    const char* name() const { return queue_->name(); }

    // Parks while the stage is full if called on a user thread; a completion's request waits at the
    // door instead.
    void add(IoRequest& request);
    // The same for a request that can be done without: false if there is no room now.
    bool try_add(IoRequest& request);
    // Forms one batch and submits it. False if nothing could be served.
    bool submit();
    size_t poll() { return queue_->poll(); }
    size_t wait(Nanos deadline);
    void wake() { queue_->wake(); }  // any kernel thread
    bool idle() const { return queued() == 0 && queue_->in_flight() == 0; }
    bool has_in_flight() const { return queue_->in_flight() > 0; }
    bool log_in_flight() const { return on_device_[static_cast<size_t>(IoClass::log)] > 0; }
    bool can_submit() const { return servable() != 0 || door_ != nullptr; }
    uint64_t queued() const { return queued_ + at_door_; }
    void set_mode(IoMode mode) { mode_ = mode; }
    void add_stats(IoStats& stats) const;  // any kernel thread
    // Nothing is inside any more. Text if the figures disagree (STG-1), or empty.
    std::string verify_idle() const;

private:
    struct Carrier;
    struct Batch {  // what is handed to the queue, in order
        IoRequest* first = nullptr;
        IoRequest* last = nullptr;
        size_t requests = 0;
    };
    // Neighbours found while a sorted class is walked.
    struct Run {
        IoRequest* first = nullptr;
        IoRequest* last = nullptr;
        uint32_t packets = 0, pieces = 0;
        uint64_t bytes = 0;
    };

    void enter(IoRequest& packet);
    void let_in();
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

    std::unique_ptr<IoQueue> queue_;
    const Clock& clock_;
    IoMode mode_ = IoMode::staged;
    Stage<IoRequest, false> stage_;
    StageLine<IoRequest> lines_[kIoClasses];
    StageClasses<kIoClasses> classes_{kPassedMax};
    // Completions' requests that found the stage full, newest first.
    IoRequest* door_ = nullptr;
    uint64_t at_door_ = 0;
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
