// btree_impl.h - what the files of the B-tree share: positions, descents, latching a leaf, changes,
// locks' names.
//
// Concepts   Target: a leaf that is exclusively latched, with the place of a key in it.
// Blocking   Descend and locate park only on page misses; latch_for also parks for the latch. The
//            caller may hold no latch.
#pragma once

#include "sm/btree/btree.h"
#include "sm/btree/btree_node_search.h"
#include "sm/btree/btree_payload.h"
#include "sm/btree/btree_position.h"
#include "sm/change/page_change.h"
#include "sm/core/lock_wait.h"
#include "sm/core/txn_local.h"

namespace lockstep::sm {

inline constexpr unsigned kOptimisticTries = 2;
inline constexpr unsigned kSpinRetries = 200, kRetriesMax = 2200;
inline constexpr Nanos kRetryPause = kMillisecond;
// Times a leaf is split or cleaned for one record: other threads took the space, or the leaf is
// damaged.
inline constexpr unsigned kRoomTriesMax = 1000;

struct BTree::Target {
    ExclusivePage page;
    PageId id;
    unsigned slot = 0;
    uint32_t leaves_freed = 0;
    bool found = false;
    uint64_t name = 0;  // hash of the record's name, if it is known

    // Before a record of this leaf changes.
    void assert_state() const {
        node::assert_state(*page);
        DCHECK(node::is_leaf(*page) && slot <= node::count(*page));
        DCHECK(!found || slot < node::count(*page));
    }
};
struct BTree::NextKey {
    txn::LockName name;
    OptimisticPage sibling;
    bool valid() const { return sibling.page == nullptr || sibling.valid(); }
};

inline void BTree::remember(txn::Transaction& txn, PageId leaf, unsigned slot,
                            uint32_t leaves_freed) const {
    LeafHint& hint = hint_of(txn, id_);
    hint.score = hint.page == leaf && hint.object == id_
                     ? static_cast<int16_t>(std::min(hint.score + 1, 4))
                     : int16_t{0};
    DCHECK(leaf != kPageNone && slot <= node::kSlotsMax);
    DCHECK(hint.score >= 0 && hint.score <= 4);
    hint.object = id_;
    hint.page = leaf;
    hint.slot = static_cast<uint16_t>(slot);
    hint.leaves_freed = leaves_freed;
}

// Unvalidated: a node of that tree and level. A page of the volume with a sound checksum need not
// be: its last write may have been lost.
inline bool is_node_of(const Page& page, ObjectId object, unsigned level) {
    return page.kind() == PageKind::btree && page.header.level == level &&
           page.header.object == object.value;
}
inline bool BTree::is_node_for(const Page& page, unsigned level, const SearchKey& key) const {
    return is_node_of(page, id_, level) && node::covers(page, key);
}

inline txn::LockMode mode_of(Access access) {
    return access == Access::read     ? txn::LockMode::S
           : access == Access::update ? txn::LockMode::U
                                      : txn::LockMode::X;
}
inline void copy_out(Slice value, ValueOut& out) {
    DCHECK(out.fixed == nullptr || out.text == nullptr);
    out.bytes = value.size();
    if (out.fixed)
        bytes::copy_bytes(reinterpret_cast<char*>(out.fixed), value.substr(0, out.capacity));
    else if (out.text) out.text->assign(value);
}
// What stands at the place of a search. changed: the leaf has changed since. large: the value is
// in an overflow chain; not validated.
enum class Copied : uint8_t { changed, absent, found, large };
// Copies a value that lies in the leaf, and validates behind that.
[[gnu::always_inline]] inline Copied copy_record(const BTree::Position& pos, ValueOut& out) {
    const Page& page = *pos.at.page;
    DCHECK(pos.slot <= node::kSlotsMax);
    const bool found = pos.found && !node::ghost(page, pos.slot);
    if (found && node::overflow(page, pos.slot)) [[unlikely]]
        return Copied::large;
    if (found) copy_out(node::value(page, pos.slot), out);
    if (!pos.valid()) [[unlikely]]
        return Copied::changed;
    // The page may change again from now on, so nothing more is read from it.
    DCHECK(pos.id != kPageNone && (!found || out.bytes <= node::kInlineMax));
    return found ? Copied::found : Copied::absent;
}
// Does the value go to an overflow chain?
inline bool too_large(size_t key_bytes, size_t value_bytes) {
    return key_bytes + value_bytes > node::kInlineMax;
}
// The error of a change that writable() refuses.
[[gnu::cold, gnu::noinline]] Result<void> check_write(const txn::Transaction& txn, size_t key_bytes,
                                                      size_t value_bytes);
// Why modify() stores nothing: the transaction has ended while the application's function ran.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> ended_meanwhile(const txn::Transaction& txn,
                                                                    TxnId id, const char* what);
inline bool writable(const txn::Transaction& txn, size_t key_bytes, size_t value_bytes) {
    return key_bytes <= kKeyBytesMax && value_bytes <= kValueBytesMax && !txn.read_only &&
           !txn.must_abort();
}

[[gnu::always_inline]] inline Result<void> BTree::lock_key(txn::Transaction& txn,
                                                           const node::SearchKey& key,
                                                           txn::LockName name, txn::LockMode mode) {
    if (!env_.locks->try_lock_record(txn.locks, lock_, name, mode)) [[unlikely]]
        return wait_for_key(*env_.locks, txn.locks, {lock_, name, mode}, key);
    return {};
}

}  // namespace lockstep::sm
