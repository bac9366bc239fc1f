// stage.h - Stage<Packet>: a bounded queue that sees many requests at once and chooses their order.
// One for locks, one for I/O.
//
// Concepts   A *packet* is one request; it is intrusive (members next, prev, entered, bypassed), so
//            no call allocates. A *line* is one queue of a stage, two pointers and a length, and
//            may live wherever its owner likes: the lock stage keeps one in each contended lock,
//            the I/O stage one per class. The *stage* has what its lines share: order, gate, bound,
//            figures. The *order* says which packet goes before which one that waits; ageing: who
//            was overtaken bypass_max times is overtaken no more, and is a wall for those who come
//            later. The *gate* says how many of those waiting make the next batch. Back-pressure:
//            at most `capacity` packets are inside. admit() suspends the user thread that would
//            bring one more; others, and the stage itself, go on. Room is given first come, first
//            served.
// States     outside -> queued (enqueue) -> in service (dequeue, take) -> outside (finish) | in
//            another stage (forward) | queued again (requeue); queued -> outside (cancel).
// Invariants STG-1 Every packet that entered has finished, been forwarded or cancelled, or is
// inside. [checked: verify()]
//            STG-2 No packet is overtaken by the order more than bypass_max times. [checked:
//            place()]
//            STG-3 No more than `capacity` packets are inside, unless capacity is 0. [checked:
//            enqueue()]
// Sharing    A line and the packets in it are protected by the owner of the line. kShared = false:
//            all calls come from one worker and nothing needs protection. kShared = true: each line
//            is under a lock of its owner's (a bucket's latch, say), and different lines of the
//            stage may be used at the same time; the stage's own figures are atomics.
// Blocking   Only admit() parks (call it without latches). All else may be called under a spin
//            lock.
// Time       Nanos handed in by the caller, who reads a clock only when something waits; 0 =
//            unknown, counts as no wait.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 3.2 (stage, packet,
//            back-pressure) and 3.5.2 (gates).
#pragma once

#include <concepts>
#include <string>

#include <lockstep/stage_stats.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/sync/event.h"
#include "threads/sync/stage_counters.h"

namespace lockstep::threads {

template <class P>
concept StagePacket = requires(P& p) {
    { p.next } -> std::same_as<P*&>;
    { p.prev } -> std::same_as<P*&>;
    { p.entered } -> std::same_as<Nanos&>;      // the queue, last
    { p.bypassed } -> std::same_as<uint32_t&>;  // since then
};

// All-zero bytes are an empty line.
template <class P>
struct StageLine {
    P* first = nullptr;
    P* last = nullptr;
    uint64_t length = 0;
    bool empty() const { return first == nullptr; }
};

// Where an arriving packet stands to one that waits. always_before is not counted as overtaking and
// no ageing stops it.
enum class Precedence : uint8_t { behind, before, always_before };
template <class P>
using StageOrder = Precedence (*)(const P& arriving, const P& waiting);

// How many of a line's packets make a batch (the thesis's names).
enum class StageGate : uint8_t {
    fcfs,     // one
    t_gated,  // at most batch_max of those that wait when it opens
    d_gated,  // all that wait when it opens
    // As d_gated (t_gated if batch_max > 0), and whose remaining work exceeds the cutoff stays
    // behind for the next batch.
    c_gated,
    non_gated,  // all, and those that come while the batch is taken
};

template <class P>
struct StageOptions {
    StageOrder<P> order = nullptr;  // null: first come, first served
    uint32_t bypass_max = 16;
    StageGate gate = StageGate::d_gated;
    uint32_t batch_max = 0;  // t_gated: at least 1
    Nanos cutoff = 0;        // c_gated: service of one packet in one batch
    uint64_t capacity = 0;   // packets inside; 0: as many as come
};

// An open gate: packets of `line` that may still be taken in this batch.
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
        : options_(options), room_(options.capacity) {}
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    // --- producers
    // Before each enqueue, and before each forward to this stage, if it has a capacity. Parks while
    // the stage is full; false: `deadline` passed first. try_admit: for callers that must not park.
    bool admit(Nanos deadline = kNever, ParkReason reason = ParkReason::admission) {
        if (try_admit()) return true;
        suspended_.add();
        return room_.acquire(1, deadline, reason);
    }
    bool try_admit() { return options_.capacity == 0 || room_.try_acquire(1); }
    // `packet` belongs to the stage until it is finished, forwarded or cancelled.
    void enqueue(Line& line, P& packet, Nanos now) {
        entered_.add();
        // STG-3: admit() came before.
        DCHECK(options_.capacity == 0 || inside() <= options_.capacity || kShared);
        place(line, packet, now);
    }

    // --- the server: batches through the gate
    Batch open(Line& line) const;
    // Next of the batch, now in service; null: the batch is over and counted.
    P* dequeue(Batch& batch, Nanos now) {
        P* packet = batch.left ? batch.line->first : nullptr;
        if (!packet) return close(batch);
        if (options_.gate != StageGate::non_gated) --batch.left;
        ++batch.taken;
        take(*batch.line, *packet, now);
        return packet;
    }
    // The whole batch in one chain linked by `next`, stably sorted if `before(a, b)` is given; null
    // if nothing waits.
    P* dequeue_all(Line& line, Nanos now) { return dequeue_all(line, now, nullptr); }
    template <class Before>
    P* dequeue_all(Line& line, Nanos now, Before before);
    // c_gated: does a packet with so much work left leave this stage only in a later batch? It gets
    // `cutoff` of service now.
    bool stays_behind(Nanos remaining) const {
        return options_.gate == StageGate::c_gated && remaining > options_.cutoff;
    }

    // --- the server: one by one, any packet of the line. A group served together is counted by
    // served_together().
    void take(Line& line, P& packet, Nanos now) {
        unlink(line, packet);
        taken_.add();
        wait_.record(now > packet.entered ? now - packet.entered : 0);
    }
    // Moves a waiting packet before `place`, which stands in front of it: an order that is known
    // only when somebody is to be served. Counts as overtaking; false, and nothing is moved, if one
    // of those between has been overtaken bypass_max times.
    bool promote(Line& line, P& packet, P& place);
    void served_together(uint64_t packets) { batch_.record(packets); }

    // --- the end of service, or of the wait
    void finish(uint64_t packets = 1) {
        finished_.add(packets);
        give_room(packets);
    }
    void requeue(Line& line, P& packet, Nanos now) {
        requeued_.add();
        place(line, packet, now);
    }
    // The caller has been admitted to `to`.
    template <bool kOther>
    void forward(P& packet, Stage<P, kOther>& to, StageLine<P>& to_line, Nanos now) {
        forwarded_.add();
        give_room(1);
        to.enqueue(to_line, packet, now);
    }
    void cancel(Line& line, P& packet) {
        unlink(line, packet);
        cancelled_.add();
        give_room(1);
    }

    const StageOptions<P>& options() const { return options_; }
    // --- figures
    StageStats stats() const;
    // STG-1 against what is really there: packets in the lines and in service, as the owner finds
    // them. While nothing runs. Text or empty.
    std::string verify(uint64_t queued, uint64_t in_service) const;
    static std::string verify_line(const Line& line);

private:
    void place(Line& line, P& packet, Nanos now);
    P* overtake(Line& line, const P& packet);
    void count_bypass(P& packet);
    void link(Line& line, P& packet, P* next);
    void unlink(Line& line, P& packet);
    P* close(Batch& batch) {
        if (batch.taken) batch_.record(batch.taken);
        batch.taken = batch.left = 0;
        return nullptr;
    }
    void give_room(uint64_t packets) {
        if (options_.capacity) room_.release(packets);
    }
    uint64_t inside() const {
        return entered_.get() - finished_.get() - forwarded_.get() - cancelled_.get();
    }

    const StageOptions<P> options_;
    Semaphore room_;  // used only with a capacity
    StageCounter<kShared> entered_, taken_, finished_, forwarded_, cancelled_, requeued_, bypasses_,
        bypassed_max_;
    StageCounter<true> suspended_;  // producers hold nothing
    LiveHistogram<kShared> length_, wait_, batch_;
};

// Which of kLines lines is served next: the first that is not empty, but one that was passed over
// `bypass_max` times while it was not empty comes first. So a class with priority cannot starve
// those below it.
template <size_t kLines>
class StageClasses {
public:
    explicit StageClasses(uint32_t bypass_max) : bypass_max_(bypass_max) {}
    // Bit i of `waiting`: line i is not empty. Not zero.
    size_t pick(uint32_t waiting) {
        size_t chosen = static_cast<size_t>(std::countr_zero(waiting));
        for (size_t i = 0; i < kLines; ++i)
            if ((waiting >> i & 1) && passed_[i] >= bypass_max_ && passed_[i] > passed_[chosen])
                chosen = i;
        for (size_t i = 0; i < kLines; ++i)
            passed_[i] = i != chosen && (waiting >> i & 1) ? passed_[i] + 1 : 0;
        return chosen;
    }

private:
    const uint32_t bypass_max_;
    uint32_t passed_[kLines] = {};
};

}  // namespace lockstep::threads

#include "threads/sync/stage_inl.h"
