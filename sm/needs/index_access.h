// index_access.h - the library's own access to the public handles of indexes.
#pragma once

#include <lockstep/secondary.h>

namespace lockstep::sm {

struct Secondary;

struct IndexAccess {
    static Index make(Engine* engine, BTree* tree) { return {engine, tree}; }
    static BTree* tree(const Index& index) { return index.tree_; }
    static Engine* engine(const Index& index) { return index.engine_; }

    // --- secondary_api.cc
    // Null: no secondary index, or the transaction cannot use it. Its store may then be closed, and
    // the tree gone. In both cases the first step of a scan tells the reason.
    static const Secondary* secondary(const Txn& txn, const Index& index);
    // Entries low <= e < high; an empty `high` means to the end. `s` is the secondary of `entries`.
    static SecondaryCursor scan(Txn& txn, const Index& entries, const Secondary* s, Slice low,
                                Slice high, Access access);
};

}  // namespace lockstep::sm
