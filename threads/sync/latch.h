// latch.h - latches on one 64-bit word: shared, exclusive, and optimistic by version.
//
// Concepts   A latch protects memory among threads for a short time. A lock, in contrast, protects
//            data among transactions. The word also carries a payload of 28 bits that belongs to
//            the user. The buffer pool's page table keeps the frame number there. One load then
//            tells where a page is, which holders it has, and its version.
// Layout     bits 0-6 state (0 free, 1..125 shared holders, 126 exclusive, 127 absent), bit 7
//            waiters, bits 8-35 version, bits 36-63 payload.
// States     free -> shared(n) -> free; free -> exclusive -> free with version + 1; absent ->
//            exclusive (page fault), exclusive -> absent (eviction) with version + 1.
// Invariants LA-1 The version grows with every exclusive unlatch. A reader that sees the same
//            version and no exclusive holder, before and after, has read a consistent state.
//            LA-2 Exclusive acquire/release moves current()->latch_depth by +1/-1.
//            LA-3 No switch happens between reading a version and validate(). The order is:
//            prefetch, CTX, read the version, search, validate. [test: simulation]
//            LA-4 The waiters bit is set and cleared only under the bucket's lock. It is set while
//            a thread is queued for the word. A thread that frees a word with that bit set looks
//            into the bucket, so no wake-up is lost.
//            LA-5 No waiter starves. New shared requests queue behind a waiting exclusive request.
//            A releaser passes the latch to a waiter that has lost it often
//            (limits::latch_losses()). [latch.cc]
// Blocking   latch_shared() and latch_exclusive() park the user thread. With several workers they
//            spin a little first. Waiters queue in a parking lot, hashed by the word's address. The
//            optimistic calls never block.
// Source     V. Leis et al., "Virtual-Memory Assisted Buffer Management", 2023 (state word);
//            WebKit's ParkingLot.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/base/sim_point.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

using LatchWord = std::atomic<uint64_t>;

namespace latch {

inline constexpr uint64_t kStateMask = 0x7f, kSharedMax = 125, kExclusive = 126, kAbsent = 127;
inline constexpr uint64_t kWaiters = 1u << 7;
inline constexpr uint64_t kVersionShift = 8, kVersionOne = 1ull << kVersionShift,
                          kVersionMask = ((1ull << 28) - 1) << kVersionShift;
inline constexpr uint64_t kPayloadShift = 36, kPayloadMask = ~((1ull << kPayloadShift) - 1);

static_assert((kStateMask | kWaiters | kVersionMask | kPayloadMask) == ~0ull);
static_assert(kStateMask + kWaiters + kVersionMask + kPayloadMask == ~0ull);  // disjoint
static_assert(kSharedMax + 1 == kExclusive && kExclusive + 1 == kAbsent && kAbsent == kStateMask);
static_assert(LatchWord::is_always_lock_free && sizeof(LatchWord) == 8);
inline uint64_t state(uint64_t word) { return word & kStateMask; }
inline uint64_t payload(uint64_t word) { return word >> kPayloadShift; }
inline uint64_t with_payload(uint64_t word, uint64_t payload) {
    DCHECK(payload <= kPayloadMask >> kPayloadShift);
    return (word & ~kPayloadMask) | (payload << kPayloadShift);
}
inline uint64_t version_bits(uint64_t word) { return word & (kVersionMask | kPayloadMask); }

// Optimistic read. A snapshot is usable if it is neither exclusive nor absent.
inline bool readable(uint64_t snapshot) { return state(snapshot) < kExclusive; }
// True if the protected bytes are unchanged since `snapshot` was loaded (LA-1). The payload bits
// must be unchanged too.
inline bool validate(const LatchWord& word, uint64_t snapshot) {
    SIM_POINT();
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t now = word.load(std::memory_order_relaxed);
    return version_bits(now) == version_bits(snapshot) && readable(now);
}

// Waits, and releases with waiters: latch.cc.
namespace slow {
[[gnu::cold, gnu::noinline]] bool wait_shared(LatchWord& word);
[[gnu::cold, gnu::noinline]] bool wait_exclusive(LatchWord& word);
[[gnu::cold, gnu::noinline]] void release_shared(LatchWord& word);
[[gnu::cold, gnu::noinline]] void release_exclusive(LatchWord& word);
}  // namespace slow

// After each acquisition in exclusive mode. LA-1: on arm64 the holder's next stores must not become
// visible before the word; pairs with validate(). LA-2: foreign kernel threads may use latches too,
// and have no depth.
inline void count_exclusive() {
    std::atomic_thread_fence(std::memory_order_release);
    if (Thread* self = current()) ++self->latch_depth;
}
inline void uncount_exclusive() {
    if (Thread* self = current()) {
        DCHECK(self->latch_depth > 0);
        --self->latch_depth;
    }
}
inline uint64_t with_state(uint64_t word, uint64_t state) {
    DCHECK(state <= kStateMask);
    return (word & ~kStateMask) | state;
}
inline uint64_t next_version(uint64_t word) {
    return (word & ~kVersionMask) | ((word + kVersionOne) & kVersionMask);
}

// These calls never block. try_shared() also fails while the waiters bit is set, so that a stream
// of readers lets a writer in. try_upgrade() makes an optimistic reader with `snapshot` the
// exclusive holder, if the word is free and unchanged. A shared holder releases its own hold
// before.
inline bool try_shared(LatchWord& word) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_relaxed);
    while ((seen & (kStateMask | kWaiters)) < kSharedMax)
        if (word.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) [[likely]]
            return true;
    return false;
}

inline bool try_exclusive(LatchWord& word) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_relaxed);
    while (state(seen) == 0) {
        if (word.compare_exchange_weak(seen, seen | kExclusive, std::memory_order_acquire,
                                       std::memory_order_relaxed)) [[likely]] {
            count_exclusive();
            return true;
        }
    }
    return false;
}

inline bool try_upgrade(LatchWord& word, uint64_t snapshot) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_relaxed);
    while (state(seen) == 0 && version_bits(seen) == version_bits(snapshot)) {
        if (word.compare_exchange_weak(seen, seen | kExclusive, std::memory_order_acquire,
                                       std::memory_order_relaxed)) [[likely]] {
            count_exclusive();
            return true;
        }
    }
    return false;
}

// Wait without a deadline. False only if the word is absent; the caller then faults the page in and
// tries again.
[[nodiscard]] inline bool latch_shared(LatchWord& word) {
    return try_shared(word) || slow::wait_shared(word);
}
[[nodiscard]] inline bool latch_exclusive(LatchWord& word) {
    return try_exclusive(word) || slow::wait_exclusive(word);
}

inline void unlatch_shared(LatchWord& word) {
    SIM_POINT();
    uint64_t seen = word.load(std::memory_order_relaxed);
    DCHECK(state(seen) >= 1 && state(seen) <= kSharedMax);
    while (!(seen & kWaiters))
        if (word.compare_exchange_weak(seen, seen - 1, std::memory_order_release,
                                       std::memory_order_relaxed)) [[likely]]
            return;
    slow::release_shared(word);
}

inline void unlatch_exclusive(LatchWord& word) {
    SIM_POINT();
    uncount_exclusive();
    uint64_t seen = word.load(std::memory_order_relaxed);
    DCHECK(state(seen) == kExclusive);
    while (!(seen & kWaiters))
        if (word.compare_exchange_weak(seen, next_version(with_state(seen, 0)),
                                       std::memory_order_release, std::memory_order_relaxed))
            [[likely]]
            return;
    slow::release_exclusive(word);
}

// An exclusive hold changes owner. disown(): from the current thread to no thread, for example to
// an active I/O request. adopt(): from there to the current thread, which will unlatch.
inline void disown() { uncount_exclusive(); }
inline void adopt() { count_exclusive(); }

// For the buffer pool. fault_begin(): absent -> exclusive; false if another thread was first.
// set_payload(): exclusive holder only.
bool fault_begin(LatchWord& word);
void set_payload(LatchWord& word, uint64_t payload);
// By the exclusive holder: version + 1, absent, payload 0; wakes the waiters.
void unlatch_to_absent(LatchWord& word);
// Waits while the word is exclusive, for example while another thread reads the page in. Acquires
// nothing; the word may be exclusive again on return.
void wait_while_exclusive(LatchWord& word);

}  // namespace latch

// A latch for structures other than pages, with a rank. A thread may only take a latch of higher
// rank than all it holds (checked in debug builds).
class Latch {
public:
    explicit Latch(uint16_t rank, const char* name) : rank_(rank), name_(name) {}
    Latch(const Latch&) = delete;
    Latch& operator=(const Latch&) = delete;
    void lock_shared() {
        check_rank();
        CHECK(latch::latch_shared(word_));  // never absent
        note_held();
    }
    void unlock_shared() {
        note_released();
        latch::unlatch_shared(word_);
    }
    void lock() {
        check_rank();
        CHECK(latch::latch_exclusive(word_));
        note_held();
    }
    bool try_lock() {  // of any rank: trying cannot deadlock
        if (!latch::try_exclusive(word_)) return false;
        note_held();
        return true;
    }
    void unlock() {
        note_released();
        latch::unlatch_exclusive(word_);
    }
    const char* name() const { return name_; }

private:
#ifdef LOCKSTEP_DEBUG_CHECKS
    void check_rank() const;
    void note_held() const;
    void note_released() const;
#else
    void check_rank() const {}
    void note_held() const {}
    void note_released() const {}
#endif

    LatchWord word_{0};
    [[maybe_unused]] uint16_t rank_;  // used by the debug build's checks
    const char* name_;
};

}  // namespace lockstep::threads
