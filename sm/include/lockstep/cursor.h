// cursor.h - a walk over a range of an index in either direction.
//
// Concepts   A cursor sees its transaction's own changes. It survives splits, merges and changes by
//            others: it remembers its key and searches again when its leaf has changed.
// Blocking   next(), prev() and patch() may suspend the user thread for locks and pages.
#pragma once

#include <lockstep/owned.h>
#include <lockstep/txn.h>

namespace lockstep {

namespace sm {
class BTreeCursor;
}

// Belongs to one transaction and must not outlive it. Movable, not copyable. To go on at another
// key, assign a new scan: cursor = index.scan(txn, low, high).
class Cursor {
public:
    Cursor(Cursor&&) noexcept;
    Cursor& operator=(Cursor&&) noexcept;
    ~Cursor();

    // Steps to the next larger key of the range and locks it. False at the range's end: the cursor
    // then stays on its last record. Errors: those of index.h; the first step also returns why the
    // scan could not begin. A loop: `while (LOCKSTEP_TRY(cursor.next()))`.
    Result<bool> next();
    // The same towards smaller keys. A cursor may change direction at any time.
    Result<bool> prev();
    // Overwrites bytes [offset, offset + part.size()) of the current record's value. False: the
    // record is gone, or there has been no step yet. Errors: bad_argument if the bytes do not lie
    // within the value. Cheapest in a scan with Access::write.
    Result<bool> patch(size_t offset, Slice part);
    // Key of the current record. The bytes belong to the cursor and are valid until it moves. Empty
    // before the first step.
    Slice key() const;
    // Value of the current record, as it was read and patched through this cursor; valid as key().
    // After a step that returned false, at read_committed, it may be newer, or empty if the record
    // has gone.
    Slice value() const;

private:
    friend class Index;
    Cursor(Txn& txn, detail::Owned<sm::BTreeCursor> cursor, Error error = {});
    Txn* txn_;
    detail::Owned<sm::BTreeCursor> cursor_;
    // Why the scan could not begin; returned by the first step.
    Error error_;
};

}  // namespace lockstep
