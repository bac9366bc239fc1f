// btree.cc - making and destroying a tree.
#include <algorithm>

#include "sm/btree/btree_impl.h"
#include "sm/core/cleanup.h"
#include "sm/space/sweep.h"
#include "threads/base/coherence.h"

namespace lockstep::sm {

using namespace node;

BTree::BTree(Env& env, ObjectId id, PageId root) : env_(env), id_(id), root_(root) {
    DCHECK(id.value != 0 && root != kPageNone);
    lock_.id = id;
    // Creating an object takes locks of a second transaction there: it would wait for its creator's
    // lock on the whole.
    lock_.escalates = id != kCatalogObject;
    coherence::name("tree", this, sizeof *this, sizeof *this);
    coherence::name_field("tree", "stats", stats_);
    coherence::name_field("tree", "leaves_freed", leaves_freed_);
}

Upkeep* BTree::ask_upkeep(txn::Transaction& txn) const {
    DCHECK(threads::current()->latch_depth == 0);
    return local_of(txn).kept_up == id_ ? nullptr : upkeep();
}

Result<PageId> BTree::create(Env& env, ObjectId id, txn::Transaction* txn) {
    PageReservation space = TRY(env.space->prepare(1));
    const PageId root = space.pages[0];
    ExclusivePage page = TRY(env.pool->fix_new(root));
    const payload::Format format{root.value, id.value, kPageNone.value, 0, 0, 0, kInfinite};
    ChangePart parts[2] = {
        space.part(),
        {&page, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, {}}},
    };
    Result<Lsn> done = change_pages(env, txn, txn ? ChangeRole::forward : ChangeRole::system,
                                    LogKind::btree_create, id, parts);
    if (!done) {
        env.pool->drop(std::move(page));
        return std::unexpected(done.error());
    }
    return root;
}

Result<void> BTree::destroy() {
    DCHECK(id_ != kCatalogObject && threads::current()->latch_depth == 0);
    destroyed_ = true;
    // Freed pages are not written again. So a tree that was freed before a crash may look whole on
    // disk, and the map must be checked as well.
    const Result<Report> report = verify();
    bool whole = report && report->faults.empty();
    for (size_t i = 0; whole && i < report->pages.size(); ++i)
        whole = TRY(env_.space->is_used(report->pages[i]));
    if (whole) return env_.space->free_now(report->pages);
    return sweep(env_, id_, {});  // half freed: what is left is found by its number
}

}  // namespace lockstep::sm
