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

inline Intent& likely_intent(LockOwner& owner, const ObjectLock& object) {
    return owner.intents[owner.intent_hint[object.id.value % 16]];
}

inline bool short_way(const LockOwner& owner, const Intent& intent, const ObjectLock& object,
                      LockMode mode) {
    return intent.lock == &object && without(mode, intent.records_short) == LockMode::none &&
           intent.record_locks < intent.escalate_at && has_room(owner);
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
    if (!short_way(owner, intent, object, mode)) [[unlikely]]
        return impl_->lock_record_long(*this, owner, object, name, mode);
    LockBucket& bucket = buckets_[name.value >> shift_];
    const Grant grant = lock_thin(bucket, owner, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return impl_->lock_record_slow(bucket, owner, intent, name, mode);
    if (grant == Grant::fresh) ++intent.record_locks;
    return {};
}

Result<void> LockManager::ask_record(LockOwner& owner, ObjectLock& object, LockName name,
                                     LockMode mode) {
    DCHECK(name.value != 0);
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode)) [[unlikely]]
        return impl_->ask_record_long(*this, owner, object, name, mode);
    LockBucket& bucket = buckets_[name.value >> shift_];
    const Grant grant = lock_thin(bucket, owner, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return impl_->ask_record_slow(bucket, owner, intent, name, mode);
    if (grant == Grant::fresh) ++intent.record_locks;
    return {};
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
    if (!short_way(owner, intent, object, mode)) [[unlikely]]
        return impl_->record_long(*this, owner, object, name, mode, Ask::attempt);
    LockBucket& bucket = buckets_[name.value >> shift_];
    const Grant grant = lock_thin(bucket, owner, name, mode);
    if (grant == Grant::slow) [[unlikely]]
        return impl_->record_slow(bucket, owner, intent, name, mode, Ask::attempt);
    if (grant == Grant::fresh) ++intent.record_locks;
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
        ++intent.record_locks;
    }
    return grant != Grant::refused;
}

Result<bool> LockManager::Impl::record_long(LockManager& self, LockOwner& owner, ObjectLock& object,
                                            LockName name, LockMode mode, Ask ask) {
    const bool attempt = ask == Ask::attempt;
    owner.assert_state();
    if (!has_room(owner) && !grow_names(owner)) return fail(ErrorCode::out_of_memory, "lock names");
    Intent* intent = find_intent(owner, object);
    if (!intent || !covers(intent->held, intention_for(mode))) {
        if (!TRY(lock_weak(owner, object, intention_for(mode), attempt))) return false;
        intent = find_intent(owner, object);
        if (!intent) {  // no free note for this object: no escalation
            if (attempt) return self.try_lock(owner, name, mode);
            owner.waits_in = object.id;
            TRY(self.lock(owner, name, mode));
            return true;
        }
    }
    DCHECK(intent->lock == &object && covers(intent->held, intention_for(mode)));
    if (record_covered(*intent, mode)) return true;
    if (intent->record_locks >= intent->escalate_at && escalate(owner, *intent, mode)) return true;
    LockBucket& b = bucket(name.value);
    const Grant grant = lock_thin(b, owner, name, mode);
    if (grant == Grant::slow) return record_slow(b, owner, *intent, name, mode, ask);
    if (grant == Grant::fresh) ++intent->record_locks;
    return true;
}

Result<void> LockManager::Impl::lock_record_slow(LockBucket& b, LockOwner& owner, Intent& intent,
                                                 LockName name, LockMode mode) {
    TRY(record_slow(b, owner, intent, name, mode, Ask::wait));
    return {};
}

Result<void> LockManager::Impl::ask_record_slow(LockBucket& b, LockOwner& owner, Intent& intent,
                                                LockName name, LockMode mode) {
    DCHECK(intent.lock != nullptr && b.latch.is_held());
    const ObjectLock& object = *intent.lock;
    if (TRY(record_slow(b, owner, intent, name, mode, Ask::attempt))) return {};
    return refusal(object, name, mode);
}

Result<void> LockManager::Impl::ask_record_long(LockManager& self, LockOwner& owner,
                                                ObjectLock& object, LockName name, LockMode mode) {
    if (TRY(record_long(self, owner, object, name, mode, Ask::attempt))) return {};
    return refusal(object, name, mode);
}

Result<void> LockManager::Impl::lock_record_long(LockManager& self, LockOwner& owner,
                                                 ObjectLock& object, LockName name, LockMode mode) {
    TRY(record_long(self, owner, object, name, mode, Ask::wait));
    return {};
}

// True if the record needs no lock any more. record_locks counts grants, and locks_held bounds the
// locks still held. An owner that unlocks after each read (read committed) has few, and does not
// escalate although it has read much.
bool LockManager::Impl::escalate(LockOwner& owner, Intent& intent, LockMode record_mode) {
    DCHECK(intent.lock != nullptr && intent.record_locks >= intent.escalate_at);
    if (owner.locks_held < intent.escalate_at) {
        intent.record_locks = static_cast<uint32_t>(owner.locks_held);
        return false;
    }
    const bool writes =
        covers(intent.held, LockMode::IX) || intention_for(record_mode) == LockMode::IX;
    const Result<bool> done =
        lock_strong(owner, *intent.lock, writes ? LockMode::X : LockMode::S, true);
    if (done && *done) {
        escalations.fetch_add(1, std::memory_order_relaxed);
        return record_covered(intent, record_mode);
    }
    intent.escalate_at = intent.escalate_at > UINT32_MAX / 2 ? UINT32_MAX : intent.escalate_at * 2;
    return false;
}

}  // namespace lockstep::txn
