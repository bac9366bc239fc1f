// txn_local.h - what sm keeps in every transaction: leaf hints, the pages it logged last, its
// deferred actions.
//
// Concepts   txn/ gives each transaction object a slot of bytes for the layer above
//            (Transaction::upper). It clears the slot once, when the object is made. The slot
//            outlives the transactions that use the object in turn.
// Invariants TL-1 All bytes zero is the state "nothing known".
//            TL-2 Hints are only hints: a stale one costs a descent.
//            [test: Needs.WrongOnesCostTimeOnly]
//            TL-3 `deferred` is null whenever the transaction object is free. [deferred.cc] So is
//            `places` [needs.cc], `snapshot` [txn_snapshot.cc] and `savepoints` [savepoints.cc].
#pragma once

#include "txn/transaction.h"

namespace lockstep::sm {

// Where in an index the transaction was last. The next operation tries this leaf before it
// descends. Needs no reset (TL-2).
struct LeafHint {
    ObjectId object{};  // 0: none
    PageId page{};
    uint16_t slot = 0;
    int16_t score = 0;          // how often in a row the next key was in this leaf
    uint32_t leaves_freed = 0;  // BTree::leaves_freed() when the leaf was seen
};

struct Places;
struct Savepoints;
struct Snapshot;

struct TxnLocal {
    // == the transaction's id: it may hold gap_read locks. Never reset: ids are not reused.
    TxnId gap_reader{};
    LeafHint leaf_hints[8];  // by ObjectId modulo 8
    // The last pages it logged; cleared with its first record, see page_change.cc.
    PageId recent_pages[4]{};
    void* deferred = nullptr;          // list of deferred actions, see deferred.h
    Places* places = nullptr;          // of announced records, or null; see places.h
    Snapshot* snapshot = nullptr;      // of a snapshot transaction; see snapshots.h
    Savepoints* savepoints = nullptr;  // that it can be rolled back to, or null; see savepoints.h
    ObjectId kept_up{};  // the index that the running operation keeps up itself, see upkeep.h
    // Its operations that call a function of the application now, and rely on the transaction when
    // that returns: it cannot end meanwhile. See CallsBack in operation.h.
    uint32_t calling = 0;
};
static_assert(std::is_trivially_copyable_v<TxnLocal>);  // TL-1
static_assert(sizeof(TxnLocal) <= txn::kUpperBytes && alignof(TxnLocal) <= txn::kUpperAlign);

inline TxnLocal& local_of(txn::Transaction& txn) { return *reinterpret_cast<TxnLocal*>(txn.upper); }
inline const TxnLocal& local_of(const txn::Transaction& txn) {
    return *reinterpret_cast<const TxnLocal*>(txn.upper);
}

inline LeafHint& hint_of(txn::Transaction& txn, ObjectId object) {
    return local_of(txn).leaf_hints[object.value % std::size(local_of(txn).leaf_hints)];
}

}  // namespace lockstep::sm
