// btree_snapshot.h - ordered scans of a B-tree as a snapshot sees it.
//
// Concepts   The scan takes one leaf at a time. Under a shared latch it copies the leaf's records,
//            each as the snapshot sees it. Keys that have left the leaf come from erased_keys.h. If
//            these are many, the copy ends within the leaf. The scan then goes through the copies
//            and holds nothing. The next leaf is the one that covers the upper end of the copy. A
//            forward scan finds it without a descent if it is the right sibling, was in memory at
//            the time of the copy, and no leaf of the tree has been freed since. While the scan
//            goes through the records, it asks for the sibling's lines, a few with each record.
//            Splits and merges meanwhile change nothing: while its version exists, a key that the
//            snapshot sees is in the leaf that covers it or among the erased ones.
// Blocking   next() and prev() park for pages and latches, never for locks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sm/btree/btree.h"
#include "sm/btree/btree_ahead.h"
#include "sm/btree/btree_node.h"
#include "sm/version/erased_keys.h"
#include "sm/version/quiet.h"

namespace lockstep::sm {

class SnapshotScan {
public:
    // Range [low, high); an empty high means up to the end. The current record's key is written to
    // `key`, which has room for kKeyBytesMax bytes.
    SnapshotScan(BTree& tree, const Snapshot& snapshot, Slice low, Slice high, char* key);
    // Before the first step: the scan stands at `key` of the range, as if it had come there.
    void stand_at(Slice key);
    // As BTreeCursor::next() and prev().
    Result<bool> next();
    Result<bool> prev();
    // Of the current record; valid until the scan moves.
    size_t key_bytes() const { return key_bytes_; }
    Slice value() const { return value_; }

    // Goes to the next leaf, or part of one, that has records, for callers that take all of them at
    // once. False: there is none. Not to be mixed with next() and prev().
    Result<bool> next_leaf();
    size_t records() const { return leaf_->rows.size(); }
    // Calls take(row, key, value, in_chain) for its records, which ascend; the bytes are valid
    // until the scan moves. Keys come without what they share, which is returned. The value of a
    // record in a chain is read apart.
    template <class Take>
    Slice each_record(Take take) const;
    bool in_chain(size_t row) const { return leaf_->rows[row].overflow; }
    Result<void> read_chain(size_t row, std::string& out);
    // The newest change of a leaf that was read; kLsnMax: of one that other snapshots see
    // otherwise.
    Lsn newest() const { return newest_; }

private:
    static constexpr size_t kPageLines = kPageBytes / kCacheLineBytes;
    // A record of the copied page, or one in `text`: its key, then its value.
    struct Row {
        uint32_t at;  // slot, or offset
        uint16_t key_bytes, value_bytes;
        bool in_text, overflow;
    };
    struct Sibling {
        PageId id = kPageNone;       // none: the next leaf is another, or not in memory
        const Page* page = nullptr;  // where the pool had it
        uint32_t leaves_freed = 0;   // before its number was read
    };
    // The records in [low, high), or to the end, of one leaf. The range lies within the scan's.
    struct Leaf {
        Page page;
        std::vector<Row> rows;
        std::string text, low, high;
        bool infinite = false;
        Sibling sibling;     // which the scan enters next
        unsigned lines = 0;  // of the sibling, to ask for with each record
    };
    // The part next to `key` of the leaf that covers it, or that has the largest keys below it;
    // with null the last part of the last leaf. `beside`: may be that leaf.
    Result<void> load(const Slice* key, BTree::Side side, const Sibling& beside);
    Result<void> load_leaf(const Slice* key, BTree::Side side, const Sibling& beside);
    bool latch_sibling(const Sibling& sibling, Slice key, SharedPage& hold) const;
    Result<bool> latch_leaf(const Slice* key, BTree::Side side, SharedPage& hold);
    void ask_for_sibling(size_t row, size_t rows = 1) const;
    Slice value_at(size_t row) const;
    void set_range(const Page& page, const Slice* key, BTree::Side side);
    Result<bool> take(const Page& page, const Slice* key, BTree::Side side);
    void take_quiet(const Page& page, unsigned first, unsigned last);
    bool take_changed(const Page& page, unsigned first, unsigned last);
    bool may_be_in_run(Slice key);
    bool take_record(const RecordName& name, const Page& page, int slot);
    void take_slot(const Page& page, unsigned slot);
    Result<bool> stand_on(size_t row);
    Result<bool> stand_in_fresh(size_t row);

    BTree& tree_;
    const Snapshot& snapshot_;
    const std::string low_, high_;
    // Where the scan stands, once begun, and where it goes.
    std::unique_ptr<Leaf> leaf_, fresh_;
    LookAhead ahead_;
    ErasedKeys::Found erased_;
    RecordCopy version_;
    // Of the leaf that is being copied: the last prefix, and whether a run may have it.
    std::optional<std::string> run_prefix_;
    bool run_there_ = false;
    Lsn newest_{};
    bool begun_ = false;
    size_t row_ = 0;  // in leaf_, once begun
    char* const key_;
    size_t key_bytes_ = 0;
    Slice value_;
    std::string large_;
    char key_buffer_[2 * kKeyBytesMax];
};

// The page may change or go meanwhile, but a hint may name any address.
inline void SnapshotScan::ask_for_sibling(size_t row, size_t rows) const {
    if (leaf_->sibling.id == kPageNone) return;
    const char* const page = node::chars(*leaf_->sibling.page);
    const size_t first = row * leaf_->lines,
                 end = std::min(first + rows * leaf_->lines, kPageLines);
    for (size_t line = first; line < end; ++line) prefetch_line(page + line * kCacheLineBytes);
}

template <class Take>
Slice SnapshotScan::each_record(Take take) const {
    constexpr size_t kAtOnce = 8;
    const Leaf& leaf = *leaf_;
    const std::span<const Row> rows(leaf.rows);
    const Slice shared = node::prefix(leaf.page);
    for (size_t row = 0; row < rows.size(); ++row) {
        const Row at = rows[row];
        if (row % kAtOnce == 0) ask_for_sibling(row, kAtOnce);
        if (at.in_text) [[unlikely]] {
            const Slice text = Slice(leaf.text).substr(at.at, at.key_bytes + at.value_bytes);
            const Slice key = text.substr(0, at.key_bytes);
            DCHECK(key.starts_with(shared));
            take(row, key.substr(shared.size()), text.substr(at.key_bytes), at.overflow);
            continue;
        }
        const auto [key, value] = node::record(leaf.page, at.at);
        take(row, key, value, at.overflow);
    }
    return shared;
}

}  // namespace lockstep::sm
