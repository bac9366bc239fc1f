// stage.h - Stage<Packet>: a bounded queue that sees many requests at once and chooses their order.
// The lock manager and each worker's I/O use one.
//
// Concepts   A *packet* is one request. It is intrusive (members next, prev, entered, bypassed), so
//            no call allocates. A *line* is one queue of a stage: two pointers and a length. Its
//            owner may store it anywhere: the lock stage keeps one in each contended lock, the I/O
//            stage one per class. The *stage* has what its lines share: order, gate, capacity and
//            statistics.
//            The *order* decides which waiting packets an arriving packet overtakes. Ageing: a
//            packet that was overtaken bypass_max times is overtaken no more, and no later packet
//            passes it. The *gate* decides how many waiting packets form the next batch.
//            Back-pressure: at most `capacity` packets are inside. admit() suspends the user thread
//            that would exceed it; other threads and the stage itself continue. Suspended threads
//            are admitted first come, first served.
// States     outside -> queued (enqueue) -> in service (dequeue, take) -> outside (finish) | in
//            another stage (forward) | queued again (requeue); queued -> outside (cancel).
// Invariants STG-1 Every packet that entered has finished, been forwarded or cancelled, or is
//            inside. [checked: verify()]
//            STG-2 The order overtakes no packet more than bypass_max times. [checked: place()]
//            STG-3 At most `capacity` packets are inside, unless capacity is 0. [checked:
//            enqueue()]
// Sharing    The owner of a line protects the line and its packets. With kShared = false, all calls
//            come from one worker, and nothing needs protection. With kShared = true, each line is
//            under a lock of its owner, such as a bucket's latch. Different lines of the stage may
//            then be used concurrently, and the stage's own counters are atomics.
// Blocking   Only admit() parks; call it without latches. All other calls may be made under a spin
//            lock.
// Time       The caller passes Nanos, and reads a clock only when a packet waits. 0 means unknown
//            and counts as no wait.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 3.2 (stage, packet,
//            back-pressure) and 3.5.2 (gates).
#pragma once

#include <bit>
#include <concepts>
#include <string>

#include <lockstep/stage_stats.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/sync/event.h"
#include "threads/sync/stage_counters.h"
#include "threads/sync/stage_gates.h"

namespace lockstep::threads {

template <class P>
concept StagePacket = requires(P& p) {
    { p.next } -> std::same_as<P*&>;
    { p.prev } -> std::same_as<P*&>;
    { p.entered } -> std::same_as<Nanos&>;      // the queue, most recently
    { p.bypassed } -> std::same_as<uint32_t&>;  // times overtaken since then
};

// All-zero bytes are an empty line.
template <class P>
struct StageLine {
    P* first = nullptr;
    P* last = nullptr;
    uint64_t length = 0;
    bool empty() const { return first == nullptr; }
    // The line's ends; Stage::verify_line() walks it.
    void assert_state() const {
        DCHECK((first == nullptr) == (last == nullptr));
        DCHECK((first == nullptr) == (length == 0));
        DCHECK(first == nullptr || first->prev == nullptr);
        DCHECK(last == nullptr || last->next == nullptr);
        DCHECK((first == last) == (length <= 1));
    }
};

// Position of an arriving packet relative to a waiting one. always_before does not count as
// overtaking, and ageing does not stop it.
enum class Precedence : uint8_t { behind, before, always_before };
template <class P>
using StageOrder = Precedence (*)(const P& arriving, const P& waiting);

template <class P>
struct StageOptions {
    StageOrder<P> order = nullptr;  // null: first come, first served
    uint32_t bypass_max = 16;
    StageGate gate = StageGate::d_gated;
    uint32_t batch_max = 0;  // t_gated: at least 1
    Nanos cutoff = 0;        // c_gated: service of one packet in one batch
    uint64_t capacity = 0;   // packets inside; 0: no limit
};

// An open gate: packets of `line` that this batch may still take.
template <class P>
struct StageBatch {
    StageLine<P>* line;
    uint64_t left;
    uint64_t taken = 0;
};

template <StagePacket P, bool kShared>
class Stage {
public:
    using Line = StageLine<P>;
    using Batch = StageBatch<P>;

    explicit Stage(const StageOptions<P>& options = {})
        : options_(options), credits_(options.capacity) {
        DCHECK(options.gate != StageGate::t_gated || options.batch_max > 0);
    }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    // --- producers
    // Call before each enqueue, and before each forward to this stage, if it has a capacity. Parks
    // while the stage is full; false: `deadline` passed first. try_admit() never parks.
    bool admit(Nanos deadline = kNever, ParkReason reason = ParkReason::admission) {
        if (try_admit()) return true;
        suspended_.add();
        return credits_.acquire(1, deadline, reason);
    }
    bool try_admit() { return options_.capacity == 0 || credits_.try_acquire(1); }
    // The stage owns `packet` until it is finished, forwarded or cancelled.
    void enqueue(Line& line, P& packet, Nanos now) {
        entered_.add();
        // STG-3: admit() came before.
        DCHECK(options_.capacity == 0 || inside() <= options_.capacity || kShared);
        place(line, packet, now);
    }

    // --- the server: batches through the gate
    Batch open(Line& line) const;
    // The batch's next packet, now in service. Null: the batch is over and counted.
    P* dequeue(Batch& batch, Nanos now) {
        P* packet = batch.left ? batch.line->first : nullptr;
        if (!packet) return close(batch);
        --batch.left;
        ++batch.taken;
        take(*batch.line, *packet, now);
        return packet;
    }
    // The whole batch in one chain linked by `next`, or null if no packet waits. Given `before`,
    // the chain is stably sorted.
    P* dequeue_all(Line& line, Nanos now) { return dequeue_all(line, now, nullptr); }
    template <class Before>
    P* dequeue_all(Line& line, Nanos now, Before before);
    // c_gated: true if a packet with this much work leaves the stage only in a later batch. It gets
    // `cutoff` of service now. Where nobody knows the work before, it is the service that the
    // packet has had in this batch.
    bool stays_behind(Nanos work) const { return gate().cuts && work > options_.cutoff; }

    // --- the server: one by one, any packet of the line. served_together() counts a group that is
    // served at once.
    void take(Line& line, P& packet, Nanos now) {
        unlink(line, packet);
        taken_.add();
        wait_.record(now > packet.entered ? now - packet.entered : 0);
    }
    // Moves a waiting packet before `place`, which stands in front of it. For an order that is
    // known only at service time. Counts as overtaking. False, without a move, if a packet between
    // them has been overtaken bypass_max times.
    bool promote(Line& line, P& packet, P& place);
    void served_together(uint64_t packets) {
        DCHECK(packets > 0);
        batch_.record(packets);
    }

    // --- the end of service, or of the wait
    void finish(uint64_t packets = 1) {
        finished_.add(packets);
        assert_state();
        return_credits(packets);
    }
    void requeue(Line& line, P& packet, Nanos now) {
        requeued_.add();
        assert_state();
        place(line, packet, now);
    }
    // The caller has been admitted to `to`.
    template <bool kOther>
    void forward(P& packet, Stage<P, kOther>& to, StageLine<P>& to_line, Nanos now) {
        forwarded_.add();
        assert_state();
        return_credits(1);
        to.enqueue(to_line, packet, now);
    }
    void cancel(Line& line, P& packet) {
        unlink(line, packet);
        cancelled_.add();
        return_credits(1);
    }

    const StageOptions<P>& options() const { return options_; }
    const StageGatePolicy& gate() const { return policy_of(options_.gate); }
    // --- statistics
    StageStats stats() const;
    // Checks STG-1 against the packets that the owner finds in the lines and in service. Call while
    // nothing runs. Text of the fault, or empty.
    std::string verify(uint64_t queued, uint64_t in_service) const;
    static std::string verify_line(const Line& line);

private:
    void place(Line& line, P& packet, Nanos now);
    P* overtake(Line& line, const P& packet);
    void count_bypass(P& packet);
    void link(Line& line, P& packet, P* next);
    void unlink(Line& line, P& packet);
    // STG-1: no packet leaves the stage's service more often than it was taken. Of a shared stage,
    // other lines' counters move meanwhile.
    void assert_state() const {
        DCHECK(kShared || finished_.get() + forwarded_.get() + requeued_.get() <= taken_.get());
        DCHECK(kShared || taken_.get() + cancelled_.get() <= entered_.get() + requeued_.get());
    }
    P* close(Batch& batch) {
        if (batch.taken) batch_.record(batch.taken);
        batch.taken = batch.left = 0;
        return nullptr;
    }
    void return_credits(uint64_t packets) {
        if (options_.capacity) credits_.release(packets);
    }
    uint64_t inside() const {
        return entered_.get() - finished_.get() - forwarded_.get() - cancelled_.get();
    }

    const StageOptions<P> options_;
    Semaphore credits_;  // used only with a capacity
    StageCounter<kShared> entered_, taken_, finished_, forwarded_, cancelled_, requeued_, bypasses_,
        bypassed_max_;
    StageCounter<true> suspended_;  // producers hold nothing
    LiveHistogram<kShared> length_, wait_, batch_;
};

// Chooses which of kLines lines is served next: the first non-empty one. A line that was passed
// over `bypass_max` times while non-empty comes before it, so no class starves those below it.
template <size_t kLines>
class StageClasses {
public:
    explicit StageClasses(uint32_t bypass_max) : bypass_max_(bypass_max) {}
    // Bit i of `waiting`: line i is not empty. `waiting` is not zero.
    size_t pick(uint32_t waiting) {
        DCHECK(waiting != 0 && waiting >> kLines == 0);
        size_t chosen = static_cast<size_t>(std::countr_zero(waiting));
        for (size_t i = 0; i < kLines; ++i)
            if ((waiting >> i & 1) && passed_[i] >= bypass_max_ && passed_[i] > passed_[chosen])
                chosen = i;
        for (size_t i = 0; i < kLines; ++i)
            passed_[i] = i != chosen && (waiting >> i & 1) ? passed_[i] + 1 : 0;
        for (size_t i = 0; i < kLines; ++i) DCHECK(passed_[i] < bypass_max_ + kLines);
        return chosen;
    }

private:
    const uint32_t bypass_max_;
    uint32_t passed_[kLines] = {};
};

}  // namespace lockstep::threads

#include "threads/sync/stage_inl.h"
