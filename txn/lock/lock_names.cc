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

namespace {

// Calls release(name) for each name of the list, from the newest to the oldest, and empties it.
template <class Release>
[[gnu::always_inline]] inline void release_names(LockManager& locks, LockManager::Impl& impl,
                                                 LockOwner& owner, Release release) {
    DCHECK(owner.waiting.load(std::memory_order_relaxed) == nullptr);
    owner.assert_state();
    constexpr uint64_t kAhead = 4;  // buckets prefetched before their release
    while (LockOwner::Chunk* chunk = owner.chunk) {
        for (uint64_t i = chunk->used; i-- > 0;) {
            if (i >= kAhead) locks.prefetch(chunk->names[i - kAhead]);
            release(chunk->names[i]);
        }
        chunk->used = 0;
        if (!chunk->before) break;
        impl.pop_chunk(owner);
    }
}

}  // namespace

void LockManager::release_all(LockOwner& owner, Lsn committed) {
    const uint64_t names = owner.locks_held, note = commit_note(committed);
    release_names(*this, *impl_, owner,
                  [&](LockName name) { impl_->release_noted(owner, name, note); });
    impl_->finish_release(owner, names, note);
}

Lsn LockManager::release_all_of_reader(LockOwner& owner) {
    const uint64_t names = owner.locks_held;
    uint64_t seen = std::max(
        {owner.seen, impl_->unnamed.load(std::memory_order_acquire), Impl::seen_in_objects(owner)});
    release_names(*this, *impl_, owner,
                  [&](LockName name) { seen = std::max(seen, impl_->release_seen(owner, name)); });
    impl_->finish_release(owner, names, 0);
    return lsn_of_note(seen);
}

void LockManager::Impl::finish_release(LockOwner& owner, uint64_t names, uint64_t note) {
    if (owner.intents_used | (owner.strong_unlisted != nullptr)) release_intents(owner, note);
    if (names)
        partition(owner).released.fetch_add(names - std::min(names, owner.waits),
                                            std::memory_order_relaxed);
    owner.locks_held = 0;
    owner.waits = 0;
    owner.seen = 0;
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
