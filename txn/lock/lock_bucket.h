// lock_bucket.h - layout of the lock table: bucket, thin entry, fat head, request.
//
// Layout     LockBucket, 64 bytes: header (8), overflow bucket (8), three entries of 16 (name,
//            word). A header is
//              bit 0 latch; bits 1-3 entries in use; bit 4 odd; bits 8-15 depth; bits 16-63 note.
//            A word is
//              thin: bits 0-6 mode, bit 7 = 0, bits 8.. owner slot;
//              fat:  bit 7 = 1, bits 8.. address of the LockHead.
// Concepts   One load of the header answers the common questions together: is the bucket latched,
//            does it have any lock, is it the bucket of the name. One exchange of it frees the only
//            entry of a bucket, with the commit note.
// States     Entry: none -> thin (first lock) -> fat (inflate(): second owner or a waiter) -> thin
//            or none (deflate()).
// Invariants LK-1 to LK-6 stand in lock_impl.h, LT-1 to LT-4 in lock_resize.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/base/sim_point.h"
#include "threads/sync/stage.h"
#include "txn/lock/lock_array.h"
#include "txn/lock/lock_manager.h"

namespace lockstep::txn {

inline constexpr LockMode kAllRights = static_cast<LockMode>(127);

// A word that threads read while the holder of the bucket's latch changes it.
class LatchedWord {
public:
    // NOLINTNEXTLINE(google-explicit-constructor)
    operator uint64_t() const { return value_.load(std::memory_order_relaxed); }
    LatchedWord& operator=(uint64_t value) {
        value_.store(value, std::memory_order_relaxed);
        return *this;
    }
    LatchedWord& operator|=(uint64_t bits) { return *this = *this | bits; }
    LatchedWord& operator&=(uint64_t bits) { return *this = *this & bits; }

private:
    std::atomic<uint64_t> value_{0};
};

// Counts only if the header of its bucket says that it is in use.
struct LockEntry {
    LatchedWord name;
    LatchedWord word;
};

// All-zero bytes are a bucket that is not part of the table.
struct alignas(kCacheLineBytes) LockBucket {
    static constexpr unsigned kEntries = 3;
    static constexpr uint64_t kLatched = 1;
    static constexpr uint64_t kOdd = 16;  // an entry is fat, or there are overflow buckets
    static constexpr uint64_t kUsedMask = 14;
    static constexpr unsigned kDepthAt = LockArray::kDepthAt, kNoteAt = 16;
    static constexpr uint64_t used_bit(unsigned entry) { return uint64_t{2} << entry; }
    static constexpr uint32_t depth_of(uint64_t header) {
        return static_cast<uint8_t>(header >> kDepthAt);
    }
    static constexpr uint64_t header_of(uint32_t depth, uint64_t note = 0) {
        return uint64_t{depth} << kDepthAt | note << kNoteAt;
    }
    static constexpr uint64_t note_of(uint64_t header) { return header >> kNoteAt; }

    // Of an overflow bucket only the used entries count. The holder of the latch changes it with
    // plain stores; see normalise().
    std::atomic<uint64_t> header{0};
    LockBucket* overflow = nullptr;  // under the latch
    LockEntry entries[kEntries];

    uint64_t head() const { return header.load(std::memory_order_relaxed); }
    bool is_held() const { return head() & kLatched; }
    uint32_t depth() const { return depth_of(head()); }
    // Takes the latch if the header is still `seen`, which was not latched.
    bool try_latch(uint64_t seen) {
        DCHECK(!(seen & kLatched));
        if (!header.compare_exchange_strong(seen, seen | kLatched, std::memory_order_acq_rel,
                                            std::memory_order_relaxed))
            return false;
        SIM_HOLD(1);
        return true;
    }
    // Releases it with a header that the holder has computed.
    void unlatch(uint64_t changed) {
        DCHECK(is_held() && !(changed & kLatched));
        DCHECK(changed == 0 || note_of(changed) >= note());  // LK-5
        header.store(changed, std::memory_order_release);
        SIM_HOLD(-1);
        SIM_POINT();
    }
    void unlatch() { unlatch(normal_header() & ~kLatched); }
    // The same where only thin entries have changed.
    void unlatch_thin() { unlatch(head() & ~kLatched); }

    bool uses(unsigned entry) const { return head() & used_bit(entry); }
    bool is_empty() const { return (head() & kUsedMask) == 0; }
    void set_used(unsigned entry, bool used) {
        DCHECK(entry < kEntries && uses(entry) != used);
        const uint64_t h = head();
        header.store(used ? h | used_bit(entry) : h & ~used_bit(entry), std::memory_order_relaxed);
    }
    // The header with the odd bit that the entries require.
    uint64_t normal_header() const;

    uint64_t note() const { return note_of(head()); }
    void raise_note(uint64_t note_of_commit) {
        DCHECK(is_held() && note_of_commit <= kNoteMax);  // LK-5
        const uint64_t h = head();
        if (note_of_commit <= note_of(h)) return;
        header.store(note_of_commit << kNoteAt | static_cast<uint16_t>(h),
                     std::memory_order_relaxed);
    }

    // Of the first bucket of a chain: latched; what is in use has rights or a head.
    void assert_state() const {
#ifdef LOCKSTEP_DEBUG_CHECKS
        DCHECK(is_held() && depth() > 0 && overflow != this);
        for (unsigned i = 0; i < kEntries; ++i) {
            if (!uses(i)) continue;
            DCHECK(entries[i].name != 0 && (entries[i].word & 0xff) != 0);
            for (unsigned j = 0; j < i; ++j) DCHECK(!uses(j) || entries[i].name != entries[j].name);
        }
#endif
    }
};
static_assert(sizeof(LockBucket) == kCacheLineBytes);
constexpr size_t bucket_bytes(uint32_t depth) { return sizeof(LockBucket) << depth; }

// The bucket, perhaps an overflow one, that an entry is part of.
inline LockBucket& part_of(LockEntry* entry) {
    return *reinterpret_cast<LockBucket*>(reinterpret_cast<uintptr_t>(entry) &
                                          ~uintptr_t{kCacheLineBytes - 1});
}
inline unsigned index_of(LockEntry* entry) {
    DCHECK(entry >= part_of(entry).entries);
    return static_cast<unsigned>(entry - part_of(entry).entries);
}

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

inline uint64_t LockBucket::normal_header() const {
    const uint64_t h = head();
    bool odd = overflow != nullptr;
    for (unsigned i = 0; i < kEntries; ++i)
        odd |= (h & used_bit(i)) && word::is_fat(entries[i].word);
    return odd ? h | kOdd : h & ~kOdd;
}

}  // namespace lockstep::txn
