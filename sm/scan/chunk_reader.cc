// chunk_reader.cc - leaf by leaf through SnapshotScan, into a builder.
#include "sm/scan/chunk_reader.h"

#include <algorithm>

#include "sm/btree/btree_snapshot.h"
#include "sm/scan/block_builder.h"
#include "threads/base/try.h"

namespace lockstep::sm::scan {

namespace {

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

}  // namespace

Result<MadeChunk> read_chunk(BTree& tree, const Snapshot& snapshot, Slice low, Slice high,
                             const Columns& columns, std::span<const uint16_t> wanted,
                             FunctionRef<void()> rest) {
    DCHECK(threads::current()->latch_depth == 0 && !wanted.empty());
    char key[kKeyBytesMax];
    SnapshotScan scan(tree, snapshot, low, high, key);
    ChunkReader reader(columns, wanted);
    while (TRY(scan.next_leaf())) {
        TRY(reader.take_leaf(scan));
        rest();
    }
    reader.flush();
    reader.made().newest = scan.newest();
    DCHECK(std::ranges::none_of(reader.made().blocks, [](auto& one) { return one->rows == 0; }));
    return std::move(reader.made());
}

}  // namespace lockstep::sm::scan
