// lock_names.cc - the list of names that an owner holds: grow, forget one name, release all.
//
// Concepts   The list may contain a name that is no longer held, because an unlock searches only
//            near the end, and it may contain a name twice. LockOwner::names_unsure then says so.
//            Releasing a name that is not held is no error. The list never lacks a held name,
//            except names of objects: see lock_object.cc.
// Blocking   Nothing here parks.
#include <algorithm>

#include "threads/base/hints.h"
#include "threads/base/limits.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

bool LockManager::Impl::grow_names(LockOwner& owner) {
    DCHECK(!has_room_for(owner, 2));
    LockOwner::Chunk* more = partition(owner).chunks.get();
    if (!more) return false;
    if (owner.chunk) owner.chunk->used = owner.used_in(owner.chunk);
    more->before = owner.chunk;
    take_chunk(owner, more, 0);
    return true;
}

void LockManager::Impl::take_chunk(LockOwner& owner, LockOwner::Chunk* chunk, uint64_t used) {
    DCHECK(used <= LockOwner::Chunk::kNames && (chunk != nullptr || used == 0));
    owner.chunk = chunk;
    owner.next = chunk ? chunk->names + used : nullptr;
    owner.end = chunk ? chunk->names + LockOwner::Chunk::kNames : nullptr;
}

void LockManager::Impl::pop_chunk(LockOwner& owner) {
    LockOwner::Chunk* empty = owner.chunk;
    DCHECK(empty != nullptr);
    take_chunk(owner, empty->before, empty->before ? empty->before->used : 0);
    partition(owner).chunks.put(empty);
}

void LockManager::Impl::forget_name(LockOwner& owner, LockName name) {
    // The list may have grown for a name that was refused.
    while (owner.chunk && owner.used_in(owner.chunk) == 0 && owner.chunk->before) pop_chunk(owner);
    uint32_t searched = 0;
    for (LockOwner::Chunk* chunk = owner.chunk; chunk && searched < limits::lock_chunks_searched();
         chunk = chunk->before, ++searched)
        for (uint64_t i = owner.used_in(chunk); i-- > 0;) {
            if (chunk->names[i] != name) continue;
            DCHECK(owner.used_in(owner.chunk) > 0 && owner.locks_held > 0);
            // The last name of the list fills the gap; order does not matter for a release.
            chunk->names[i] = *--owner.next;
            --owner.locks_held;
            if (owner.used_in(owner.chunk) == 0 && owner.chunk->before) pop_chunk(owner);
            return;
        }
    owner.names_unsure = true;  // LK-6
}

namespace {

// Releases the names of the list, from the newest to the oldest, and empties it. Each bucket is
// prefetched one name before its release. `slow` releases a name that needs the latch.
template <class Slow>
[[gnu::always_inline]] inline uint64_t release_names(const LockArray& array,
                                                     LockManager::Impl& impl, LockOwner& owner,
                                                     uint64_t note, Slow slow) {
    DCHECK(owner.waiting.load(std::memory_order_relaxed) == nullptr);
    owner.assert_state();
    constexpr uint16_t kNever = UINT16_MAX;  // no header looks like this
    const uint32_t slot = owner.slot;
    uint64_t newest_seen = 0;
    while (LockOwner::Chunk* chunk = owner.chunk) {
        const uint64_t shape = array.shape.load(std::memory_order_relaxed);
        const uint16_t empty = owner.names_unsure ? kNever : LockArray::empty_header(shape);
        const LockName* at = owner.next;
        LockName name = at == chunk->names ? LockName{} : at[-1];
        LockBucket* bucket = &array.bucket(shape, name.value);
        while (at != chunk->names) {
            --at;
            LockBucket& here = *bucket;
            const LockName ahead = at == chunk->names ? name : at[-1];
            bucket = &array.bucket(shape, ahead.value);
            prefetch_line_to_write(bucket);
            uint64_t seen = 0;
            if (!release_only(here, empty, slot, name, note, seen)) [[unlikely]]
                seen = slow(name);
            newest_seen = std::max(newest_seen, seen);
            name = ahead;
        }
        owner.next = chunk->names;
        if (!chunk->before) break;
        impl.pop_chunk(owner);
    }
    return newest_seen;
}

}  // namespace

void LockManager::release_all(LockOwner& owner, Lsn committed) {
    const uint64_t names = owner.locks_held, note = commit_note(committed);
    if (owner.strong_unlisted != nullptr) [[unlikely]]
        Impl::note_unlisted_commit(owner, note);
    release_names(array_, *impl_, owner, note, [&](LockName name) {
        impl_->release_noted(owner, name, note);
        return uint64_t{0};
    });
    impl_->finish_release(owner, names, note);
}

Lsn LockManager::release_all_of_reader(LockOwner& owner) {
    const uint64_t names = owner.locks_held;
    const uint64_t unnamed = std::max(owner.seen, impl_->unnamed.load(std::memory_order_acquire));
    const uint64_t in_names = release_names(
        array_, *impl_, owner, 0, [&](LockName name) { return impl_->release_seen(owner, name); });
    const uint64_t in_objects = impl_->finish_release(owner, names, 0);
    return lsn_of_note(std::max({unnamed, in_names, in_objects}));
}

[[gnu::always_inline]] inline uint64_t LockManager::Impl::finish_release(LockOwner& owner,
                                                                         uint64_t names,
                                                                         uint64_t note) {
    DCHECK(owner.intents_used != 0 || owner.strong_unlisted == nullptr);
    const uint64_t seen = owner.intents_used != 0 ? release_intents(owner, note) : 0;
    const uint64_t counted = names - std::min<uint64_t>(names, owner.waits);
    uint64_t before = 0;
    if (names) before = partition(owner).released.fetch_add(counted, std::memory_order_relaxed);
    owner.locks_held = 0;
    owner.waits = 0;
    owner.seen = 0;
    owner.names_unsure = false;
    if ((before ^ (before + counted)) >= look_every.load(std::memory_order_relaxed)) [[unlikely]]
        tend_table(names, false);
    owner.assert_state();
    DCHECK(owner.intents_used == 0 && owner.strong_unlisted == nullptr);
    return seen;
}

void LockManager::release_shared(LockOwner& owner) {
    constexpr LockMode kShared = LockMode::S | LockMode::U | LockMode::IS | LockMode::gap_read;
    uint64_t released = 0;
    owner.assert_state();
    for (LockOwner::Chunk* chunk = owner.chunk; chunk; chunk = chunk->before) {
        uint64_t kept = 0;
        const uint64_t used = owner.used_in(chunk);
        for (uint64_t i = 0; i < used; ++i)
            if (!impl_->release_one(owner, chunk->names[i], kShared))
                chunk->names[kept++] = chunk->names[i];
        released += used - kept;
        if (chunk == owner.chunk) owner.next = chunk->names + kept;
        else chunk->used = kept;
    }
    DCHECK(released <= owner.locks_held);
    owner.locks_held -= released;
    if (owner.intents_used) impl_->release_shared_intents(owner);
    if (released) impl_->partition(owner).released.fetch_add(released, std::memory_order_relaxed);
}

}  // namespace lockstep::txn
