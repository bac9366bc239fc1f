// drop_list.h - what must be freed whatever happens: dropped or unfinished objects, replaced
// overflow chains, unfinished loads.
//
// Concepts   Entries lie in the catalog's tree. Their keys begin with a zero byte, so they never
//            equal a name. The transaction that makes pages unreachable writes their entry. For
//            pages that are yet to be written, a separate transaction writes it first. The
//            transaction that makes the pages reachable removes it. So after any crash, every page
//            that nothing refers to is named here, and open() frees it.
// Layout     Key: a zero byte, u32 object; for chains and loads also u64 number and u32 page.
//            Value: u32 object, u32 kind (DropKind), u32 page.
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
    Result<void> remove_now(std::span<const DropEntry> entries) override;
    // Committed ones; the catalog must be quiet.
    Result<std::vector<DropEntry>> entries();

    // Whoever adds or removes the entry locks this name until its end.
    static txn::LockName lock_name(const DropEntry& entry);
    // Decodes a catalog pair as a drop-list entry; false if the pair is something else. Errors:
    // corrupt_page.
    static Result<bool> read(Slice key, Slice value, DropEntry& entry);

private:
    Env& env_;
    BTree& tree_;
};

}  // namespace lockstep::sm
