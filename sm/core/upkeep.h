// upkeep.h - what must happen together with every change of an index.
//
// Concepts   An index may have an Upkeep (BTree::set_upkeep). Then each operation that changes a
//            record locks the key, and hands the change to the Upkeep instead of making it. The
//            Upkeep calls the same operation again under a KeptUp, which makes the change itself.
//            An index without an Upkeep pays one test of a pointer for each change.
// Invariants UP-1 The test comes behind the lock of the key. Its owner then has an intention on
//                 the whole index. So a transaction that holds S on the index may give it an
//                 Upkeep, and no change of others misses that.
//            UP-2 A KeptUp counts for one index: changes of others inside it are handed over.
// Blocking   The calls of Upkeep park: locks, pages, log. No latch is held.
#pragma once

#include <utility>

#include "sm/core/txn_local.h"

namespace lockstep::sm {

struct Secondary;

// Makes a change and what belongs to it, or neither. Results and errors as those of BTree.
class Upkeep {
public:
    virtual ~Upkeep() = default;
    virtual Result<void> insert(txn::Transaction& txn, Slice key, Slice value) = 0;
    virtual Result<bool> update(txn::Transaction& txn, Slice key, Slice value) = 0;
    virtual Result<bool> patch(txn::Transaction& txn, Slice key, size_t offset, Slice part) = 0;
    virtual Result<bool> erase(txn::Transaction& txn, Slice key) = 0;
    // What is known of the index if it is a secondary one (sm/secondary/secondary.h); else null.
    virtual Secondary* secondary() const { return nullptr; }
};

// While it lives, the transaction's changes of that index are made and not handed over.
class [[nodiscard]] KeptUp {
public:
    KeptUp(txn::Transaction& txn, ObjectId object)
        : txn_(txn), object_(object), outer_(std::exchange(local_of(txn).kept_up, object)) {
        DCHECK(object != ObjectId{} && outer_ != object);
    }
    ~KeptUp() {
        DCHECK(local_of(txn_).kept_up == object_);
        local_of(txn_).kept_up = outer_;
    }
    KeptUp(const KeptUp&) = delete;
    KeptUp& operator=(const KeptUp&) = delete;

private:
    txn::Transaction& txn_;
    const ObjectId object_;
    const ObjectId outer_;
};

}  // namespace lockstep::sm
