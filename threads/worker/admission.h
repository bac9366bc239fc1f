// admission.h - the admission stage of one worker: packets that have not begun.
//
// Concepts   A packet waits in a heap until its time has come, and in one of the stage's lines
//            until an executing thread (executors.h) takes it. There is one line for each priority;
//            with the policy fifo all packets use the first. A line that was passed over often
//            comes first once, so no priority starves.
// Sharing    Any kernel thread submits; one spin lock protects the lines and the heap. The atomics
//            below are written under the lock and read without it.
// Invariants AD-1 A packet is in at most one of: the heap, a line. Packet::place tells which.
//            AD-2 No packet is overlooked by a worker that falls asleep: submit() writes `queued_`
//                 and `next_due_` before it reads whether the worker sleeps; the worker announces
//                 its sleep before it reads them. All four are sequentially consistent, as WK-2.
//                 [checked: Worker::sleep(), Worker::submit()]
//            AD-3 submitted() - ended() of all workers is 0 only while no packet is inside: both
//                 only grow, and a reader sums ended() first. [checked: Runtime::packets()]
// Blocking   never.
#pragma once

#include <atomic>
#include <cstdint>

#include <lockstep/packet.h>
#include <lockstep/packet_policy.h>
#include <lockstep/result.h>
#include "threads/base/spin_lock.h"
#include "threads/sync/stage.h"
#include "threads/worker/packet_heap.h"

namespace lockstep::threads {

class Admission {
public:
    struct Settings {
        PacketPolicy policy = PacketPolicy::priority;
        uint64_t packets_max = 1 << 20;  // that wait on one worker
    };
    Admission(uint32_t worker, const Settings& settings) : worker_(worker), settings_(settings) {}

    // --- any kernel thread
    // Takes the packet. `foreign`: the caller is not the worker, and wakes it if `wake` is set.
    // Errors: too_many, store_closed; the packet then stays outside.
    Result<void> submit(Packet& packet, Nanos now, bool foreign, bool& wake);
    // Takes back a packet that waits here. `outside`: it has begun, or was not submitted.
    enum class Withdrawn : uint8_t { yes, outside, at_another_worker };
    Withdrawn withdraw(Packet& packet);
    // Refuses packets from now on. Those that wait for a time are due.
    void close();
    // Moves packets that others may run, at most half and at most `most`, to the stage of a worker
    // that has nothing to do. Returns how many.
    uint64_t give_to(Admission& thief, uint64_t most, Nanos now);

    // Packets in the lines.
    uint64_t queued() const { return queued_.load(std::memory_order_relaxed); }
    uint64_t queued_for_sleep() const { return queued_.load(std::memory_order_seq_cst); }
    // Of them, those that another worker may take.
    uint64_t movable() const { return movable_.load(std::memory_order_relaxed); }
    // When the first packet of the heap is due, or kNever.
    Nanos next_due() const { return next_due_.load(std::memory_order_relaxed); }
    Nanos next_due_for_sleep() const { return next_due_.load(std::memory_order_seq_cst); }
    // Packets in the heap.
    uint64_t timed() const { return timed_.load(std::memory_order_relaxed); }
    uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
    uint64_t ended() const {
        return ended_.load(std::memory_order_acquire) + withdrawn_.load(std::memory_order_acquire);
    }
    StageStats stats() const { return stage_.stats(); }

    // --- the worker
    // Moves packets whose time has come into the lines. False: there is none.
    bool expire(Nanos now) { return next_due() <= now && expire_due(now); }
    // Takes at most `most` packets for service, in order; returns how many.
    size_t take(Packet** packets, size_t most, Nanos now);
    // A packet that take() gave has run.
    void finish() {
        stage_.finish();
        ended_.store(ended_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    // Removes all packets and tells them; the runtime is abandoned.
    void drop_all();

    // STG-1 and AD-1 while nothing runs: text of the fault, or empty.
    std::string verify(uint64_t in_service) const;

private:
    static constexpr uint32_t kBypassMax = 16;
    using Line = StageLine<Packet>;
    Line& line_of(const Packet& packet) {
        return lines_[settings_.policy == PacketPolicy::fifo
                          ? 0
                          : Packet::kPriorities - 1 - packet.priority];
    }
    // Under lock_.
    void assert_state() const {
        DCHECK(lock_.is_held() && pinned_ <= length_);
        DCHECK(lines_[0].length <= length_ && lines_[Packet::kPriorities - 1].length <= length_);
    }
    bool expire_due(Nanos now);
    void enqueue(Packet& packet, Nanos now);
    Packet& dequeue(Line& line, Nanos now);
    uint32_t waiting_lines() const;
    void publish(bool foreign);

    const uint32_t worker_;
    const Settings settings_;
    SpinLock lock_;
    // All under lock_; the atomics may be read without it.
    Stage<Packet, false> stage_;  // finish() is the worker's alone
    Line lines_[Packet::kPriorities];
    StageClasses<Packet::kPriorities> classes_{kBypassMax};
    PacketHeap heap_;
    bool closed_ = false;
    uint64_t length_ = 0, pinned_ = 0;  // of the lines
    std::atomic<uint64_t> queued_{0}, movable_{0}, timed_{0}, submitted_{0}, withdrawn_{0};
    std::atomic<Nanos> next_due_{kNever};
    std::atomic<uint64_t> ended_{0};  // written by the worker
};

}  // namespace lockstep::threads
