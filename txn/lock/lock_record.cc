// lock_record.cc - the call of the record operations: intention, escalation and record lock in one.
// One bucket access in the common case.
//
// Concepts   Intent::records_short holds the rights that need only the bucket: the intention is
//            noted and the object's lock covers no record. All other cases take the slow path:
//            noting the intention, escalation, records that need no lock.
//            Escalation: after escalate_at record locks in one object, the owner tries the object's
//            lock: S if it only reads there, else X. It never waits for that lock, so it causes no
//            deadlock. A refusal doubles the number until the next attempt. Earlier record locks
//            stay until the end: releasing them one by one would cost more than keeping them.
// Blocking   lock_record parks like lock(). try_lock_record and escalation never park.
#include <algorithm>

#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

constexpr LockMode intention_for(LockMode record_mode) {
    constexpr LockMode kWrites = LockMode::IX | LockMode::U | LockMode::X | LockMode::gap_insert;
    return (record_mode & kWrites) == LockMode::none ? LockMode::IS : LockMode::IX;
}

inline bool record_covered(const Intent& intent, LockMode mode) {
    return without(mode, intent.records_covered) == LockMode::none;
}

inline bool short_way(const LockOwner& owner, const Intent& intent, const ObjectLock& object,
                      LockMode mode) {
    return intent.lock == &object && without(mode, intent.records_short) == LockMode::none &&
           has_room(owner);
}

// Locks names from the front on whose buckets are empty, as far as the owner's list has room and no
// escalation is due. How many.
inline size_t lock_in_row(const LockArray& array, LockOwner& owner, Intent& intent,
                          std::span<const LockName> names, LockMode mode) {
    const size_t most = std::min({names.size(), static_cast<size_t>(owner.end - owner.next),
                                  static_cast<size_t>(intent.left)});
    const uint32_t slot = owner.slot;
    size_t n = 0;
    for (; n < most && lock_in_empty(array, slot, names[n], mode); ++n) {
        DCHECK(names[n].value != 0);
        owner.next[n] = names[n];
    }
    owner.next += n;
    owner.locks_held += n;
    count_records(intent, static_cast<uint32_t>(n));
    return n;
}

// For wait_for_record().
[[gnu::cold]] std::unexpected<Error> refusal(const ObjectLock& object, LockName name,
                                             LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);
    return std::unexpected(Error{.what = "a lock that must be waited for",
                                 .a = name.value,
                                 .b = static_cast<uint64_t>(mode),
                                 .c = reinterpret_cast<uint64_t>(&object)});
}

}  // namespace

Result<void> LockManager::lock_record(LockOwner& owner, ObjectLock& object, LockName name,
                                      LockMode mode) {
    DCHECK(name.value != 0);
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode) || !lock_in_empty(array_, owner.slot, name, mode))
        [[unlikely]]
        return impl_->lock_record_long(*this, owner, object, name, mode);
    push_name(owner, name);
    count_record(intent);
    return {};
}

Result<void> LockManager::ask_record(LockOwner& owner, ObjectLock& object, LockName name,
                                     LockMode mode) {
    DCHECK(name.value != 0);
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode)) [[unlikely]]
        return impl_->ask_record_long(*this, owner, object, name, mode);
    if (!lock_in_empty(array_, owner.slot, name, mode)) [[unlikely]]
        return impl_->ask_record_latched(owner, intent, name, mode);
    push_name(owner, name);
    count_record(intent);
    return {};
}

Result<void> LockManager::ask_records(LockOwner& owner, ObjectLock& object,
                                      std::span<const LockName> names, LockMode mode,
                                      size_t& next) {
    DCHECK(next <= names.size() && mode != LockMode::none);
    for (;; ++next) {
        Intent& intent = likely_intent(owner, object);
        if (short_way(owner, intent, object, mode)) [[likely]]
            next += lock_in_row(array_, owner, intent, names.subspan(next), mode);
        if (next == names.size()) return {};
        TRY(ask_record(owner, object, names[next], mode));
    }
}

Result<void> LockManager::wait_for_record(LockOwner& owner, const Error& refused) {
    DCHECK(would_wait(refused) && refused.a != 0 && refused.c != 0);
    DCHECK(refused.b != 0 && refused.b <= static_cast<uint64_t>(kAllRights));
    DCHECK(owner.waiting.load(std::memory_order_relaxed) == nullptr);  // LM-3
    return lock_record(owner, *reinterpret_cast<ObjectLock*>(refused.c), LockName{refused.a},
                       static_cast<LockMode>(refused.b));
}

Result<bool> LockManager::try_lock_record(LockOwner& owner, ObjectLock& object, LockName name,
                                          LockMode mode) {
    DCHECK(name.value != 0);
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode) || !lock_in_empty(array_, owner.slot, name, mode))
        [[unlikely]]
        return impl_->record_long(*this, owner, object, name, mode, Ask::attempt);
    push_name(owner, name);
    count_record(intent);
    return true;
}

// Enters with the bucket's latch held and releases it.
Result<bool> LockManager::Impl::record_slow(LockBucket& b, LockOwner& owner, Intent& intent,
                                            LockName name, LockMode mode, Ask ask) {
    owner.waits_in = intent.lock->id;
    const Grant grant = TRY(acquire(b, owner, name, mode, ask));
    DCHECK(intent.lock != nullptr && (ask == Ask::attempt || grant != Grant::refused));
    if (grant == Grant::fresh) {
        push_name(owner, name);
        count_record(intent);
    }
    return grant != Grant::refused;
}

// The bucket has locks already, perhaps the owner's own.
[[gnu::always_inline]] inline bool LockManager::Impl::record_in_used(LockBucket& b,
                                                                     LockOwner& owner,
                                                                     Intent& intent, LockName name,
                                                                     LockMode mode) {
    DCHECK(intent.lock != nullptr && has_room(owner));
    const Grant grant = acquire_thin(b, owner.slot, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return false;
    b.unlatch_thin();
    if (grant == Grant::fresh) {
        push_name(owner, name);
        count_record(intent);
    }
    return true;
}

inline Result<bool> LockManager::Impl::record_noted(LockManager& self, LockOwner& owner,
                                                    ObjectLock& object, LockName name,
                                                    LockMode mode, Ask ask, Intent* intent,
                                                    uint64_t before, bool confirmed) {
    const bool attempt = ask == Ask::attempt;
    const LockMode intention = intention_for(mode);
    if (!confirmed) [[unlikely]] {
        if (!intent) {  // no free note for this object: no escalation
            if (!TRY(acquire_object(owner, object, intention, attempt, true))) return false;
            if (attempt) return self.try_lock(owner, name, mode);
            owner.waits_in = object.id;
            TRY(self.lock(owner, name, mode));
            return true;
        }
        if (!TRY(lock_weak_slow(owner, object, *intent, intention, before, attempt))) return false;
    }
    DCHECK(intent->lock == &object && covers(intent->held, intention));
    if (record_covered(*intent, mode)) return true;
    if (intent->left == 0 && escalate(owner, *intent, mode)) return true;
    if (lock_in_empty(array, owner.slot, name, mode)) [[likely]] {
        push_name(owner, name);
        count_record(*intent);
        return true;
    }
    LockBucket& b = latch(name.value);
    if (record_in_used(b, owner, *intent, name, mode)) return true;
    return record_slow(b, owner, *intent, name, mode, ask);
}

Result<bool> LockManager::Impl::record_long(LockManager& self, LockOwner& owner, ObjectLock& object,
                                            LockName name, LockMode mode, Ask ask) {
    const LockMode intention = intention_for(mode);
    owner.assert_state();
    if (!has_room(owner) && !grow_names(owner)) return fail(ErrorCode::out_of_memory, "lock names");
    Intent* intent = find_intent(owner, object);
    uint64_t before = 0;
    const bool confirmed = (intent && covers(intent->held, intention)) ||
                           note_weak(owner, object, intention, options.escalate_at, intent, before);
    return record_noted(self, owner, object, name, mode, ask, intent, before, confirmed);
}

Result<void> LockManager::Impl::ask_record_latched(LockOwner& owner, Intent& intent, LockName name,
                                                   LockMode mode) {
    LockBucket& b = latch(name.value);
    if (record_in_used(b, owner, intent, name, mode)) return {};
    const ObjectLock& object = *intent.lock;
    if (TRY(record_slow(b, owner, intent, name, mode, Ask::attempt))) return {};
    return refusal(object, name, mode);
}

// Mostly it is the owner's first lock in the object.
Result<void> LockManager::Impl::ask_record_long(LockManager& self, LockOwner& owner,
                                                ObjectLock& object, LockName name, LockMode mode) {
    if ((owner.intents_of >> object.id.value % 64 & 1) == 0 && has_room(owner)) [[likely]] {
        owner.assert_state();
        Intent* intent = nullptr;
        uint64_t before = 0;
        const bool confirmed =
            note_weak(owner, object, intention_for(mode), options.escalate_at, intent, before);
        if (!confirmed || !lock_in_empty(array, owner.slot, name, mode)) [[unlikely]]
            return ask_record_noted(self, owner, object, name, mode, intent, before, confirmed);
        push_name(owner, name);
        count_record(*intent);
        return {};
    }
    if (TRY(record_long(self, owner, object, name, mode, Ask::attempt))) return {};
    return refusal(object, name, mode);
}

Result<void> LockManager::Impl::ask_record_noted(LockManager& self, LockOwner& owner,
                                                 ObjectLock& object, LockName name, LockMode mode,
                                                 Intent* intent, uint64_t before, bool confirmed) {
    if (TRY(record_noted(self, owner, object, name, mode, Ask::attempt, intent, before, confirmed)))
        return {};
    return refusal(object, name, mode);
}

Result<void> LockManager::Impl::lock_record_long(LockManager& self, LockOwner& owner,
                                                 ObjectLock& object, LockName name, LockMode mode) {
    TRY(record_long(self, owner, object, name, mode, Ask::wait));
    return {};
}

// True if the record needs no lock any more. Intent::left counts grants, and locks_held bounds the
// locks still held. An owner that unlocks after each read has few, and does not escalate although
// it has read much.
bool LockManager::Impl::escalate(LockOwner& owner, Intent& intent, LockMode record_mode) {
    const uint64_t most = uint64_t{options.escalate_at} << intent.doubled;
    DCHECK(intent.lock != nullptr && intent.left == 0);
    if (owner.locks_held < most) {
        intent.left =
            static_cast<uint32_t>(std::min<uint64_t>(most - owner.locks_held, UINT32_MAX));
        set_held(intent, intent.held);
        return false;
    }
    const bool writes =
        covers(intent.held, LockMode::IX) || intention_for(record_mode) == LockMode::IX;
    const Result<bool> done =
        lock_strong(owner, *intent.lock, writes ? LockMode::X : LockMode::S, true);
    if (done.has_value() && *done) {
        escalations.fetch_add(1, std::memory_order_relaxed);
        return record_covered(intent, record_mode);
    }
    intent.left = static_cast<uint32_t>(std::min<uint64_t>(most, UINT32_MAX));
    if (intent.doubled < 31) ++intent.doubled;
    set_held(intent, intent.held);
    return false;
}

}  // namespace lockstep::txn
