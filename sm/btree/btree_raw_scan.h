// btree_raw_scan.h - every entry of a tree as it lies on the pages, ghosts included, without locks.
// For the catalog and for tools.
#pragma once

#include <functional>

#include "sm/btree/btree.h"

namespace lockstep::sm {

// Calls `each` for all leaf entries in key order; inline values only (overflow values come as their
// stub). The tree must be quiet. Stops at the first error. Parks for pages.
Result<void> scan_raw(
    BufferPool& pool, BTree& tree,
    std::move_only_function<Result<void>(Slice key, Slice value, bool ghost)> each);

}  // namespace lockstep::sm
