// lock_wait.h - how an operation waits for a lock that it was refused, and says what the lock's
// name stands for.
//
// Concepts   LockManager::try_lock_record() never waits. Where it returns false, these functions
//            lock the record, and wait. So the path without a wait has no instruction for the key.
//            While a transaction waits, Store::transactions() shows
//            the key, and afterwards the list of hot locks does. The lock manager's own error texts
//            contain the name as a number; here it is replaced. Names that only other transactions
//            asked for stay numbers.
// Blocking   All park until the lock is granted; the caller holds no latch. Cold.
#pragma once

#include <string>
#include <utility>

#include "txn/lock/lock_manager.h"

namespace lockstep::sm {

// While it lives, the owner's requests are refused (lock_refused) where they would have to wait.
class [[nodiscard]] NeverWaits {
public:
    NeverWaits(txn::LockOwner& owner, bool never)
        : owner_(owner), before_(std::exchange(owner.never_waits, never)) {
        DCHECK(owner.waiting.load(std::memory_order_relaxed) == nullptr);
    }
    ~NeverWaits() {
        DCHECK(owner_.waiting.load(std::memory_order_relaxed) == nullptr);
        owner_.never_waits = before_;
    }
    NeverWaits(const NeverWaits&) = delete;
    NeverWaits& operator=(const NeverWaits&) = delete;

private:
    txn::LockOwner& owner_;
    const bool before_;
};

// What try_lock_record() refused.
struct Refused {
    txn::ObjectLock& object;
    txn::LockName name;
    txn::LockMode mode;
};

// Errors: those of LockManager::lock_record(). The lock on the key `key`:
[[gnu::cold, gnu::noinline]] Result<void> wait_for_key(txn::LockManager& locks,
                                                       txn::LockOwner& owner,
                                                       const Refused& refused, Slice key);
// The gap above `key`, which has that key's name.
[[gnu::cold, gnu::noinline]] Result<void> wait_for_gap(txn::LockManager& locks,
                                                       txn::LockOwner& owner,
                                                       const Refused& refused, Slice key);
// The gap above the largest key.
[[gnu::cold, gnu::noinline]] Result<void> wait_for_end(txn::LockManager& locks,
                                                       txn::LockOwner& owner,
                                                       const Refused& refused);
// A heap's record.
[[gnu::cold, gnu::noinline]] Result<void> wait_for_record(txn::LockManager& locks,
                                                          txn::LockOwner& owner,
                                                          const Refused& refused, RecordId id);
// Waits until an insert of `key` into the gap below the name `next` could be granted.
[[gnu::cold, gnu::noinline]] Result<void> wait_for_insert(txn::LockManager& locks,
                                                          txn::LockOwner& owner, ObjectId object,
                                                          txn::LockName next, Slice key);

// The place in words: `key "a"`, `record 3 of page 7`. Empty if it is not known.
std::string lock_place_text(const txn::LockPlace& place);

}  // namespace lockstep::sm
