// lock_thin.h - the fast path: a lock that one owner has, in one of the bucket's own entries.
//
// The functions are inline, and they neither allocate nor wait. What they cannot do they leave to
// the slow paths of lock_impl.h.
#pragma once

#include "threads/base/check.h"
#include "threads/base/mutants.h"
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

// The inline entry of `name`, or null. Unrolled by hand: a loop compiles to twice the
// instructions.
inline LockEntry* find_inline(LockBucket& bucket, LockName name) {
    LockEntry* const entries = bucket.entries;
    if (entries[0].name == name.value) return &entries[0];
    if (entries[1].name == name.value) return &entries[1];
    if (entries[2].name == name.value) return &entries[2];
    return nullptr;
}

// Fast path of a lock: a free entry of the bucket, or the caller's own thin entry. Under the
// bucket's latch.
inline Grant acquire_thin(LockBucket& bucket, uint32_t slot, LockName name, LockMode mode) {
    bucket.assert_state();
    if (LockEntry* entry = find_inline(bucket, name)) [[unlikely]] {
        if (!word::is_thin_of(entry->word, slot)) return Grant::slow;
        entry->word |= static_cast<uint8_t>(mode);
        return Grant::again;
    }
    LockEntry* const free = find_inline(bucket, LockName{0});
    if (!free || bucket.overflow) [[unlikely]]
        return Grant::slow;
    DCHECK(mode != LockMode::none && name.value != 0);
    free->word = word::thin(slot, mode);
    free->name = name.value;
    return Grant::fresh;
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
    if (may_have_changed(entry->word) && !MUTANT(commit_not_noted)) bucket.raise_note(note);
    entry->word &= ~uint64_t{static_cast<uint8_t>(rights)};
    if (word::mode(entry->word) != LockMode::none) return Rest::some;
    entry->name = 0;
    return Rest::none;
}

inline bool has_room(const LockOwner& owner) {
    return owner.chunk && owner.chunk->used < LockOwner::Chunk::kNames;
}

// The caller has made sure of a free place, so that nothing fails after the grant.
inline void push_name(LockOwner& owner, LockName name) {
    LockOwner::Chunk* chunk = owner.chunk;
    DCHECK(has_room(owner) && name.value != 0);
    chunk->names[chunk->used++] = name;
    ++owner.locks_held;
}

// A whole lock on the fast path. Grant::slow: nothing is done, and the bucket's latch is held.
inline Grant lock_thin(LockBucket& bucket, LockOwner& owner, LockName name, LockMode mode) {
    bucket.latch.lock();
    const Grant grant = acquire_thin(bucket, owner.slot, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return Grant::slow;
    bucket.latch.unlock();
    if (grant == Grant::fresh) push_name(owner, name);
    return grant;
}

}  // namespace lockstep::txn
