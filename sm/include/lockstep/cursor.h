// cursor.h - a walk over a range of an index, either way. Sees the transaction's own changes;
// survives splits.
#pragma once

#include <memory>

#include <lockstep/txn.h>

namespace lockstep {

namespace sm {
class BTreeCursor;
}

// Belongs to one transaction; must not outlive it. Movable.
class Cursor {
public:
    Cursor(Cursor&&) noexcept;
    Cursor& operator=(Cursor&&) noexcept;
    ~Cursor();

    // Steps to the next larger (smaller) key of the range; false at its end: it then stays on the
    // last record it stood on. A cursor may change direction. Errors as index.h.
    Result<bool> next();
    Result<bool> prev();
    // Overwrites bytes [offset, offset + part.size()) of the value of the record that the cursor
    // stands on, as Index::patch(): bad_argument if they do not lie within it. False: there is no
    // such record any more. Cheapest in a scan for writing.
    Result<bool> patch(size_t offset, Slice part);
    // Of the record the cursor stands on, as it was read and patched here; valid until it moves.
    Slice key() const;
    Slice value() const;

private:
    friend class Index;
    Cursor(Txn& txn, std::unique_ptr<sm::BTreeCursor> cursor, Error error = {});
    Txn* txn_;
    std::unique_ptr<sm::BTreeCursor> cursor_;
    // Why the scan could not begin; returned by the first step.
    Error error_;
};

}  // namespace lockstep
