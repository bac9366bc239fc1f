// btree.cc - making and destroying a tree.
#include "sm/btree_impl.h"
#include "sm/catalog.h"
#include "sm/overflow.h"

namespace lockstep::sm {

using namespace node;

BTree::BTree(Engine& engine, StoreId id, PageId root) : engine_(engine), id_(id), root_(root) {
    lock_.store = id;
    // Creating an object takes locks of a second transaction there: it would wait for its creator's lock on the whole.
    lock_.escalates = id != kCatalogStore;
}

Result<PageId> BTree::create(Engine& engine, StoreId id) {
    PageReservation space = TRY(engine.space->prepare(1));
    const PageId root = space.pages[0];
    ExclusivePage page = TRY(engine.pool->fix_new(root));
    const payload::Format format{root.value, id.value, kPageNone.value, 0, 0, 0, kInfinite};
    ChangePart parts[2] = {
        space.part(),
        {&page, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, {}}},
    };
    Result<Lsn> done = change_pages(engine, nullptr, ChangeRole::system, LogKind::btree_create, id, parts);
    if (!done) {
        engine.pool->drop(std::move(page));
        return std::unexpected(done.error());
    }
    return root;
}

Result<void> BTree::destroy() {
    Report report = TRY(verify());
    if (!report.faults.empty()) return fail(ErrorCode::corrupt_page, "index that is to be dropped", root_.value, id_.value);
    // The root last: as long as it stands, what is left of the tree can be found.
    std::reverse(report.pages.begin(), report.pages.end());
    return engine_.space->free_now(report.pages);
}

}  // namespace lockstep::sm
