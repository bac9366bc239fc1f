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
        : builder_(columns, wanted) {
        for (const uint16_t place : wanted) {
            wants_keys_ |= columns.all()[place].place == ColumnPlace::key;
            wants_values_ |= columns.all()[place].place == ColumnPlace::value;
        }
    }
    Result<void> take_leaf(SnapshotScan& scan);
    Result<void> take_page(const HeapPageCopy& page);
    void flush() {
        if (auto block = builder_.finish()) out_.blocks.push_back(std::move(block));
    }
    MadeChunk& made() { return out_; }

private:
    Result<void> add(std::span<const RecordBytes> records);
    void list(const SnapshotScan& scan);

    BlockBuilder builder_;
    bool wants_keys_ = false, wants_values_ = false;
    std::vector<RecordBytes> records_;
    std::string keys_;  // of the leaf, side by side, and room behind them
    std::vector<size_t> key_ends_;
    std::string large_;
    MadeChunk out_;
};

Result<void> ChunkReader::add(std::span<const RecordBytes> records) {
    if (builder_.full_for(records.size())) flush();
    return builder_.add(records);
}

// Lists the leaf's records. Keys are put together out of the leaf's prefix and their own bytes, so
// they need memory.
void ChunkReader::list(const SnapshotScan& scan) {
    const size_t rows = scan.records();
    records_.resize(rows);
    for (size_t row = 0; row < rows && wants_values_; ++row)
        records_[row].value = scan.value_at(row);
    if (!wants_keys_) return;
    key_ends_.resize(rows);
    size_t used = 0;
    for (size_t row = 0; row < rows; ++row) {
        if (keys_.size() - used < kKeyBytesMax) keys_.resize(2 * keys_.size() + 16 * kKeyBytesMax);
        char* const room = keys_.data() + used;
        const Slice key = scan.key_at(row, room);
        if (key.data() != room) std::copy(key.begin(), key.end(), room);
        key_ends_[row] = used += key.size();
    }
    // The memory stays where it is only now.
    for (size_t row = 0, begin = 0; row < rows; begin = key_ends_[row++])
        records_[row].key = Slice(keys_).substr(begin, key_ends_[row] - begin);
}

Result<void> ChunkReader::take_leaf(SnapshotScan& scan) {
    DCHECK(scan.records() > 0);
    list(scan);
    DCHECK(records_.size() == scan.records());
    const std::span<RecordBytes> all(records_);
    size_t first = 0;
    // A large value is read alone: a leaf may have hundreds of them.
    for (size_t row = 0; row < all.size() && wants_values_; ++row) {
        if (!scan.in_chain(row)) continue;
        TRY(add(all.subspan(first, row - first)));
        TRY(scan.read_chain(row, large_));
        all[row].value = large_;
        DCHECK(row >= first && !large_.empty());
        TRY(add(all.subspan(row, 1)));
        first = row + 1;
    }
    return add(all.subspan(first));
}

Result<void> ChunkReader::take_page(const HeapPageCopy& page) {
    DCHECK(!wants_keys_);
    records_.clear();
    for (const auto& [id, bytes] : page.records())
        records_.push_back({{}, bytes, uint64_t{id.page.value} << 16 | id.slot.value});
    return add(records_);
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

std::vector<PageId> read_ahead(BTree& tree, const ChunkRange& range) {
    return read_chunk_ahead(tree, range.low, range.high);
}
std::vector<PageId> read_ahead(HeapFile& heap, const ChunkRange& range) {
    Result<std::vector<PageId>> pages = pages_of_chunk(heap, range.low, range.high);
    if (!pages) return {};
    std::erase_if(*pages, [&](PageId id) { return heap.pool().resident(id) != nullptr; });
    if (pages->size() > kAheadMax) pages->resize(kAheadMax);
    if (!pages->empty()) heap.pool().read_ahead(*pages);
    return std::move(*pages);
}

}  // namespace

Result<std::vector<std::string>> cut_object(const Object& object) {
    return std::visit([](auto* one) { return cut_into_chunks(*one, kChunkPages); }, object);
}

std::vector<PageId> read_object_ahead(const Object& object, const ChunkRange& range) {
    return std::visit([&](auto* one) { return read_ahead(*one, range); }, object);
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
