// btree_leaf_walk.h - copies of a tree's leaves from left to right, for callers that work on many
// records without a latch.
//
// Concepts   Each leaf begins where the one before ends (BT-2). A leaf that does not stands in the
//            place of a page whose write was lost.
// Blocking   next() parks for pages. It holds no latch when it returns.
#pragma once

#include <string>

#include "sm/btree/btree.h"
#include "sm/buffer/page.h"

namespace lockstep::sm {

// The tree must be quiet: its object is locked in S or more, or nothing else runs. Then the ghost
// cleaner changes none of its leaves either (btree_merge.cc).
class LeafWalk {
public:
    LeafWalk(BufferPool& pool, BTree& tree) : pool_(pool), tree_(tree) {}
    // Copies the next leaf. False: there is none. Errors: corrupt_page, and those of a fix.
    Result<bool> next(Page& copy);

private:
    BufferPool& pool_;
    BTree& tree_;
    bool begun_ = false;
    PageId next_ = kPageNone;
    std::string low_;  // where the next leaf begins
};

}  // namespace lockstep::sm
