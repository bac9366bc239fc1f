// btree_raw_scan.cc - the leftmost descent, then along the leaves.
#include "sm/btree/btree_raw_scan.h"

#include "sm/btree/btree_node.h"

namespace lockstep::sm {

Result<void> scan_raw(
    BufferPool& pool, BTree& tree,
    std::move_only_function<Result<void>(Slice key, Slice value, bool ghost)> each) {
    SharedPage page = TRY(pool.fix_shared(tree.root()));
    while (!node::is_leaf(*page)) page = TRY(pool.fix_shared(node::child_at(*page, -1)));
    for (;;) {
        if (page->kind() != PageKind::btree || page->header.object != tree.id().value)
            return fail(ErrorCode::corrupt_page, "a leaf of another object in the chain of leaves",
                        page->id().value, tree.id().value);
        for (unsigned slot = 0; slot < node::count(*page); ++slot)
            TRY(each(node::full_key(*page, slot), node::value(*page, slot),
                     node::ghost(*page, slot)));
        const PageId next = node::right(*page);
        if (next == kPageNone) return {};
        page = TRY(pool.fix_shared(next));
    }
}

}  // namespace lockstep::sm
