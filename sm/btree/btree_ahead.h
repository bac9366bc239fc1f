// btree_ahead.h - read-ahead of a walk along the leaves of a B-tree.
//
// Concepts   The walk says each time that it leaves a leaf. From the second leaf on, the list of
//            children in the node above is checked at intervals. If the next leaves are not in
//            memory, 8, then 16, then 32 of them are read ahead. The next check comes when half of
//            them are used. While all are in memory there is a check at every eighth leaf only.
//            Nothing beyond the end of the walk's range is read.
//            A check is a hint taken without latches. A page number counts only if its node is
//            still valid after it was read.
// Blocking   look() parks for reads of inner nodes. The caller holds no latch.
#pragma once

#include "sm/btree/btree.h"

namespace lockstep::sm {

class LookAhead {
public:
    // One leaf more is left: is a look due? `next_here`: the next leaf is known to be in memory.
    // While nothing was missing, such leaves do not count.
    bool due(bool next_here = false) {
        DCHECK(leaves_to_look_ != 0);
        return !(next_here && window_ == 0) && --leaves_to_look_ == 0;
    }
    // Reads ahead what lies behind the leaf that is left and its neighbour, in [low, high); an
    // empty `high` means up to the end. `at` lies in that leaf (upwards) or is its low fence
    // (downwards).
    [[gnu::cold, gnu::noinline]] void look(BTree& tree, Slice at, bool up, Slice low, Slice high);

private:
    uint16_t leaves_to_look_ = 2;  // until the next look; 0 only between due() and look()
    uint16_t window_ = 0;          // leaves that the next look asks for; 0: none were missing
};

}  // namespace lockstep::sm
