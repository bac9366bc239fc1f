// drop_list.h - what must be freed whatever happens: dropped or unfinished objects, replaced
// overflow chains, unfinished loads.
//
// Concepts   Entries in the catalog's tree, behind a zero byte, so no name can meet them. An
//            entry is written by the transaction that makes pages unreachable, or, before they are
//            written, by one of its own; the transaction that makes them reachable removes it. So
//            after any crash, pages that nothing refers to are named here, and open() frees them.
// Layout     key: a zero byte, u32 store; for chains and loads also u64 number and u32 page. Value:
//            u32 store, u32 kind (DropKind), u32 page.
// Blocking   Everything parks: locks, pages, log.
#pragma once

#include <vector>

#include "sm/btree/btree.h"
#include "sm/core/cleanup.h"

namespace lockstep::sm {

class DropList final : public DropRegistry {
public:
    DropList(Env& env, BTree& tree) : env_(env), tree_(tree) {}
    Result<void> add(txn::Transaction& txn, const DropEntry& entry) override;
    Result<void> remove(txn::Transaction& txn, const DropEntry& entry) override;
    Result<void> remove_now(const DropEntry& entry) override;
    // Committed ones; the catalog must be quiet.
    Result<std::vector<DropEntry>> entries();

    // Reads the entry that a catalog pair is; false if the pair is something else. Errors:
    // corrupt_page.
    static Result<bool> read(Slice key, Slice value, DropEntry& entry);

private:
    Env& env_;
    BTree& tree_;
};

}  // namespace lockstep::sm
