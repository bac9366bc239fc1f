// btree_snapshot.h - ordered scans of a B-tree as a snapshot sees it.
//
// Concepts   The scan takes one leaf at a time. Under a shared latch it copies the leaf's records,
//            each as the snapshot sees it. It then goes through the copies and holds nothing. The
//            next leaf is the one that covers the upper fence. Splits and merges meanwhile change
//            nothing: a key that the snapshot sees stays in some leaf, if only as a ghost, while
//            its version exists.
// Blocking   next() and prev() park for pages and latches, never for locks.
#pragma once

#include <string>
#include <vector>

#include "sm/btree/btree.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm {

class SnapshotScan {
public:
    // Range [low, high); an empty high means up to the end.
    SnapshotScan(BTree& tree, const Snapshot& snapshot, Slice low, Slice high);
    // As BTreeCursor::next() and prev().
    Result<bool> next();
    Result<bool> prev();
    // Of the current record; valid until the scan moves.
    Slice key() const { return key_; }
    Slice value() const { return value_; }

private:
    struct Row {
        uint32_t key_at, key_bytes, value_bytes;  // the value follows its key in `text`
        bool overflow;
    };
    struct Leaf {
        std::vector<Row> rows;
        std::string text, low, high;
        bool infinite = false;
        Slice key(const Row& row) const { return Slice(text).substr(row.key_at, row.key_bytes); }
        Slice value(const Row& row) const {
            return Slice(text).substr(row.key_at + row.key_bytes, row.value_bytes);
        }
    };
    // The leaf that covers `key`, or has the largest keys below it; with null the last one.
    Result<void> load(const Slice* key, BTree::Side side);
    Result<void> load_leaf(const Slice* key, BTree::Side side);
    Result<bool> take(const Page& page);
    Result<bool> stand_on(ptrdiff_t row);

    BTree& tree_;
    const Snapshot& snapshot_;
    const std::string low_, high_;
    Leaf leaf_, fresh_;
    bool begun_ = false;
    ptrdiff_t row_ = 0;  // in leaf_, once begun
    Slice key_, value_;
    std::string large_;
};

}  // namespace lockstep::sm
