// drop_list.h - what must be freed whatever happens: dropped or unfinished objects, replaced overflow chains, unfinished loads.
//
// Concepts   Entries in the catalogue's tree, behind a zero byte, so no name can meet them. An entry is written by the transaction that
//            makes pages unreachable, or, before they are written, by one of its own; the transaction that makes them reachable
//            removes it. So after any crash, pages that nothing refers to are named here, and open() frees them.
// Layout     key: a zero byte, u32 store; for chains and loads also u64 number and u32 page. Value: u32 store, u32 kind (DropKind), u32 page.
// Blocking   Everything parks: locks, pages, log.
#pragma once

#include <functional>

#include "sm/btree.h"

namespace lockstep::sm {

enum class DropKind : uint32_t {
    index = 1,                   // page: its root
    heap = 2,                    // page: its first map
    chain = 3,                   // page: the chain's first
    load = 4,                    // pages of the index that its root does not reach
};

struct DropEntry {
    DropKind kind{};
    StoreId store{};
    PageId page = kPageNone;
    uint64_t number = 0;         // tells chains and loads of one store apart; 0 for objects
};

// Runs `body` as a lazy transaction of its own: committed if it succeeds, rolled back otherwise.
Result<void> run_system_txn(Engine& engine, std::move_only_function<Result<void>(txn::Transaction&)> body);

class DropList {
public:
    DropList(Engine& engine, BTree& tree) : engine_(engine), tree_(tree) {}
    Result<void> add(txn::Transaction& txn, const DropEntry& entry);
    // Nothing happens if it is not there.
    Result<void> remove(txn::Transaction& txn, const DropEntry& entry);
    Result<void> remove_now(const DropEntry& entry);             // in a transaction of its own
    Result<std::vector<DropEntry>> entries();                    // committed ones; the catalogue must be quiet

    // Reads the entry that a catalogue pair is; false if the pair is something else. Errors: corrupt_page.
    static Result<bool> read(Slice key, Slice value, DropEntry& entry);

private:
    Engine& engine_;
    BTree& tree_;
};

// Frees every page of the volume that carries `store`'s number and is not among `keep`: for an object whose structure a crash has left
// half freed or half made. Reads all used pages of the volume. The object must be quiet.
Result<void> sweep(Engine& engine, StoreId store, std::span<const PageId> keep);

}  // namespace lockstep::sm
