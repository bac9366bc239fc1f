// lock_thin.h - the fast path: a lock that one owner has, in one of the bucket's own entries.
//
// Concepts   The *shortest* path is for a bucket without any lock, and for the owner's lock that is
//            the only one of its bucket: they are the common cases of a table that is sized by its
//            load. The first load of the header tells. Then one exchange takes the latch, or frees
//            the entry. The other functions are for a latched bucket.
//            The functions are inline, and they neither allocate nor wait. What they cannot do they
//            leave to the slow paths of lock_impl.h.
#pragma once

#include "threads/base/check.h"
#include "threads/base/sim_point.h"
#include "txn/lock/lock_bucket.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

// lock(), try_lock(), wait_until_grantable().
enum class Ask : uint8_t { wait, attempt, instant };
enum class Grant : uint8_t {
    fresh,    // granted; the owner had no right on the name before
    again,    // granted to a holder, or nothing to take
    refused,  // attempt only: the request would have to wait
    slow,     // the fast path does not apply
};

// The bucket's own entry of `name`, or null. Without branches: which entry it is, is random.
inline LockEntry* find_inline(LockBucket& bucket, LockName name) {
    LockEntry* const entries = bucket.entries;
    const uint64_t found = (entries[0].name == name.value ? LockBucket::used_bit(0) : 0) |
                           (entries[1].name == name.value ? LockBucket::used_bit(1) : 0) |
                           (entries[2].name == name.value ? LockBucket::used_bit(2) : 0);
    const uint64_t used = found & bucket.head();
    return used ? &entries[std::countr_zero(used) - 1] : nullptr;
}

// Fast path of a lock: a free entry of the bucket, or the caller's own thin entry. Under the
// bucket's latch.
inline Grant acquire_thin(LockBucket& bucket, uint32_t slot, LockName name, LockMode mode) {
    bucket.assert_state();
    if (LockEntry* entry = find_inline(bucket, name)) {
        if (!word::is_thin_of(entry->word, slot)) return Grant::slow;
        entry->word |= static_cast<uint8_t>(mode);
        return Grant::again;
    }
    const uint64_t h = bucket.head(), free = ~h & LockBucket::kUsedMask;
    if (!free || bucket.overflow) [[unlikely]]
        return Grant::slow;
    DCHECK(mode != LockMode::none && name.value != 0);
    LockEntry& entry = bucket.entries[std::countr_zero(free) - 1];
    DCHECK(!(h & free));
    entry.word = word::thin(slot, mode);
    entry.name = name.value;
    bucket.header.store(h | (free & -free), std::memory_order_relaxed);
    return Grant::fresh;
}

// The shortest path of a lock. False: nothing is done, and another path is needed.
[[gnu::always_inline]] inline bool lock_in_empty(const LockArray& table, uint32_t slot,
                                                 LockName name, LockMode mode) {
    SIM_POINT();
    const uint64_t shape = table.shape.load(std::memory_order_relaxed);
    LockBucket& bucket = table.bucket(shape, name.value);
    // The load alone would fetch the line to be shared, and the exchange would fetch it again.
    prefetch_line_to_write(&bucket);
    const uint64_t h = bucket.head();
    if (static_cast<uint16_t>(h) != LockArray::empty_header(shape) || !bucket.try_latch(h))
        [[unlikely]]
        return false;
    DCHECK(mode != LockMode::none && name.value != 0);
    bucket.entries[0].word = word::thin(slot, mode);
    bucket.entries[0].name = name.value;
    bucket.unlatch(h | LockBucket::used_bit(0));
    return true;
}

// What remains of the caller's rights after an unlock.
enum class Rest : uint8_t { none, some, slow };

// Was it a right to change what the name protects?
inline bool may_have_changed(uint64_t mode) { return mode & static_cast<uint8_t>(LockMode::X); }

// Fast path of an unlock: the caller's own thin entry among the inline ones. Under the bucket's
// latch. `note`: the owner's commit note, or 0.
inline Rest release_thin(LockBucket& bucket, uint32_t slot, LockName name, LockMode rights,
                         uint64_t note = 0) {
    bucket.assert_state();
    DCHECK(rights != LockMode::none && name.value != 0);
    LockEntry* const entry = find_inline(bucket, name);
    if (!entry) [[unlikely]]
        return bucket.overflow ? Rest::slow : Rest::none;
    if (!word::is_thin_of(entry->word, slot)) [[unlikely]]
        return Rest::slow;
    DCHECK(!word::is_fat(entry->word) && word::mode(entry->word) != LockMode::none);
    if (may_have_changed(entry->word)) bucket.raise_note(note);
    entry->word &= ~uint64_t{static_cast<uint8_t>(rights)};
    if (word::mode(entry->word) != LockMode::none) return Rest::some;
    bucket.set_used(static_cast<unsigned>(entry - bucket.entries), false);
    return Rest::none;
}

// The shortest path of a release of all rights (LK-6): the owner holds the name, as its list says,
// and the lock is the only one of its bucket. False: nothing is done, and another path is needed.
// `seen`: the bucket's note before.
[[gnu::always_inline]] inline bool release_only(LockBucket& bucket, uint16_t empty, uint32_t slot,
                                                LockName name, uint64_t note, uint64_t& seen) {
    SIM_POINT();
    uint64_t h = bucket.header.load(std::memory_order_acquire);
    const uint64_t word = bucket.entries[0].word;
    if (static_cast<uint16_t>(h) != (empty | LockBucket::used_bit(0)) ||
        bucket.entries[0].name != name.value || !word::is_thin_of(word, slot)) [[unlikely]]
        return false;
    seen = LockBucket::note_of(h);
    DCHECK(note <= kNoteMax && word::mode(word) != LockMode::none);
    const bool noted = may_have_changed(word);
    const uint64_t own = noted ? note << LockBucket::kNoteAt | empty : 0;
    // The low bits are equal, so the larger header has the larger note (LK-5).
    const uint64_t freed = std::max(h - LockBucket::used_bit(0), own);
    SIM_POINT();
    return bucket.header.compare_exchange_strong(h, freed, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed);
}

inline bool has_room(const LockOwner& owner) { return owner.next != owner.end; }
inline bool has_room_for(const LockOwner& owner, ptrdiff_t names) {
    DCHECK(owner.next <= owner.end);
    return owner.end - owner.next >= names;
}

// The caller has made sure of a free place, so that nothing fails after the grant.
inline void push_name(LockOwner& owner, LockName name) {
    DCHECK(owner.next < owner.end && name.value != 0);
    *owner.next++ = name;
    ++owner.locks_held;
}

}  // namespace lockstep::txn
