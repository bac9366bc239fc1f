// chunk_reader.h - what a pass reads, an index or a heap: cuts it into chunks, reads one of them.
//
// Concepts   A chunk is a range of keys. The keys of a heap are the places of its data pages
//            (heap_chunks.h), so a pass knows no difference.
// Blocking   Parks for pages. Nothing is held while `rest` runs.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include <lockstep/function_ref.h>
#include "sm/btree/btree.h"
#include "sm/heap/heap_file.h"
#include "sm/scan/block_data.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm::scan {

using Object = std::variant<BTree*, HeapFile*>;
inline ObjectId id_of(const Object& object) {
    return std::visit([](auto* one) { return one->id(); }, object);
}

// Leaves or data pages of a chunk: as much as one transfer of the I/O stage carries.
inline constexpr unsigned kChunkPages = 32;

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

// From `low` on, and before `high`; an empty `high`: to the end.
struct ChunkRange {
    Slice low, high;
};

// The keys, ascending, at which all chunks but the first begin. Errors: those of reading pages.
Result<std::vector<std::string>> cut_object(const Object& object);
// The pages of the chunk that are not in memory, or are being read. A hint: errors are left to the
// reader.
std::vector<PageId> missing_pages(const Object& object, const ChunkRange& range);
// Where the object's pages are.
BufferPool& pool_of(const Object& object);
// The records of the chunk. `wanted`: ascending places in `columns`. `rest` runs after each leaf or
// data page, and may suspend. Errors: no_such_object, snapshot_too_old, those of
// BlockBuilder::add() and of reading pages.
Result<MadeChunk> read_chunk(const Object& object, const Snapshot& snapshot,
                             const ChunkRange& range, const Columns& columns,
                             std::span<const uint16_t> wanted, FunctionRef<void()> rest);

}  // namespace lockstep::sm::scan
