// btree_look.cc - point reads outside of transactions: what LM-9 needs, and nothing else.
//
// Concepts   A walk over pages that are in memory, one look at the lock table, a copy. Whatever
//            needs a wait, a lock, a page read or a second thought is `unsure`: the caller then
//            reads in a transaction. So no user thread is needed, and nothing is left behind: no
//            hint, no note, no place in a team.
// Source     Leis et al., "Virtual-Memory Assisted Buffer Management", 2023: the walk.
#include "sm/btree/btree_impl.h"
#include "threads/base/hints.h"
#include "threads/base/sim_point.h"

namespace lockstep::sm {

using namespace node;

static_assert(kOptimisticTries > 0);

namespace {

// The leaf that covers the key, if the pages of the path are in memory; not validated. As in
// Descent, a parent is validated behind the fix of its child, and a wrong page has no child that is
// a leaf of this tree.
bool walk_in_memory(const BufferPool& pool, ObjectId object, PageId root, const SearchKey& key,
                    BTree::Position& out) {
    DCHECK(object.value != 0 && root != kPageNone);
    out.id = root;
    if (!pool.try_fix_optimistic(root, out.at)) return false;
    for (unsigned level = out.at.page->header.level; level > 0; --level) {
        const Page& page = *out.at.page;
        const PageId next = child_at(page, child_slot(page, key));
        OptimisticPage child;
        if (!pool.try_fix_optimistic(next, child) || !out.valid()) return false;
        DCHECK(next != kPageNone && next != out.id);  // validated: a child of the node
        out.at = child;
        out.id = next;
    }
    return is_node_of(*out.at.page, object, 0);
}

}  // namespace

BTree::FreeLook BTree::look(Slice key, ValueOut& out, Lsn& seen) const {
    DCHECK(key.size() <= kKeyBytesMax);
    txn::LockManager& locks = *env_.locks;
    const SearchKey wanted(key);
    const txn::LockName name = wanted.lock_name(id_);
    DCHECK(name.value != 0 && lock_.id == id_);
    locks.prefetch(name);
    for (unsigned tries = 0; tries < kOptimisticTries; ++tries) {
        Position pos;
        if (!walk_in_memory(*env_.pool, id_, root_, wanted, pos)) continue;
        const Page& page = *pos.at.page;
        pos.slot = find(page, wanted, pos.found);
        if (pos.found) prefetch_line(chars(page) + slots(page)[pos.slot].at);
        SIM_POINT();
        if (!locks.only_committed(lock_, name, seen)) return FreeLook::unsure;
        SIM_POINT();
        const Copied copied = copy_record(pos, out);
        DCHECK(seen <= kLsnMax && out.bytes <= kPageBytes);
        if (copied == Copied::found) [[likely]]
            return FreeLook::found;
        if (copied == Copied::absent) return FreeLook::absent;
        // What a large value consists of may be freed: it needs the lock.
        if (copied == Copied::large) return FreeLook::unsure;
    }
    return FreeLook::unsure;
}

}  // namespace lockstep::sm
