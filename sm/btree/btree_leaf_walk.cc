// btree_leaf_walk.cc - the leftmost descent, then along the leaves.
#include "sm/btree/btree_leaf_walk.h"

#include <cstring>

#include "sm/btree/btree_node.h"

namespace lockstep::sm {

Result<bool> LeafWalk::next(Page& copy) {
    DCHECK(threads::current()->latch_depth == 0);
    if (begun_ && next_ == kPageNone) return false;
    SharedPage page = TRY(pool_.fix_shared(begun_ ? next_ : tree_.root()));
    while (!begun_ && !node::is_leaf(*page))
        page = TRY(pool_.fix_shared(node::child_at(*page, -1)));
    if (page->kind() != PageKind::btree || page->header.object != tree_.id().value ||
        !node::is_leaf(*page) || node::low(*page) != Slice(low_) ||
        node::high_infinite(*page) != (node::right(*page) == kPageNone))
        return fail(ErrorCode::corrupt_page, "a page that does not belong into the chain of leaves",
                    page->id().value, tree_.id().value);
    std::memcpy(static_cast<void*>(&copy), &*page, kPageBytes);
    DCHECK(copy.id() == page->id() && node::count(copy) <= node::kSlotsMax);
    begun_ = true;
    next_ = node::right(copy);
    low_.assign(next_ != kPageNone ? node::high(copy) : Slice());
    return true;
}

}  // namespace lockstep::sm
