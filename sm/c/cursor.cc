// cursor.cc - the C interface of cursors, over indexes and through secondary indexes.
#include <lockstep/c/index.h>

#include <cstring>
#include <new>

#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

void place(CursorObject& cursor, Txn& txn, Slice low, Slice high, bool only) {
    cursor.waits = false;
    if (!cursor.secondary)
        cursor.plain.emplace(cursor.index.scan(txn, low, high, cursor.access, cursor.if_locked));
    else if (only) cursor.by.emplace(find_by(txn, cursor.index, low, cursor.access));
    else cursor.by.emplace(scan_by(txn, cursor.index, low, high, cursor.access));
}

struct Range {
    lockstep_slice low, high;
    bool only;
};
struct Over {
    lockstep_index* index;
    bool secondary;
    int access;
};

int make_cursor(lockstep_txn* txn, Over over, Range range, lockstep_cursor** out,
                lockstep_error* error) {
    if (out != nullptr) *out = nullptr;
    return in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(out);
        LOCKSTEP_SOUND(range.low);
        LOCKSTEP_SOUND(range.high);
        std::unique_ptr<CursorObject> cursor(new (std::nothrow) CursorObject);
        if (cursor == nullptr) return fail(ErrorCode::out_of_memory, "cursor");
        cursor->txn = &t;
        cursor->index = TRY(index_of(*t.store, over.index));
        cursor->secondary = over.secondary;
        const Reading how = over.secondary ? Reading{TRY(access_of(over.access)), IfLocked::wait}
                                           : TRY(reading_of(over.access));
        cursor->access = how.access;
        cursor->if_locked = how.if_locked;
        place(*cursor, *t.txn, slice_of(range.low), slice_of(range.high), range.only);
        cursor->handle = make_handle(Kind::cursor, cursor.get(), nullptr, t.handle);
        if (cursor->handle == 0) return fail(ErrorCode::too_many, "handles");
        *out = handle_of<lockstep_cursor>(cursor->handle);
        cursor->next = std::move(t.cursors);
        t.cursors = std::move(cursor);
        return {};
    });
}

Result<bool> step(CursorObject& cursor, bool forward) {
    DCHECK(cursor.plain.has_value() != cursor.by.has_value());
    if (cursor.waits && cursor.waits_forward != forward)
        return fail(ErrorCode::bad_argument, "direction: a record of lockstep_cursor_read() waits");
    if (cursor.waits) {
        cursor.waits = false;
        return true;
    }
    if (cursor.by) return forward ? cursor.by->next() : cursor.by->prev();
    if (cursor.plain) return forward ? cursor.plain->next() : cursor.plain->prev();
    return false;
}
Slice key_of(const CursorObject& cursor) {
    if (cursor.by) return cursor.by->key();
    return cursor.plain ? cursor.plain->key() : Slice();
}
Slice value_of(const CursorObject& cursor) {
    if (cursor.by) return cursor.by->value();
    return cursor.plain ? cursor.plain->value() : Slice();
}

struct Seen {
    lockstep_slice *key, *value, *secondary_key;
    bool* found;
};
int move(lockstep_cursor* cursor, bool forward, Seen seen, lockstep_error* error) {
    return on_cursor(cursor, error, [&](TxnObject&, CursorObject& at) -> Result<void> {
        const bool found = TRY(step(at, forward));
        set(seen.found, found);
        if (!found) return {};
        set(seen.key, to_c(key_of(at)));
        set(seen.value, to_c(value_of(at)));
        set(seen.secondary_key, at.by ? to_c(at.by->secondary_key()) : lockstep_slice{});
        return {};
    });
}

// Copies records to memory of the caller.
struct Reader {
    lockstep_record* rows;
    size_t rows_max;
    char* memory;
    size_t left;
    size_t count = 0;
    size_t needed = 0;

    lockstep_slice copy(Slice bytes) {
        DCHECK(bytes.size() <= left);
        if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
        const lockstep_slice copied{memory, bytes.size()};
        memory += bytes.size();
        left -= bytes.size();
        return copied;
    }
    Result<void> read(CursorObject& cursor, bool forward) {
        while (count < rows_max && TRY(step(cursor, forward))) {
            const Slice key = key_of(cursor), value = value_of(cursor);
            if (key.size() + value.size() > left) {
                needed = key.size() + value.size();
                cursor.waits = true;
                cursor.waits_forward = forward;
                return {};
            }
            rows[count].key = copy(key);
            rows[count].value = copy(value);
            ++count;
        }
        return {};
    }
};

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using c::CursorObject;
using c::TxnObject;
using lockstep::Result;

int lockstep_scan(lockstep_txn* txn, lockstep_index* index, lockstep_slice low, lockstep_slice high,
                  int access, lockstep_cursor** cursor, lockstep_error* error) {
    return c::make_cursor(txn, {index, false, access}, {low, high, false}, cursor, error);
}
int lockstep_scan_by(lockstep_txn* txn, lockstep_index* secondary, lockstep_slice low,
                     lockstep_slice high, bool only, int access, lockstep_cursor** cursor,
                     lockstep_error* error) {
    return c::make_cursor(txn, {secondary, true, access}, {low, high, only}, cursor, error);
}

int lockstep_cursor_seek(lockstep_cursor* cursor, lockstep_slice low, lockstep_slice high,
                         lockstep_error* error) {
    return c::on_cursor(cursor, error, [&](TxnObject& txn, CursorObject& at) -> Result<void> {
        LOCKSTEP_SOUND(low);
        LOCKSTEP_SOUND(high);
        c::place(at, *txn.txn, c::slice_of(low), c::slice_of(high), false);
        return {};
    });
}

int lockstep_cursor_next(lockstep_cursor* cursor, lockstep_slice* key, lockstep_slice* value,
                         lockstep_slice* secondary_key, bool* found, lockstep_error* error) {
    return c::move(cursor, true, {key, value, secondary_key, found}, error);
}
int lockstep_cursor_prev(lockstep_cursor* cursor, lockstep_slice* key, lockstep_slice* value,
                         lockstep_slice* secondary_key, bool* found, lockstep_error* error) {
    return c::move(cursor, false, {key, value, secondary_key, found}, error);
}

int lockstep_cursor_read(lockstep_cursor* cursor, bool forward, lockstep_record* rows,
                         size_t rows_max, void* memory, size_t memory_bytes, size_t* count,
                         size_t* needed, lockstep_error* error) {
    return c::on_cursor(cursor, error, [&](TxnObject&, CursorObject& at) -> Result<void> {
        LOCKSTEP_NOT_NULL(count);
        *count = 0;
        if (rows_max != 0) LOCKSTEP_NOT_NULL(rows);
        if (memory_bytes != 0) LOCKSTEP_NOT_NULL(memory);
        c::Reader reader{rows, rows_max, static_cast<char*>(memory), memory_bytes};
        const Result<void> read = reader.read(at, forward);
        *count = reader.count;
        c::set(needed, reader.needed);
        return read;
    });
}

int lockstep_cursor_patch(lockstep_cursor* cursor, size_t offset, lockstep_slice part, bool* found,
                          lockstep_error* error) {
    return c::on_cursor(cursor, error, [&](TxnObject&, CursorObject& at) -> Result<void> {
        LOCKSTEP_SOUND(part);
        if (!at.plain)
            return lockstep::fail(lockstep::ErrorCode::unsupported,
                                  "patch through a secondary index");
        if (at.waits)
            return lockstep::fail(lockstep::ErrorCode::bad_argument,
                                  "patch: a record of lockstep_cursor_read() waits");
        c::set(found, TRY(at.plain->patch(offset, c::slice_of(part))));
        return {};
    });
}

int lockstep_cursor_close(lockstep_cursor* cursor, lockstep_error* error) {
    return c::on_cursor(cursor, error, [](TxnObject& txn, CursorObject& at) -> Result<void> {
        c::end_handle(at.handle);
        auto* link = &txn.cursors;
        while (link->get() != &at) link = &(*link)->next;
        *link = std::move(at.next);
        return {};
    });
}
