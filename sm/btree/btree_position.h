// btree_position.h - the place of a key in a leaf that is not latched.
//
// Concepts   An optimistic fix of a leaf. It holds nothing, so valid() must succeed before anything
//            read from it is trusted (LA-3).
#pragma once

#include "sm/btree/btree.h"

namespace lockstep::sm {

struct BTree::Position {
    OptimisticPage at;
    PageId id;
    unsigned slot = 0;
    uint32_t leaves_freed = 0;  // before the fix
    bool found = false;
    bool valid() const { return at.valid(); }
};

}  // namespace lockstep::sm
