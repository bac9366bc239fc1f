// btree.cc - making and destroying a tree.
#include <algorithm>

#include "sm/btree_impl.h"
#include "sm/catalog.h"

namespace lockstep::sm {

using namespace node;

BTree::BTree(Engine& engine, StoreId id, PageId root) : engine_(engine), id_(id), root_(root) {
    lock_.store = id;
    // Creating an object takes locks of a second transaction there: it would wait for its creator's lock on the whole.
    lock_.escalates = id != kCatalogStore;
}

Result<PageId> BTree::create(Engine& engine, StoreId id, txn::Transaction* txn) {
    PageReservation space = TRY(engine.space->prepare(1));
    const PageId root = space.pages[0];
    ExclusivePage page = TRY(engine.pool->fix_new(root));
    const payload::Format format{root.value, id.value, kPageNone.value, 0, 0, 0, kInfinite};
    ChangePart parts[2] = {
        space.part(),
        {&page, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, {}}},
    };
    Result<Lsn> done = change_pages(engine, txn, txn ? ChangeRole::forward : ChangeRole::system, LogKind::btree_create, id, parts);
    if (!done) {
        engine.pool->drop(std::move(page));
        return std::unexpected(done.error());
    }
    return root;
}

Result<void> BTree::destroy() {
    destroyed_ = true;
    // Freed pages are not written again, so on disk a tree that was freed before a crash may look whole: the map is asked as well.
    const Result<Report> report = verify();
    bool whole = report && report->faults.empty();
    for (size_t i = 0; whole && i < report->pages.size(); ++i) whole = TRY(engine_.space->is_used(report->pages[i]));
    if (whole) return engine_.space->free_now(report->pages);
    return sweep(engine_, id_, {});                  // half freed: what is left is found by its number
}

}  // namespace lockstep::sm
