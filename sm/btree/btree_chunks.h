// btree_chunks.h - what the level-1 nodes tell of the leaves: parts of neighbours, cut at the
// separators, and about how much a range has.
//
// Concepts   A part is a range of keys. Splits and merges after the cut change how many leaves it
//            has, and nothing else.
// Blocking   Parks for inner nodes. The caller holds no latch.
#pragma once

#include <string>
#include <vector>

#include "sm/btree/btree.h"

namespace lockstep::sm {

// The keys, ascending, at which all parts but the first begin; a part has about `leaves` leaves of
// one level-1 node, or all of them if the tree has more than 1024 such nodes. Errors: those of a
// descent.
Result<std::vector<std::string>> cut_into_chunks(BTree& tree, unsigned leaves);
// Index::approximate_size(). The tree's object is locked in IS or more. Errors: those of a descent.
Result<RangeSize> approximate_size(BTree& tree, Slice low, Slice high);
// The leaves of [low, high), or to the end, that are not in memory, as far as they are children of
// the node above `low`. A hint: errors are left to the reader.
std::vector<PageId> missing_of_chunk(BTree& tree, Slice low, Slice high);

}  // namespace lockstep::sm
