// lock_object.cc - locks of whole objects: noted intentions, and strong locks that make them real.
//
// Concepts   An owner *notes* IS or IX in its own noted[] word and continues if the object's
//            `strong` is zero. An owner that wants S SIX U X first adds itself to `strong`. It then
//            *materialises* the noted intentions of all registered owners: each gets a granted
//            request under the object's name in the lock table. Only then does it queue for its own
//            lock.
// States     noted[i]: 0 -> tag (add_intent) -> tag|mode (lock_weak) -> tag|mode|materialised
//            (materialise, by any thread) -> 0 (release).
// Invariants IL-1 An intention is *confirmed* when its owner has read strong == 0 after noting it,
//                 or has a real request for it.
//            IL-2 noted[] is filled from the front and cleared from the back, so a reader may stop
//                 at the first zero.
//            IL-3 kMaterialised is set under the bucket's latch together with the request, by
//                 compare-and-exchange on the whole word. So either the owner's clearing exchange
//                 sees the bit and removes the request, or the request is never made.
//            IL-4 `strong` counts an owner from before its materialising until after its strong
//                 right has left the table.
//            IL-5 A request for a first right on a barred object gets an error. Owners that have
//                 rights keep them, and get further ones.
//            LM-6 (lock_manager.h) While an owner has a strong right on an object, every confirmed
//                 intention on it is in the table. Proof: all accesses to noted[] and `strong` are
//                 sequentially consistent. Owner O notes, then reads `strong`. Locker L adds to
//                 `strong`, then reads noted[]. If O read 0, its note precedes L's read. L
//                 therefore materialises it before asking for its own right, and the table keeps
//                 the two apart. If O read non-zero, it withdraws the note and asks the table. So a
//                 note that conflicts with a right granted to others is unconfirmed: its owner is
//                 about to withdraw it, and materialise() ignores it.
// Blocking   lock_weak and lock_strong may park in the lock table. Scans of owners never park, and
//            remove_owner waits for them.
// Source     PostgreSQL, src/backend/storage/lmgr/README ("Fast Path Locking"): the idea.
#include <algorithm>

#include "threads/base/limits.h"
#include "threads/base/sim_point.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

constexpr LockMode kWeak = LockMode::IS | LockMode::IX;
constexpr LockMode kStrong = LockMode::S | LockMode::U | LockMode::X;

}  // namespace

// `listed`: the name goes to the owner's list, for objects without an intent entry. `first`: the
// owner has no confirmed right, also if materialise() has given it one for an unconfirmed note.
Result<bool> LockManager::Impl::acquire_object(LockOwner& owner, const ObjectLock& object,
                                               LockMode mode, bool attempt, bool listed, bool first,
                                               bool to_free) {
    if (listed && !has_room(owner) && !grow_names(owner))
        return fail(ErrorCode::out_of_memory, "lock names");
    DCHECK(mode != LockMode::none && (!listed || has_room(owner)));
    const LockName name = object_lock_name(object.id);
    LockBucket& b = latch(name.value);
    owner.waits_in = object.id;
    const Grant grant = TRY(acquire(b, owner, name, mode, attempt ? Ask::attempt : Ask::wait));
    // IL-5. Released at once, so that the thread that frees the object need not wait for the end of
    // this owner.
    const bool newcomer = grant == Grant::fresh || first;
    if (newcomer && object.gone.load() && !to_free) {
        release_one(owner, name, kAllRights);
        owner.seen = kNoteMax;  // it knows of the drop now, and holds nothing that says of which
        return fail(ErrorCode::no_such_object, "index or heap", object.id.value);
    }
    if (listed && grant == Grant::fresh) push_name(owner, name);
    return grant != Grant::refused;
}

Result<bool> LockManager::Impl::lock_weak(LockOwner& owner, ObjectLock& object, LockMode mode,
                                          bool attempt) {
    DCHECK(without(mode, kWeak) == LockMode::none);
    owner.assert_state();
    Intent* intent = find_intent(owner, object);
    uint64_t before = 0;
    if (note_weak(owner, object, mode, options.escalate_at, intent, before)) [[likely]]
        return true;
    if (!intent) return acquire_object(owner, object, mode, attempt, true);
    return lock_weak_slow(owner, object, *intent, mode, before, attempt);
}

// Withdraws the new part of the note, then asks the table. If a strong locker has materialised it
// meanwhile, the table already has it as this owner's request.
Result<bool> LockManager::Impl::lock_weak_slow(LockOwner& owner, ObjectLock& object, Intent& intent,
                                               LockMode mode, uint64_t before, bool attempt) {
    DCHECK(intent.lock == &object && &intent < owner.intents + owner.intents_used);
    owner.noted[&intent - owner.intents].fetch_and(~(static_cast<uint64_t>(mode) & ~before));
    intent.real = true;
    const bool first = intent.held == LockMode::none;
    if (!TRY(acquire_object(owner, object, mode, attempt, false, first))) return false;
    set_held(intent, intent.held | mode);
    return true;
}

// IL-4: counted in `strong` once per object and owner, and uncounted at once if the lock is not
// granted.
Result<bool> LockManager::Impl::lock_strong(LockOwner& owner, ObjectLock& object, LockMode mode,
                                            bool attempt, bool to_free) {
    DCHECK((mode & kStrong) != LockMode::none);
    owner.assert_state();
    Intent* intent = find_intent(owner, object);
    if (!intent) intent = add_intent(owner, object, LockMode::none, options.escalate_at);
    if (!intent && !note_unlisted(owner, object))
        return fail(ErrorCode::out_of_memory, "lock names");
    const bool counted = intent && intent->strong_counted;
    if (!counted) object.strong.fetch_add(1);
    if (intent) intent->real = true;
    const bool first = intent && intent->held == LockMode::none;
    SIM_POINT();
    Result<bool> granted =
        materialise_all(object)
            ? acquire_object(owner, object, mode, attempt, intent == nullptr, first, to_free)
            : fail(ErrorCode::out_of_memory, "lock table");
    DCHECK(object.strong.load() > 0);
    if (!granted.has_value() || !*granted) {
        if (!intent) --owner.strong_unlisted->used;
        if (!counted) object.strong.fetch_sub(1);
        return granted;
    }
    if (intent) {
        intent->strong_counted = true;
        set_held(*intent, intent->held | mode);
    }
    return true;
}

bool LockManager::Impl::note_unlisted(LockOwner& owner, ObjectLock& object) {
    LockOwner::Objects*& newest = owner.strong_unlisted;
    if (!newest || newest->used == LockOwner::Objects::kMax) {
        LockOwner::Objects* more = partition(owner).objects.get();
        if (!more) return false;
        more->before = newest;
        more->used = 0;
        newest = more;
    }
    newest->of[newest->used++] = &object;
    return true;
}

bool LockManager::Impl::materialise_all(const ObjectLock& object) {
    const WatchGuard watch(watchers);
    const uint32_t end = owners_end.load();
    for (uint32_t slot = 0; slot < end; ++slot) {
        LockOwner* owner = owners[slot].load();
        if (!owner) continue;
        for (auto& word : owner->noted) {
            SIM_POINT();
            const uint64_t seen = word.load();
            if (seen == 0) break;  // IL-2
            if (!noted::is_for(seen, object.id) || noted::mode(seen) == LockMode::none) continue;
            if (!materialise(*owner, word, object.id)) return false;
        }
    }
    return true;
}

// The table does not change between rights_of() and the exchange (IL-3). If memory runs out after
// the exchange, the bit stays set without a request. That is harmless: the bit only makes the owner
// check the table when it releases, and the strong locker fails.
bool LockManager::Impl::materialise(LockOwner& owner, std::atomic<uint64_t>& note,
                                    ObjectId object) {
    const uint64_t name = object_lock_name(object).value;
    LockBucket& b = latch(name);
    const BucketGuard guard(b);
    LockEntry* entry = find(b, name);
    b.assert_state();
    LockMode others, waiting, mode;
    const LockMode own = rights_of(entry, owner, &others, &waiting);
    uint64_t seen = note.load();
    do {
        mode = noted::is_for(seen, object) ? noted::mode(seen) : LockMode::none;
        // Gone, or unconfirmed (LM-6).
        if (mode == LockMode::none || !compatible(mode, others)) return true;
    } while (!note.compare_exchange_weak(seen, seen | noted::kMaterialised));

    if (!entry) {
        entry = insert(b, name);
        if (entry) entry->word = word::thin(owner.slot, mode);
        return entry != nullptr;
    }
    if (!word::is_fat(entry->word)) {
        if (own != LockMode::none) {
            entry->word |= static_cast<uint8_t>(mode);
            return true;
        }
        if (!inflate(name, entry)) return false;
    }
    LockHead* head = word::head(entry->word);
    LockRequest* request = granted_of(head, &owner);
    if (!request) return add_granted(name, head, &owner, mode) != nullptr;
    head->granted.add(without(mode, request->granted));
    request->granted = request->granted | mode;
    return true;
}

// An intent with a request in the table. One that is counted in `strong` has a request as well.
void LockManager::Impl::release_real(LockOwner& owner, const Intent& intent, uint64_t last,
                                     uint64_t note) {
    if (intent.real || (last & noted::kMaterialised))
        release_one(owner, object_lock_name(intent.lock->id), kAllRights, note);
    DCHECK(!intent.strong_counted || (intent.real && intent.lock->strong.load() > 0));
    if (intent.strong_counted) intent.lock->strong.fetch_sub(1);
}

// LM-8. Before the names of these objects are released with the others: whoever gets a right
// afterwards sees the note.
void LockManager::Impl::note_unlisted_commit(const LockOwner& owner, uint64_t note) {
    DCHECK(owner.intents_used == limits::intents());
    for (const auto* objects = owner.strong_unlisted; objects; objects = objects->before)
        for (uint64_t i = 0; i < objects->used; ++i) raise_note(objects->of[i]->committed, note);
}

// From the last to the first (IL-2); the table before `strong` (IL-4). A commit is noted before
// either: whoever gets a right afterwards sees the note.
uint64_t LockManager::Impl::release_intents(LockOwner& owner, uint64_t note) {
    owner.intents_of = 0;
    uint64_t seen = 0;
    for (uint32_t i = owner.intents_used; i-- > 0;) {
        Intent& intent = owner.intents[i];
        DCHECK(noted::is_for(owner.noted[i].load(), intent.lock->id));
        if (intent.strong_counted) [[unlikely]] {
            raise_note(intent.lock->committed, note);
            seen = kNoteMax;
        }
        seen = std::max(seen, intent.lock->committed.load(std::memory_order_acquire));
        owner.intents_used = static_cast<uint16_t>(i);
        const uint64_t last = owner.noted[i].exchange(0);
        if ((last & noted::kMaterialised) != 0 || intent.real) [[unlikely]]
            release_real(owner, intent, last, note);
        intent.lock = nullptr;
    }
    return owner.strong_unlisted == nullptr ? seen : release_unlisted(owner);
}

// Without intent entry, names in the list stood for the object.
uint64_t LockManager::Impl::release_unlisted(LockOwner& owner) {
    DCHECK(owner.strong_unlisted != nullptr);
    while (LockOwner::Objects* objects = owner.strong_unlisted) {
        while (objects->used) objects->of[--objects->used]->strong.fetch_sub(1);
        owner.strong_unlisted = objects->before;
        partition(owner).objects.put(objects);
    }
    return kNoteMax;
}

// A noted IX keeps its IS; a noted IS alone is released. Objects without an intent entry keep their
// strong count until release_all.
void LockManager::Impl::release_shared_intents(LockOwner& owner) {
    constexpr LockMode kShared = LockMode::S | LockMode::U | LockMode::IS;
    for (uint32_t i = 0; i < owner.intents_used; ++i) {
        Intent& intent = owner.intents[i];
        uint64_t last = owner.noted[i].load();
        if ((noted::mode(last) & LockMode::IX) == LockMode::none)
            last = owner.noted[i].exchange(noted::tag(intent.lock->id));
        if (intent.real || (last & noted::kMaterialised))
            release_one(owner, object_lock_name(intent.lock->id), kShared);
        set_held(intent, without(intent.held, kShared));
        DCHECK(!intent.strong_counted || intent.lock->strong.load() > 0);
        if (intent.strong_counted && (intent.held & kStrong) == LockMode::none) {
            intent.lock->strong.fetch_sub(1);
            intent.strong_counted = false;
        }
    }
}

Result<void> LockManager::lock_object(LockOwner& owner, ObjectLock& object, LockMode mode) {
    Intent* intent = find_intent(owner, object);
    if (intent && covers(intent->held, mode)) return {};
    const bool weak = without(mode, kWeak) == LockMode::none;
    if (!weak) {
        TRY(impl_->lock_strong(owner, object, mode, false));
        return {};
    }
    owner.assert_state();
    uint64_t before = 0;
    if (note_weak(owner, object, mode, impl_->options.escalate_at, intent, before)) [[likely]]
        return {};
    TRY(intent ? impl_->lock_weak_slow(owner, object, *intent, mode, before, false)
               : impl_->acquire_object(owner, object, mode, false, true));
    return {};
}

// IL-5. The count in `strong` stays, so every newcomer takes the path that checks `gone`.
void LockManager::bar_object(ObjectLock& object) {
    object.strong.fetch_add(1);
    object.gone.store(true);
}

Result<void> LockManager::lock_object_to_free(LockOwner& owner, ObjectLock& object) {
    bar_object(object);
    TRY(impl_->lock_strong(owner, object, LockMode::X, false, true));
    return {};
}

Result<bool> LockManager::try_lock_object(LockOwner& owner, ObjectLock& object, LockMode mode) {
    const Intent* intent = find_intent(owner, object);
    if (intent && covers(intent->held, mode)) return true;
    const bool weak = without(mode, kWeak) == LockMode::none;
    return weak ? impl_->lock_weak(owner, object, mode, true)
                : impl_->lock_strong(owner, object, mode, true);
}

}  // namespace lockstep::txn
