// chunk_reader.h - makes the blocks of one range of keys as a snapshot sees it.
//
// Blocking   Parks for pages. Nothing is held while `rest` runs.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/function_ref.h>
#include "sm/btree/btree.h"
#include "sm/scan/block_data.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm::scan {

struct MadeChunk {
    std::vector<std::shared_ptr<const BlockData>> blocks;  // ascending
    // The newest change of a leaf that was read. If it is not above Snapshot::quiet, the blocks are
    // also those of every other snapshot that was open before and of which the same holds (RB-3).
    Lsn newest{};
    size_t bytes() const {
        size_t sum = 0;
        for (const auto& block : blocks) sum += block->bytes();
        return sum;
    }
};

// The records with low <= key < high, or to the end. `wanted`: ascending places in `columns`.
// `rest` runs after each leaf, and may suspend. Errors: no_such_object, snapshot_too_old, those of
// BlockBuilder::add() and of reading pages.
Result<MadeChunk> read_chunk(BTree& tree, const Snapshot& snapshot, Slice low, Slice high,
                             const Columns& columns, std::span<const uint16_t> wanted,
                             FunctionRef<void()> rest);

}  // namespace lockstep::sm::scan
