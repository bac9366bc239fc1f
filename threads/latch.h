// latch.h - latches on one 64-bit word: shared, exclusive, and optimistic by version.
//
// Concepts   A latch protects memory among threads for a short time; it is no lock (locks protect data among transactions).
//            The word also carries a payload of 28 bits that belongs to the user: the buffer pool's page table keeps the
//            frame number there, so one load tells where a page is, who holds it and which version it has.
// Layout     bits 0-6 state (0 free, 1..125 shared holders, 126 exclusive, 127 absent), bit 7 somebody waits,
//            bits 8-35 version, bits 36-63 payload.
// States     free -> shared(n) -> free; free -> exclusive -> free with version + 1; absent -> exclusive (page fault),
//            exclusive -> absent (eviction) with version + 1.
// Invariants LA-1 The version grows with every exclusive unlatch: a reader that sees the same version and no exclusive holder
//                 before and after has read a consistent state.
//            LA-2 Exclusive acquire/release moves current()->latch_depth by +1/-1.
//            LA-3 Between read_version and validate there is no switch: see design, "prefetch, CTX, read, search, validate".
// Blocking   latch_shared/latch_exclusive park the user thread (waiters sit in a parking lot hashed by word address); they
//            spin a little first when there are several workers. The optimistic calls never block.
// Source     V. Leis et al., "Virtual-Memory Assisted Buffer Management", 2023 (state word); WebKit's ParkingLot.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/thread.h"

namespace lockstep::threads {

using LatchWord = std::atomic<uint64_t>;

namespace latch {

inline constexpr uint64_t kStateMask = 0x7f, kSharedMax = 125, kExclusive = 126, kAbsent = 127;
inline constexpr uint64_t kWaiters = 1u << 7;
inline constexpr uint64_t kVersionShift = 8, kVersionOne = 1ull << kVersionShift, kVersionMask = ((1ull << 28) - 1) << kVersionShift;
inline constexpr uint64_t kPayloadShift = 36, kPayloadMask = ~((1ull << kPayloadShift) - 1);

inline uint64_t state(uint64_t word) { return word & kStateMask; }
inline uint64_t payload(uint64_t word) { return word >> kPayloadShift; }
inline uint64_t with_payload(uint64_t word, uint64_t payload) { return (word & ~kPayloadMask) | (payload << kPayloadShift); }
inline uint64_t version_bits(uint64_t word) { return word & (kVersionMask | kPayloadMask); }

// Optimistic read. A snapshot is usable if it is neither exclusive nor absent.
inline bool readable(uint64_t snapshot) { return state(snapshot) < kExclusive; }
// True if nobody changed the protected bytes since `snapshot` was loaded (LA-1). Payload bits may not have changed either.
inline bool validate(const LatchWord& word, uint64_t snapshot) {
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t now = word.load(std::memory_order_relaxed);
    return version_bits(now) == version_bits(snapshot) && readable(now);
}

// Never block. try_upgrade: shared holder or optimistic reader with `snapshot` becomes the exclusive holder if nobody changed
// or holds the word (its own shared hold, if any, is given up by the caller before).
bool try_shared(LatchWord& word);
bool try_exclusive(LatchWord& word);
bool try_upgrade(LatchWord& word, uint64_t snapshot);

// Wait for as long as it takes. False only if the word is absent (the caller then faults the page in and asks again).
[[nodiscard]] bool latch_shared(LatchWord& word);
[[nodiscard]] bool latch_exclusive(LatchWord& word);
void unlatch_shared(LatchWord& word);
void unlatch_exclusive(LatchWord& word);

// For the buffer pool. fault_begin: absent -> exclusive, false if somebody else was first. set_payload: exclusive holder only.
bool fault_begin(LatchWord& word);
void set_payload(LatchWord& word, uint64_t payload);
void unlatch_to_absent(LatchWord& word);        // exclusive holder: version + 1, absent, payload 0, waiters woken
// Waits while the word is exclusive (for instance while another thread reads the page in), taking nothing.
void wait_while_exclusive(LatchWord& word);

}  // namespace latch

// A latch for other structures than pages, with a rank: a thread may only take a latch of higher rank than those it holds
// (checked in debug builds).
class Latch {
public:
    explicit Latch(uint16_t rank, const char* name) : rank_(rank), name_(name) {}
    void lock_shared();
    void unlock_shared();
    void lock();
    bool try_lock();
    void unlock();

private:
    LatchWord word_{0};
    uint16_t rank_;
    const char* name_;
};

}  // namespace lockstep::threads
