// lock_bucket.h - layout of the lock table: bucket, thin entry, fat head, request.
//
// Layout     LockBucket, 64 bytes: latch (1 byte), commit note (6), overflow bucket (8), three
//            entries of 16 (name, word). A word is
//              thin: bits 0-6 mode, bit 7 = 0, bits 8.. owner slot;
//              fat:  bit 7 = 1, bits 8.. address of the LockHead.
// States     Entry: none -> thin (first lock) -> fat (inflate(): second owner or a waiter) -> thin
//            or none (deflate()).
// Invariants LK-1 to LK-5 stand in lock_impl.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/stage.h"
#include "txn/lock/lock_manager.h"

namespace lockstep::txn {

inline constexpr LockMode without(LockMode a, LockMode b) {
    return static_cast<LockMode>(static_cast<uint8_t>(a) & ~static_cast<uint8_t>(b));
}
inline constexpr LockMode kAllRights = static_cast<LockMode>(127);

struct LockEntry {
    uint64_t name;  // 0 = free
    uint64_t word;
};

// All-zero bytes are an empty bucket.
struct alignas(kCacheLineBytes) LockBucket {
    SpinLock latch;
    // The commit note, in two parts; of the first bucket of a chain, under its latch.
    uint16_t note_high = 0;
    uint32_t note_low = 0;
    LockBucket* overflow = nullptr;
    LockEntry entries[3] = {};

    uint64_t note() const { return uint64_t{note_high} << 32 | note_low; }
    void raise_note(uint64_t note_of_commit) {
        DCHECK(latch.is_held() && note_of_commit <= kNoteMax);  // LK-5
        if (note_of_commit <= note()) return;
        note_low = static_cast<uint32_t>(note_of_commit);
        note_high = static_cast<uint16_t>(note_of_commit >> 32);
    }

    // Of the first bucket of a chain: latched; what has a name has rights or a head.
    void assert_state() const {
        DCHECK(latch.is_held());
        DCHECK(entries[0].name == 0 || (entries[0].word & 0xff) != 0);
        DCHECK(entries[1].name == 0 || (entries[1].word & 0xff) != 0);
        DCHECK(entries[2].name == 0 || (entries[2].word & 0xff) != 0);
        DCHECK(entries[0].name == 0 || entries[0].name != entries[1].name);
        DCHECK(entries[0].name == 0 || entries[0].name != entries[2].name);
        DCHECK(overflow != this);
    }
};
static_assert(sizeof(LockBucket) == kCacheLineBytes);

// How many requests hold (or want) each right, and which rights at all.
struct RightCounts {
    uint16_t count[7];
    LockMode mask;

    void add(LockMode mode) {
        for (unsigned bits = static_cast<uint8_t>(mode); bits; bits &= bits - 1)
            ++count[std::countr_zero(bits)];
        DCHECK(static_cast<uint8_t>(mode) < 128);
        mask = mask | mode;
        assert_state();
    }
    void remove(LockMode mode) {
        assert_state();
        DCHECK(txn::without(mode, mask) == LockMode::none);  // only what was added
        for (unsigned bits = static_cast<uint8_t>(mode); bits; bits &= bits - 1)
            if (--count[std::countr_zero(bits)] == 0)
                mask = txn::without(mask, static_cast<LockMode>(bits & -bits));
    }
    // A right is in the mask exactly if its count is not zero.
    void assert_state() const {
        for ([[maybe_unused]] unsigned i = 0; i < 7; ++i)
            DCHECK((count[i] != 0) == ((static_cast<uint8_t>(mask) >> i & 1) != 0));
    }
    // The rights that remain without one request that has `own`.
    LockMode without(LockMode own) const {
        LockMode rest = mask;
        for (unsigned bits = static_cast<uint8_t>(own); bits; bits &= bits - 1)
            if (count[std::countr_zero(bits)] == 1)
                rest = txn::without(rest, static_cast<LockMode>(bits & -bits));
        return rest;
    }
};

struct LockHead;

// A granted or a waiting request of a fat lock. Fields are under the bucket's latch. `name` is
// atomic: the deadlock search reads it to find the bucket, and the request may be freed meanwhile.
struct alignas(kCacheLineBytes) LockRequest {
    LockRequest* next = nullptr;  // among the granted, or in the line
    LockRequest* prev = nullptr;
    // Waiting: begin of the wait. Granted: since when it is known to be held, 0 = unknown.
    Nanos entered = 0;
    uint32_t bypassed = 0;  // waiting: times overtaken
    LockMode granted = LockMode::none;
    LockMode wanted = LockMode::none;  // waiting
    bool instant = false;              // waiting: take nothing when granted
    uint8_t worker = 0;                // waiting: worker of its thread
    std::atomic<uint64_t> name{0};
    LockOwner* owner = nullptr;
    LockHead* head = nullptr;
    LockRequest* own = nullptr;  // waiting conversion: the owner's granted request
};
static_assert(sizeof(LockRequest) == kCacheLineBytes);

using LockStage = threads::Stage<LockRequest, true>;  // lines: under the bucket's latch

struct alignas(kCacheLineBytes) LockHead {
    union {
        LockRequest* granted_first = nullptr;  // any order
        LockHead* pool_next;                   // while in its pool
    };
    // Who waits: conversions, then the others in the policy's order.
    LockStage::Line line = {};
    RightCounts granted = {};
    RightCounts waiting = {};  // wanted rights

    // Under the bucket's latch: the counts are those of the requests, and the links agree (LM-3).
    void assert_state() const {
#ifdef LOCKSTEP_DEBUG_CHECKS
        RightCounts held = {}, wanted = {};
        const LockRequest* before = nullptr;
        for (const LockRequest* at = granted_first; at; before = at, at = at->next) {
            DCHECK(at->prev == before && at->head == this);
            DCHECK(at->granted != LockMode::none && at->owner != nullptr);
            held.add(at->granted);
        }
        for (const LockRequest* at = line.first; at; at = at->next) {
            DCHECK(at->head == this && at->wanted != LockMode::none);
            DCHECK(at->owner->waiting.load(std::memory_order_relaxed) == at);
            DCHECK(!at->own || (at->own->owner == at->owner && at->own->head == this));
            wanted.add(at->wanted);
        }
        DCHECK(held.mask == granted.mask && wanted.mask == waiting.mask);
        DCHECK(std::equal(held.count, held.count + 7, granted.count));
        DCHECK(std::equal(wanted.count, wanted.count + 7, waiting.count));
#endif
    }
};
static_assert(sizeof(LockHead) == kCacheLineBytes && sizeof(RightCounts) == 16);

namespace word {
inline constexpr uint64_t kFat = 0x80;
inline uint64_t thin(uint32_t slot, LockMode mode) {
    DCHECK(slot <= UINT16_MAX && mode != LockMode::none && static_cast<uint8_t>(mode) < kFat);
    return (uint64_t{slot} << 8) | static_cast<uint8_t>(mode);
}
inline uint64_t fat(const LockHead* head) {
    DCHECK(head != nullptr && reinterpret_cast<uint64_t>(head) >> 56 == 0);  // no bit is lost
    return (reinterpret_cast<uint64_t>(head) << 8) | kFat;
}
inline bool is_fat(uint64_t word) { return word & kFat; }
inline bool is_thin_of(uint64_t word, uint32_t slot) {
    return (word & ~uint64_t{0x7f}) == uint64_t{slot} << 8;
}
inline LockMode mode(uint64_t word) { return static_cast<LockMode>(word & 0x7f); }
inline uint32_t slot(uint64_t word) {
    DCHECK(!is_fat(word) && word >> 8 <= UINT16_MAX);
    return static_cast<uint32_t>(word >> 8);
}
inline LockHead* head(uint64_t word) {
    DCHECK(is_fat(word));
    return reinterpret_cast<LockHead*>(word >> 8);
}
}  // namespace word

}  // namespace lockstep::txn
