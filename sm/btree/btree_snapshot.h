// btree_snapshot.h - ordered scans of a B-tree as a snapshot sees it.
//
// Concepts   The scan takes one leaf at a time. Under a shared latch it copies the leaf's records,
//            each as the snapshot sees it. Keys that have left the leaf come from erased_keys.h. If
//            these are many, the copy ends within the leaf. The scan then goes through the copies
//            and holds nothing. The next leaf is the one that covers the upper end of the copy.
//            Splits and merges meanwhile change nothing: while its version exists, a key that the
//            snapshot sees is in the leaf that covers it or among the erased ones.
// Blocking   next() and prev() park for pages and latches, never for locks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sm/btree/btree.h"
#include "sm/version/erased_keys.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm {

// Everything on the page is as the snapshot sees it.
inline bool is_quiet(const Snapshot& snapshot, const Page& page) {
    return page.header.lsn <= snapshot.quiet.value;
}

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
    // A record of the copied page, or one in `text`: its key, then its value.
    struct Row {
        uint32_t at;  // slot, or offset
        uint16_t key_bytes, value_bytes;
        bool in_text, overflow;
    };
    // The records in [low, high), or to the end, of one leaf. The range lies within the scan's.
    struct Leaf {
        Page page;
        std::vector<Row> rows;
        std::string text, low, high;
        bool infinite = false;
    };
    // The part next to `key` of the leaf that covers it, or that has the largest keys below it;
    // with null the last part of the last leaf.
    Result<void> load(const Slice* key, BTree::Side side);
    Result<void> load_leaf(const Slice* key, BTree::Side side);
    void set_range(const Page& page, const Slice* key, BTree::Side side);
    Result<bool> take(const Page& page, const Slice* key, BTree::Side side);
    void take_quiet(const Page& page, unsigned first, unsigned last);
    bool take_changed(const Page& page, unsigned first, unsigned last);
    bool take_record(const RecordName& name, const Page& page, int slot);
    Result<bool> stand_on(size_t row);
    Result<bool> stand_in_fresh(size_t row);

    BTree& tree_;
    const Snapshot& snapshot_;
    const std::string low_, high_;
    // Where the scan stands, once begun, and where it goes.
    std::unique_ptr<Leaf> leaf_, fresh_;
    ErasedKeys::Found erased_;
    RecordCopy version_;
    bool begun_ = false;
    size_t row_ = 0;  // in leaf_, once begun
    Slice key_, value_;
    std::string large_;
    char key_buffer_[2 * kKeyBytesMax];
};

}  // namespace lockstep::sm
