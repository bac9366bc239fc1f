// btree_erase.cc - deleting a record makes it a ghost: its key stays lockable and the delete
// undoable.
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/change/rollback.h"
#include "sm/core/cleanup.h"
#include "sm/core/lock_wait.h"
#include "sm/core/upkeep.h"

namespace lockstep::sm {

using namespace node;

void BTree::note_ghost(const Page& leaf, Slice key) {
    // One note per leaf does: the first ghost of a leaf, and again now and then in case the cleaner
    // has been there. A leaf without a record gets no further ghost; the root stays anyway.
    const unsigned ghosts = header(leaf).ghosts;
    DCHECK(ghosts > 0 && is_leaf(leaf));
    const bool all = ghosts == count(leaf) && leaf.id() != root_;
    if (ghosts != 1 && ghosts % 16 != 0 && !all) return;
    if (env_.ghost_notes) env_.ghost_notes->note_leaf(id_, key);
}

Result<void> BTree::log_set_ghost(txn::Transaction& txn, Target& t, Slice key, bool is_ghost,
                                  ChangeRole role, LogKind kind, Lsn undo_next) {
    t.assert_state();
    DCHECK(t.found && t.page->header.object == id_.value);
    DCHECK(role == ChangeRole::compensation || (is_ghost && kind == LogKind::btree_erase));
    const payload::SetGhost head{static_cast<uint16_t>(t.slot), is_ghost,
                                 static_cast<uint16_t>(key.size()), 0};
    ChangePart part{
        &t.page, PageAction::btree_set_ghost, 0, {payload::bytes_of(head), key, {}, {}}};
    TRY(change_pages(env_, &txn, role, kind, id_, {&part, 1}, undo_next));
    if (is_ghost) note_ghost(*t.page, key);
    return {};
}

// The record's value is a chain, which the transaction releases with it.
[[gnu::cold, gnu::noinline]] Result<bool> BTree::erase_large(txn::Transaction& txn, Target& t,
                                                             Slice key) {
    DCHECK(t.found && !ghost(*t.page, t.slot) && overflow(*t.page, t.slot));
    const std::string ref(value(*t.page, t.slot));
    const Lsn before = txn.last_lsn;
    TRY(log_set_ghost(txn, t, key, true, ChangeRole::forward, LogKind::btree_erase, kLsnNone));
    t.page.release();
    if (is_unlisted(ref)) return true;  // the ghost owns it
    const Result<void> released = release_overflow(env_, txn, id_, ref);
    if (!released) return undo_operation(env_, txn, before, released.error());
    return true;
}

Result<bool> BTree::erase(txn::Transaction& txn, Slice key) {
    if (!writable(txn, key.size(), 0)) [[unlikely]] {
        TRY(check_write(txn, key.size(), 0));
    }
    const node::SearchKey wanted(key);
    TRY(lock_key(txn, wanted, wanted.lock_name(id_), txn::LockMode::X));
    if (Upkeep* upkeep = upkeep_for(txn)) [[unlikely]]
        return upkeep->erase(txn, key);
    BTree::Target t;
    TRY(latch_for(txn, wanted, true, t));
    if (!t.found || ghost(*t.page, t.slot)) return false;
    if (overflow(*t.page, t.slot)) [[unlikely]]
        return erase_large(txn, t, key);
    TRY(log_set_ghost(txn, t, key, true, ChangeRole::forward, LogKind::btree_erase, kLsnNone));
    return true;
}

}  // namespace lockstep::sm
