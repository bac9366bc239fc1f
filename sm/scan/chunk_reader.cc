// chunk_reader.cc - leaf by leaf, or data page by data page, into a builder.
#include "sm/scan/chunk_reader.h"

#include <algorithm>

#include "sm/btree/btree_chunks.h"
#include "sm/btree/btree_snapshot.h"
#include "sm/heap/heap_chunks.h"
#include "sm/heap/heap_snapshot.h"
#include "sm/scan/block_builder.h"
#include "threads/base/try.h"

namespace lockstep::sm::scan {

namespace {

constexpr size_t kAheadMax = 64;  // as btree_chunks.cc

class ChunkReader {
public:
    ChunkReader(const Columns& columns, std::span<const uint16_t> wanted)
        : builder_(columns, wanted, kChunkPages) {
        for (const uint16_t place : wanted)
            wants_values_ |= columns.all()[place].place == ColumnPlace::value;
    }
    Result<void> take_leaf(SnapshotScan& scan);
    Result<void> take_page(const HeapPageCopy& page);
    void flush() {
        if (auto block = builder_.finish()) out_.blocks.push_back(std::move(block));
    }
    MadeChunk& made() { return out_; }

private:
    Result<void> add(RecordBatch batch, size_t first, size_t count);

    BlockBuilder builder_;
    bool wants_values_ = false;
    std::vector<RecordBytes> records_;
    std::string large_;
    MadeChunk out_;
};

// Some of the batch's records.
Result<void> ChunkReader::add(RecordBatch batch, size_t first, size_t count) {
    batch.records = batch.records.subspan(first, count);
    if (builder_.full_for(count)) flush();
    return builder_.add(batch);
}

Result<void> ChunkReader::take_leaf(SnapshotScan& scan) {
    const size_t count = scan.records();
    DCHECK(count > 0);
    records_.resize(count);
    bool chains = false;
    size_t key_least = kPageBytes, value_least = kPageBytes;
    const std::span<RecordBytes> all(records_);
    const Slice shared = scan.each_record([&](size_t row, Slice key, Slice value, bool in_chain) {
        all[row].key = key;
        all[row].value = value;
        key_least = std::min(key_least, key.size());
        value_least = std::min(value_least, value.size());
        chains |= in_chain;
    });
    const RecordBatch batch{all, shared, key_least, value_least};
    size_t first = 0;
    // A large value is read alone: a leaf may have hundreds of them.
    for (size_t row = 0; chains && wants_values_ && row < count; ++row) {
        if (!scan.in_chain(row)) continue;
        TRY(add(batch, first, row - first));
        TRY(scan.read_chain(row, large_));
        all[row].value = large_;
        DCHECK(row >= first && large_.size() >= value_least);
        TRY(add(batch, row, 1));
        first = row + 1;
    }
    return add(batch, first, count - first);
}

Result<void> ChunkReader::take_page(const HeapPageCopy& page) {
    records_.clear();
    size_t value_least = kPageBytes;
    for (const auto& [id, bytes] : page.records()) {
        records_.push_back({{}, bytes, uint64_t{id.page.value} << 16 | id.slot.value});
        value_least = std::min(value_least, bytes.size());
    }
    return add({.records = records_, .value_least = value_least}, 0, records_.size());
}

Result<Lsn> read_into(ChunkReader& reader, BTree& tree, const Snapshot& snapshot,
                      const ChunkRange& range, FunctionRef<void()> rest) {
    char key[kKeyBytesMax];
    SnapshotScan scan(tree, snapshot, range.low, range.high, key);
    while (TRY(scan.next_leaf())) {
        TRY(reader.take_leaf(scan));
        rest();
    }
    return scan.newest();
}

Result<Lsn> read_into(ChunkReader& reader, HeapFile& heap, const Snapshot& snapshot,
                      const ChunkRange& range, FunctionRef<void()> rest) {
    // What the heap has said counts only if it was not dropped meanwhile.
    const auto there = [&] { return heap.history().check(snapshot, heap.lock()); };
    TRY(there());
    const Result<std::vector<PageId>> pages = pages_of_chunk(heap, range.low, range.high);
    TRY(there());
    HeapPageCopy copy(heap, snapshot);
    for (const PageId id : TRY(pages)) {
        TRY(copy.load(id));
        TRY(reader.take_page(copy));
        rest();
    }
    return copy.newest();
}

std::vector<PageId> missing_of(BTree& tree, const ChunkRange& range) {
    return missing_of_chunk(tree, range.low, range.high);
}
std::vector<PageId> missing_of(HeapFile& heap, const ChunkRange& range) {
    Result<std::vector<PageId>> pages = pages_of_chunk(heap, range.low, range.high);
    if (!pages) return {};
    std::erase_if(*pages, [&](PageId id) { return heap.pool().resident(id) != nullptr; });
    if (pages->size() > kAheadMax) pages->resize(kAheadMax);
    return std::move(*pages);
}

}  // namespace

Result<std::vector<std::string>> cut_object(const Object& object) {
    return std::visit([](auto* one) { return cut_into_chunks(*one, kChunkPages); }, object);
}

std::vector<PageId> missing_pages(const Object& object, const ChunkRange& range) {
    return std::visit([&](auto* one) { return missing_of(*one, range); }, object);
}

BufferPool& pool_of(const Object& object) {
    if (BTree* const* const tree = std::get_if<BTree*>(&object)) return *(*tree)->env().pool;
    return std::get<HeapFile*>(object)->pool();
}

Result<MadeChunk> read_chunk(const Object& object, const Snapshot& snapshot,
                             const ChunkRange& range, const Columns& columns,
                             std::span<const uint16_t> wanted, FunctionRef<void()> rest) {
    DCHECK(threads::current()->latch_depth == 0 && !wanted.empty());
    ChunkReader reader(columns, wanted);
    const auto read = [&](auto* one) { return read_into(reader, *one, snapshot, range, rest); };
    const Lsn newest = TRY(std::visit(read, object));
    reader.flush();
    reader.made().newest = newest;
    DCHECK(std::ranges::none_of(reader.made().blocks, [](auto& one) { return one->rows == 0; }));
    return std::move(reader.made());
}

}  // namespace lockstep::sm::scan
