// latch.cc - waiting for latches: the parking lot, and releases with waiters.
//
// Concepts   A word has no space for a queue. Waiters therefore queue in a fixed array of buckets,
//            chosen by the word's address. The array is the only process-wide structure of the
//            project. It holds no state of a store, only which thread waits for which address. It
//            is empty when no thread waits. A releaser first frees the word, then wakes the front
//            of its queue: one exclusive waiter, or all shared ones before the first exclusive.
//            Woken threads compete with newcomers, so a latch stays usable while a woken thread is
//            not yet running. A thread that loses the race queues at the front again. After
//            limits::latch_losses() losses the releaser transfers the latch to it instead of
//            freeing it (LA-5).
// Blocking   Waits park the user thread, after a short spin if the holder may run on another kernel
//            thread.
// Source     WebKit's ParkingLot and WordLock.
#include "threads/sync/latch.h"

#include <sched.h>

#include "threads/base/hints.h"
#include "threads/base/limits.h"
#include "threads/base/sim_point.h"
#include "threads/sync/event.h"

namespace lockstep::threads::latch {
namespace {

// observe: wakes at the release and acquires nothing.
enum class Want : uint8_t { shared, exclusive, observe };
enum class Outcome : uint8_t { taken, absent, busy };

struct LatchWaiter : Waiter {  // tag = address of the word
    Want want{};
    bool starved = false;  // the releaser must pass the latch
    bool granted = false;  // has been passed the latch. Under the bucket's lock
};

struct alignas(kCacheLineBytes) Bucket {
    SpinLock lock;
    WaitQueue queue;  // under lock
};
constexpr uint32_t kBucketBits = 10;
constinit Bucket buckets[1u << kBucketBits];

uint64_t address(const LatchWord& word) { return reinterpret_cast<uintptr_t>(&word); }

// Checks a value of a latch word: an absent word has no waiters, because waiters are woken first.
inline void assert_state([[maybe_unused]] uint64_t seen) {
    DCHECK(state(seen) != kAbsent || !(seen & kWaiters));
    DCHECK(state(seen) != kAbsent || payload(seen) == 0);
}
Bucket& bucket_of(const LatchWord& word) {
    return buckets[((address(word) >> 3) * 0x9e3779b97f4a7c15ull) >> (64 - kBucketBits)];
}

LatchWaiter* first_of(const Bucket& bucket, uint64_t tag, Waiter* from = nullptr) {
    DCHECK(bucket.lock.is_held());
    for (Waiter* w = from != nullptr ? from->next : bucket.queue.first(); w != nullptr; w = w->next)
        if (w->tag == tag) return static_cast<LatchWaiter*>(w);
    return nullptr;
}

// `pass`: may take a shared latch past the waiters bit.
Outcome try_take(LatchWord& word, Want want, bool pass) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_acquire);
    for (;;) {
        assert_state(seen);
        const uint64_t now = state(seen);
        uint64_t desired;
        if (now == kAbsent) return Outcome::absent;
        if (want == Want::observe) return now == kExclusive ? Outcome::busy : Outcome::taken;
        if (want == Want::exclusive && now == 0) desired = seen | kExclusive;
        else if (want == Want::shared && now < kSharedMax && (pass || !(seen & kWaiters)))
            desired = seen + 1;
        else return Outcome::busy;
        if (word.compare_exchange_weak(seen, desired, std::memory_order_acquire))
            return Outcome::taken;
    }
}

bool must_wait(const Bucket& bucket, uint64_t tag, uint64_t seen, const LatchWaiter& me,
               bool again) {
    assert_state(seen);
    const uint64_t now = state(seen);
    if (now == kAbsent) return false;
    if (now == kExclusive) return true;
    switch (me.want) {
        case Want::observe: return false;
        case Want::exclusive: return now != 0;
        case Want::shared: break;
    }
    if (now == kSharedMax) return true;
    if (again || !(seen & kWaiters)) return false;
    for (LatchWaiter* w = first_of(bucket, tag); w != nullptr; w = first_of(bucket, tag, w))
        if (w->want == Want::exclusive) return true;
    return false;
}

// Joins the queue if the word is still held. False: try to acquire again.
bool enqueue(LatchWord& word, LatchWaiter& me, bool again) {
    DCHECK(!me.granted && me.tag == address(word));
    Bucket& bucket = bucket_of(word);
    SpinGuard guard(bucket.lock);
    uint64_t seen = word.load(std::memory_order_relaxed);
    do {
        if (!must_wait(bucket, me.tag, seen, me, again)) return false;
    } while (!(seen & kWaiters) &&
             !word.compare_exchange_weak(seen, seen | kWaiters, std::memory_order_relaxed));
    SIM_POINT();
    if (again) bucket.queue.add_front(me);
    else bucket.queue.add(me);
    return true;
}

void park_until_dequeued(LatchWord& word, const LatchWaiter& me) {
    Bucket& bucket = bucket_of(word);
    for (;;) {
        park(ParkReason::latch);
        SpinGuard guard(bucket.lock);
        if (!me.queued) return;
    }
}

// A foreign kernel thread cannot park: it yields its time slice.
bool poll_for(LatchWord& word, Want want) {
    for (;;) {
        const Outcome outcome = try_take(word, want, false);
        if (outcome != Outcome::busy) return outcome == Outcome::taken;
        sched_yield();
    }
}

bool wait_for(LatchWord& word, Want want) {
    Thread* self = current();
    if (self == nullptr) return poll_for(word, want);
    const uint32_t spins = worker_local.latch_spins;
    LatchWaiter me;
    me.thread = self;
    me.tag = address(word);
    me.want = want;
    bool pass = false;
    for (uint32_t waits = 0;;) {
        Outcome outcome = try_take(word, want, pass);
        for (uint32_t i = 0; outcome == Outcome::busy && i < spins; ++i) {
            cpu_relax();
            outcome = try_take(word, want, pass);
        }
        if (outcome != Outcome::busy) return outcome == Outcome::taken;
        me.starved = waits >= limits::latch_losses();
        if (enqueue(word, me, waits > 0)) {
            park_until_dequeued(word, me);
            DCHECK(!me.granted || want == Want::shared ||
                   state(word.load(std::memory_order_relaxed)) == kExclusive);
            if (me.granted) return true;
            if (want == Want::observe) return true;
            ++waits;
        }
        pass = true;  // it has waited, or no exclusive request waits
    }
}

// State of a word after a release: 0, or the hold that the starved front of its queue receives.
uint64_t handed_state(const Bucket& bucket, uint64_t tag) {
    uint64_t shared = 0;
    bool starved = false;
    for (LatchWaiter* w = first_of(bucket, tag); w != nullptr && shared < kSharedMax;
         w = first_of(bucket, tag, w)) {
        if (w->want == Want::observe) continue;
        if (w->want == Want::exclusive) {
            if (shared == 0 && w->starved) return kExclusive;
            break;
        }
        ++shared;
        starved |= w->starved;
    }
    DCHECK(shared <= kSharedMax);
    return starved ? shared : 0;
}

// Removes the front of the word's queue; `handed` as above. Sets the waiters bit as LA-4 requires.
void wake_front(LatchWord& word, Bucket& bucket, uint64_t handed, WakeBatch& batch) {
    const uint64_t tag = address(word);
    uint64_t shared = 0;
    bool more = false;
    for (LatchWaiter* w = first_of(bucket, tag); w != nullptr;) {
        LatchWaiter* next = first_of(bucket, tag, w);
        const bool exclusive = w->want == Want::exclusive;
        if ((exclusive && shared > 0) || shared == kSharedMax) {
            more = true;
            break;
        }
        if (w->want == Want::shared) ++shared;
        w->granted = w->want != Want::observe && handed != 0;
        bucket.queue.remove(*w);
        batch.add(w->thread);
        if (exclusive) {
            more = next != nullptr;
            break;
        }
        w = next;
    }
    // The number of threads that were granted the latch equals the word's count.
    DCHECK(handed == 0 || handed == kExclusive || shared == handed);
    DCHECK(handed != kExclusive || shared == 0);
    if (!more) word.fetch_and(~kWaiters, std::memory_order_relaxed);
}

}  // namespace

bool slow::wait_shared(LatchWord& word) { return wait_for(word, Want::shared); }

bool slow::wait_exclusive(LatchWord& word) {
    if (!wait_for(word, Want::exclusive)) return false;
    count_exclusive();
    return true;
}

void slow::release_shared(LatchWord& word) {
    Bucket& bucket = bucket_of(word);
    WakeBatch batch;
    SpinGuard guard(bucket.lock);
    uint64_t seen = word.load(std::memory_order_relaxed);
    uint64_t handed;
    assert_state(seen);
    do {  // other holders may come and go while several share
        handed = state(seen) == 1 ? handed_state(bucket, address(word)) : 0;
    } while (!word.compare_exchange_weak(seen,
                                         state(seen) == 1 ? with_state(seen, handed) : seen - 1,
                                         std::memory_order_acq_rel, std::memory_order_relaxed));
    DCHECK(state(seen) >= 1 && state(seen) <= kSharedMax);
    DCHECK(handed == 0 || (seen & kWaiters));
    if (state(seen) == 1 && (seen & kWaiters)) wake_front(word, bucket, handed, batch);
}

void slow::release_exclusive(LatchWord& word) {
    Bucket& bucket = bucket_of(word);
    WakeBatch batch;
    SpinGuard guard(bucket.lock);
    const uint64_t handed = handed_state(bucket, address(word));
    // No other thread changes the word: it is exclusive, and LA-4 holds.
    const uint64_t seen = word.load(std::memory_order_relaxed);
    CHECK(state(seen) == kExclusive);
    DCHECK(handed == 0 || (seen & kWaiters));
    word.store(next_version(with_state(seen, handed)), std::memory_order_release);
    SIM_POINT();
    if (seen & kWaiters) wake_front(word, bucket, handed, batch);
}

bool fault_begin(LatchWord& word) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_relaxed);
    assert_state(seen);
    while (state(seen) == kAbsent) {
        if (word.compare_exchange_weak(seen, with_state(seen, kExclusive),
                                       std::memory_order_acquire, std::memory_order_relaxed)) {
            count_exclusive();
            return true;
        }
    }
    return false;
}

void set_payload(LatchWord& word, uint64_t payload) {
    uint64_t seen = word.load(std::memory_order_relaxed);
    DCHECK(state(seen) == kExclusive);
    while (!word.compare_exchange_weak(seen, with_payload(seen, payload), std::memory_order_release,
                                       std::memory_order_relaxed)) {}
}

void unlatch_to_absent(LatchWord& word) {
    uncount_exclusive();
    Bucket& bucket = bucket_of(word);
    const uint64_t tag = address(word);
    WakeBatch batch;
    SpinGuard guard(bucket.lock);
    const uint64_t seen = word.load(std::memory_order_relaxed);
    CHECK(state(seen) == kExclusive);
    word.store(with_payload(with_state(next_version(seen), kAbsent), 0) & ~kWaiters,
               std::memory_order_release);
    if (!(seen & kWaiters)) return;
    while (LatchWaiter* waiter = first_of(bucket, tag)) {
        bucket.queue.remove(*waiter);
        batch.add(waiter->thread);
    }
}

void wait_while_exclusive(LatchWord& word) { wait_for(word, Want::observe); }

}  // namespace lockstep::threads::latch

#ifdef LOCKSTEP_DEBUG_CHECKS
namespace lockstep::threads {

void Latch::check_rank() const {
    const Thread* self = current();
    if (self == nullptr || self->rank_count == 0) return;
    CHECK(self->ranks[self->rank_count - 1] < rank_);  // latches are taken in ascending rank
}

// try_lock may come out of order: the array stays sorted.
void Latch::note_held() const {
    Thread* self = current();
    if (self == nullptr) return;
    CHECK(self->rank_count < std::size(self->ranks));
    uint32_t at = self->rank_count++;
    for (; at > 0 && self->ranks[at - 1] > rank_; --at) self->ranks[at] = self->ranks[at - 1];
    self->ranks[at] = rank_;
}

void Latch::note_released() const {
    Thread* self = current();
    if (self == nullptr) return;
    uint32_t at = 0;
    while (at < self->rank_count && self->ranks[at] != rank_) ++at;
    // A latch is released by the thread that took it.
    CHECK(at < self->rank_count);
    for (--self->rank_count; at < self->rank_count; ++at) self->ranks[at] = self->ranks[at + 1];
}

}  // namespace lockstep::threads
#endif
