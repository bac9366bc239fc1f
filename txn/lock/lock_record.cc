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
// Blocking   lock_record() parks like lock(). The try_ calls and escalation never park.
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

// An attempt that fails counts as refused: lock_record() says why.
inline bool granted(const Result<bool>& attempt) { return attempt.has_value() && *attempt; }

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

}  // namespace

Result<void> LockManager::lock_record(LockOwner& owner, ObjectLock& object, LockName name,
                                      LockMode mode) {
    DCHECK(name.value != 0 && owner.waiting.load(std::memory_order_relaxed) == nullptr);  // LM-3
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode) || !lock_in_empty(array_, owner.slot, name, mode))
        [[unlikely]] {
        TRY(impl_->note_and_lock(*this, owner, object, name, mode, Ask::wait));
        return {};
    }
    push_name(owner, name);
    count_record(intent);
    return {};
}

bool LockManager::try_lock_record(LockOwner& owner, ObjectLock& object, LockName name,
                                  LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    Intent& intent = likely_intent(owner, object);
    if (!short_way(owner, intent, object, mode)) [[unlikely]]
        return impl_->try_unnoted(*this, owner, object, name, mode);
    if (!lock_in_empty(array_, owner.slot, name, mode)) [[unlikely]]
        return impl_->try_in_used(owner, intent, name, mode);
    push_name(owner, name);
    count_record(intent);
    return true;
}

size_t LockManager::try_lock_records(LockOwner& owner, ObjectLock& object,
                                     std::span<const LockName> names, LockMode mode) {
    DCHECK(!names.empty() && mode != LockMode::none);
    for (size_t n = 0;; ++n) {
        Intent& intent = likely_intent(owner, object);
        if (short_way(owner, intent, object, mode)) [[likely]]
            n += lock_in_row(array_, owner, intent, names.subspan(n), mode);
        if (n == names.size() || !try_lock_record(owner, object, names[n], mode)) return n;
    }
}

// The bucket has locks already, perhaps the owner's own.
[[gnu::always_inline]] inline bool LockManager::Impl::lock_in_used(LockBucket& b, LockOwner& owner,
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

// Mostly it is the owner's first lock in the object.
bool LockManager::Impl::try_unnoted(LockManager& self, LockOwner& owner, ObjectLock& object,
                                    LockName name, LockMode mode) {
    DCHECK(name.value != 0 && mode != LockMode::none);
    if ((owner.intents_of >> object.id.value % 64 & 1) != 0 || !has_room(owner)) [[unlikely]]
        return granted(note_and_lock(self, owner, object, name, mode, Ask::attempt));
    owner.assert_state();
    Noted noted;
    noted.confirmed = note_weak(owner, object, intention_for(mode), options.escalate_at,
                                noted.intent, noted.before);
    if (!noted.confirmed || !lock_in_empty(array, owner.slot, name, mode)) [[unlikely]]
        return granted(lock_noted(self, owner, object, name, mode, Ask::attempt, noted));
    push_name(owner, name);
    count_record(*noted.intent);
    return true;
}

bool LockManager::Impl::try_in_used(LockOwner& owner, Intent& intent, LockName name,
                                    LockMode mode) {
    LockBucket& b = latch(name.value);
    DCHECK(intent.lock != nullptr && mode != LockMode::none);
    if (lock_in_used(b, owner, intent, name, mode)) return true;
    return granted(lock_in_queue(b, owner, intent, name, mode, Ask::attempt));
}

Result<bool> LockManager::Impl::note_and_lock(LockManager& self, LockOwner& owner,
                                              ObjectLock& object, LockName name, LockMode mode,
                                              Ask ask) {
    const LockMode intention = intention_for(mode);
    owner.assert_state();
    if (!has_room(owner) && !grow_names(owner)) return fail(ErrorCode::out_of_memory, "lock names");
    Noted noted{.intent = find_intent(owner, object)};
    noted.confirmed =
        (noted.intent && covers(noted.intent->held, intention)) ||
        note_weak(owner, object, intention, options.escalate_at, noted.intent, noted.before);
    return lock_noted(self, owner, object, name, mode, ask, noted);
}

Result<bool> LockManager::Impl::lock_noted(LockManager& self, LockOwner& owner, ObjectLock& object,
                                           LockName name, LockMode mode, Ask ask, Noted noted) {
    const bool attempt = ask == Ask::attempt;
    const LockMode intention = intention_for(mode);
    Intent* const intent = noted.intent;
    DCHECK(has_room(owner) && (intent == nullptr || intent->lock == &object));
    DCHECK(intent != nullptr || !noted.confirmed);
    if (!noted.confirmed) [[unlikely]] {
        if (!intent) {  // no free note for this object: no escalation
            if (!TRY(acquire_object(owner, object, intention, attempt, true))) return false;
            if (attempt) return self.try_lock(owner, name, mode);
            owner.waits_in = object.id;
            TRY(self.lock(owner, name, mode));
            return true;
        }
        if (!TRY(lock_weak_slow(owner, object, *intent, intention, noted.before, attempt)))
            return false;
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
    if (lock_in_used(b, owner, *intent, name, mode)) return true;
    return lock_in_queue(b, owner, *intent, name, mode, ask);
}

Result<bool> LockManager::Impl::lock_in_queue(LockBucket& b, LockOwner& owner, Intent& intent,
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
