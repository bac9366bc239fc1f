// lock_list.cc - what an owner holds, as a list of objects and names with their modes.
//
// Concepts   The owner's own list of names has no modes, so each is looked up in the table. Names
//            that it no longer holds are left out. Objects stand in the intents, or if these are
//            used up, among the names; a strong lock of such an object also counts in `strong`.
#include "txn/lock/lock_list.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

LockList LockManager::list(const LockOwner& owner) const {
    LockList all;
    owner.assert_state();
    DCHECK(owner.waiting.load() == nullptr);
    for (uint32_t i = 0; i < owner.intents_used; ++i)
        if (owner.intents[i].held != LockMode::none)
            all.objects.push_back({owner.intents[i].lock->id, owner.intents[i].held});
    for (const auto* objects = owner.strong_unlisted; objects; objects = objects->before)
        for (uint64_t i = 0; i < objects->used; ++i) {
            const ObjectId id = objects->of[i]->id;
            all.objects.push_back({id, held(owner, object_lock_name(id))});
        }
    all.names.reserve(owner.locks_held);
    for (const auto* chunk = owner.chunk; chunk; chunk = chunk->before)
        for (uint64_t i = owner.used_in(chunk); i-- > 0;) {
            const LockMode mode = held(owner, chunk->names[i]);
            if (mode != LockMode::none) all.names.push_back({chunk->names[i], mode});
        }
    DCHECK(all.names.size() <= owner.locks_held);
    return all;
}

Result<bool> LockManager::try_lock_all(LockOwner& owner, ObjectLock& object, LockMode mode) {
    constexpr LockMode kWeak = LockMode::IS | LockMode::IX;
    DCHECK(mode != LockMode::none);
    const LockMode strong = without(mode, kWeak);
    const LockMode weak = (mode & LockMode::IX) != LockMode::none ? LockMode::IX : mode & kWeak;
    if (weak != LockMode::none && !TRY(try_lock_object(owner, object, weak))) return false;
    return strong == LockMode::none || TRY(try_lock_object(owner, object, strong));
}

}  // namespace lockstep::txn
