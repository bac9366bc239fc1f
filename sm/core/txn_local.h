// txn_local.h - what sm keeps in every transaction: leaf hints, pages it logged last, its deferred
// actions.
//
// Concepts   txn/ gives each transaction object a slot of bytes for the layer above and clears it
//            once, when the object is made (Transaction::upper). A slot outlives the transactions
//            that use the object one after the other.
// Invariants TL-1 All bytes zero is the state "nothing known". TL-2 Hints are never more than
// hints: a stale one costs a descent.
//            TL-3 `deferred` is null whenever the transaction object is free. [deferred.cc]
#pragma once

#include "txn/transaction.h"

namespace lockstep::sm {

// Where in an index the transaction was last: the next operation looks there before it descends.
// Needs no reset (TL-2).
struct LeafHint {
    ObjectId store{};  // 0: none
    PageId page{};
    uint16_t slot = 0;
    int16_t score = 0;          // how often in a row the next key was in the same leaf
    uint32_t leaves_freed = 0;  // BTree::leaves_freed() when the leaf was seen
};

struct TxnLocal {
    // == the transaction's id: it may hold gap_read locks. Never reset: ids are not reused.
    TxnId gap_reader{};
    LeafHint leaf_hints[8];  // by ObjectId modulo 8
    // Last ones it logged; cleared with its first record, see page_change.cc.
    PageId recent_pages[4]{};
    void* deferred = nullptr;  // list of deferred actions, see deferred.h
};
static_assert(sizeof(TxnLocal) <= txn::kUpperBytes && alignof(TxnLocal) <= txn::kUpperAlign);

inline TxnLocal& local_of(txn::Transaction& txn) { return *reinterpret_cast<TxnLocal*>(txn.upper); }

}  // namespace lockstep::sm
