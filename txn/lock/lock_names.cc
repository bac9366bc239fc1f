// lock_names.cc - the list of names that an owner holds: grow, forget one name, release all.
//
// Concepts   The list may contain a name that is no longer held, because an unlock searches only
//            near the end, and it may contain a name twice. Releasing a name that is not held is no
//            error. The list never lacks a held name, except names of objects: see lock_object.cc.
// Blocking   Nothing here parks.
#include <algorithm>

#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

bool LockManager::Impl::grow_names(LockOwner& owner) {
    DCHECK(!has_room(owner));
    LockOwner::Chunk* more = partition(owner).chunks.get();
    if (!more) return false;
    more->before = owner.chunk;
    more->used = 0;
    owner.chunk = more;
    return true;
}

void LockManager::Impl::pop_chunk(LockOwner& owner) {
    LockOwner::Chunk* empty = owner.chunk;
    DCHECK(empty != nullptr);
    owner.chunk = empty->before;
    partition(owner).chunks.put(empty);
}

void LockManager::Impl::forget_name(LockOwner& owner, LockName name) {
    // The list may have grown for a name that was refused.
    while (owner.chunk && owner.chunk->used == 0 && owner.chunk->before) pop_chunk(owner);
    constexpr int kChunksSearched = 4;
    int searched = 0;
    for (LockOwner::Chunk* chunk = owner.chunk; chunk && searched < kChunksSearched;
         chunk = chunk->before, ++searched)
        for (uint64_t i = chunk->used; i-- > 0;) {
            if (chunk->names[i] != name) continue;
            DCHECK(owner.chunk->used > 0 && owner.locks_held > 0);
            // The last name of the list fills the gap; order does not matter for a release.
            chunk->names[i] = owner.chunk->names[--owner.chunk->used];
            --owner.locks_held;
            if (owner.chunk->used == 0 && owner.chunk->before) pop_chunk(owner);
            return;
        }
}

void LockManager::release_all(LockOwner& owner) {
    DCHECK(owner.waiting.load(std::memory_order_relaxed) == nullptr);
    owner.assert_state();
    constexpr uint64_t kAhead = 4;  // buckets prefetched before their release
    const uint64_t names = owner.locks_held;
    while (LockOwner::Chunk* chunk = owner.chunk) {
        for (uint64_t i = chunk->used; i-- > 0;) {
            if (i >= kAhead) prefetch(chunk->names[i - kAhead]);
            impl_->release_one(owner, chunk->names[i], kAllRights);
        }
        chunk->used = 0;
        if (!chunk->before) break;
        impl_->pop_chunk(owner);
    }
    if (owner.intents_used | (owner.strong_unlisted != nullptr)) impl_->release_intents(owner);
    if (names)
        impl_->partition(owner).released.fetch_add(names - std::min(names, owner.waits),
                                                   std::memory_order_relaxed);
    owner.locks_held = 0;
    owner.waits = 0;
    owner.assert_state();
    DCHECK(owner.intents_used == 0 && owner.strong_unlisted == nullptr);
}

void LockManager::release_shared(LockOwner& owner) {
    constexpr LockMode kShared = LockMode::S | LockMode::U | LockMode::IS | LockMode::gap_read;
    uint64_t released = 0;
    owner.assert_state();
    for (LockOwner::Chunk* chunk = owner.chunk; chunk; chunk = chunk->before) {
        uint64_t kept = 0;
        for (uint64_t i = 0; i < chunk->used; ++i)
            if (!impl_->release_one(owner, chunk->names[i], kShared))
                chunk->names[kept++] = chunk->names[i];
        released += chunk->used - kept;
        chunk->used = kept;
    }
    DCHECK(released <= owner.locks_held);
    owner.locks_held -= released;
    if (owner.intents_used) impl_->release_shared_intents(owner);
    if (released) impl_->partition(owner).released.fetch_add(released, std::memory_order_relaxed);
}

}  // namespace lockstep::txn
