// index.h - of the C interface: records of indexes, one and many; cursors; bulk load; reads through
// secondary indexes.
//
// Errors     Those of <lockstep/index.h>. After LOCKSTEP_DEADLOCK, LOCKSTEP_LOCK_TIMEOUT and
//            LOCKSTEP_SELF_DEADLOCK the transaction must be rolled back.
#ifndef LOCKSTEP_C_INDEX_H
#define LOCKSTEP_C_INDEX_H

#include <lockstep/c/options.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Reads the value of `key` with a lock of enum lockstep_access, or without a wait for one. At most
// `room` bytes go to `buffer`, which may be NULL if `room` is 0. *bytes is the full length;
// if it is larger than `room`, call again with more. *found is false if there is no such key. Both
// may be NULL.
int lockstep_get(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, int access,
                 void* buffer, size_t room, size_t* bytes, bool* found, lockstep_error* error);

// Where a transaction saw a record; a plain value. An old one is harmless.
typedef struct lockstep_hint {
    uint32_t page;
    uint32_t slot;
    uint32_t leaves_freed;
} lockstep_hint;
// One of many records asked for at once. The last three fields are set by the call.
typedef struct lockstep_lookup {
    lockstep_slice key;
    void* buffer;
    size_t room;
    size_t bytes;
    bool found;
    lockstep_hint hint;
} lockstep_lookup;
// Looks up many keys, at most 65536. *found_count, if not NULL, is the number found. After an error
// nothing in `rows` counts.
int lockstep_get_many(lockstep_txn* txn, lockstep_index* index, lockstep_lookup* rows, size_t count,
                      int access, size_t* found_count, lockstep_error* error);

// Adds a record. Error: LOCKSTEP_DUPLICATE_KEY.
int lockstep_insert(lockstep_txn* txn, lockstep_index* index, lockstep_slice key,
                    lockstep_slice value, lockstep_error* error);
// A record to be inserted.
typedef struct lockstep_record {
    lockstep_slice key, value;
} lockstep_record;
// Adds many records in this order. After an error those before the refused one are in.
int lockstep_insert_many(lockstep_txn* txn, lockstep_index* index, const lockstep_record* records,
                         size_t count, lockstep_error* error);
// Adds the record or replaces its value.
int lockstep_put(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, lockstep_slice value,
                 lockstep_error* error);
// Replaces the value. *found, if not NULL, is false if there is no such key.
int lockstep_update(lockstep_txn* txn, lockstep_index* index, lockstep_slice key,
                    lockstep_slice value, bool* found, lockstep_error* error);
// Overwrites the bytes of the value from `offset` on. `hint`, if not NULL, is that of
// lockstep_get_many() and saves the search. *found as above.
int lockstep_patch(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, size_t offset,
                   lockstep_slice part, const lockstep_hint* hint, bool* found,
                   lockstep_error* error);
// Adds `n` to the integer of eight bytes, in the byte order of the machine, at `offset` of the
// value. *sum, if not NULL, is the result. *found as above. Error: LOCKSTEP_BAD_ARGUMENT if the
// integer does not lie within the value.
int lockstep_add(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, size_t offset,
                 int64_t n, int64_t* sum, bool* found, lockstep_error* error);
// Erases the record. *found as above.
int lockstep_erase(lockstep_txn* txn, lockstep_index* index, lockstep_slice key, bool* found,
                   lockstep_error* error);
// Erases the records with low <= key < high; an empty `high` means to the end. *count, if not NULL,
// is their number. After an error nothing of the call is left.
int lockstep_erase_range(lockstep_txn* txn, lockstep_index* index, lockstep_slice low,
                         lockstep_slice high, size_t* count, lockstep_error* error);
// Number of an index in the catalog; 0 for what is no index. Never waits.
uint32_t lockstep_index_id(lockstep_index* index);

// Calls without a transaction, from any thread: each is a transaction of its own, which is repeated
// after a deadlock. Of `options`, `durability` and `lock_timeout` count. Within an open transaction
// of the same user thread such a call stays apart: what needs a lock of that transaction returns
// LOCKSTEP_SELF_DEADLOCK. A read takes no lock and needs no other thread, if the record is in
// memory and nobody has an open change of it (<lockstep/index.h>). A wait of the others blocks.
int lockstep_get_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      void* buffer, size_t room, size_t* bytes, bool* found,
                      const lockstep_txn_options* options, lockstep_error* error);
// As lockstep_get_many() above: the state of one moment.
int lockstep_get_many_once(lockstep_store* store, lockstep_index* index, lockstep_lookup* rows,
                           size_t count, size_t* found_count, const lockstep_txn_options* options,
                           lockstep_error* error);
int lockstep_insert_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                         lockstep_slice value, const lockstep_txn_options* options,
                         lockstep_error* error);
int lockstep_put_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      lockstep_slice value, const lockstep_txn_options* options,
                      lockstep_error* error);
int lockstep_erase_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                        bool* found, const lockstep_txn_options* options, lockstep_error* error);
// Reads the value, or as much of it as fits, into `buffer` of `room` bytes and calls change(arg,
// value, bytes, &offset, &changed) with that part. What `change` alters there is stored: the
// `changed` bytes from `offset` on, both 0 before; the value keeps its length. `change` may run
// several times, each time with the value as it is then, on a user thread of the store. *found, if
// not NULL, is false if there is no such key. A range that is not within the part is
// LOCKSTEP_BAD_ARGUMENT.
int lockstep_modify_once(
    lockstep_store* store, lockstep_index* index, lockstep_slice key, void* buffer, size_t room,
    void (*change)(void* arg, void* value, size_t bytes, size_t* offset, size_t* changed),
    void* arg, bool* found, const lockstep_txn_options* options, lockstep_error* error);
// Calls each(arg, key, value) for the records with low <= key < high in their order, until it
// returns false; an empty `high` means to the end. They are those of one moment, a snapshot. The
// bytes are valid during the call. `each` runs on a user thread of the store and may call the
// store. *count, if not NULL, is the number of calls.
int lockstep_scan_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                       lockstep_slice high,
                       bool (*each)(void* arg, lockstep_slice key, lockstep_slice value), void* arg,
                       size_t* count, const lockstep_txn_options* options, lockstep_error* error);
// As lockstep_add() above.
int lockstep_add_once(lockstep_store* store, lockstep_index* index, lockstep_slice key,
                      size_t offset, int64_t n, int64_t* sum, bool* found,
                      const lockstep_txn_options* options, lockstep_error* error);
// As lockstep_erase_range() above.
int lockstep_erase_range_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                              lockstep_slice high, size_t* count,
                              const lockstep_txn_options* options, lockstep_error* error);
// About how much there is with low <= key < high; an empty `high` means to the end. *bytes of the
// leaves' pages and *records, both may be NULL. Reads at most one leaf that is not in memory.
int lockstep_approximate_size(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                              lockstep_slice high, uint64_t* bytes, uint64_t* records,
                              lockstep_error* error);
// The number of records with low <= key < high in a snapshot; an empty `high` means to the end.
int lockstep_count_once(lockstep_store* store, lockstep_index* index, lockstep_slice low,
                        lockstep_slice high, size_t* count, lockstep_error* error);

// Makes a cursor over low <= key < high; an empty `high` means to the end. It stands before the
// first record and behind the last. Both bounds are copied.
int lockstep_scan(lockstep_txn* txn, lockstep_index* index, lockstep_slice low, lockstep_slice high,
                  int access, lockstep_cursor** cursor, lockstep_error* error);
// The same over a secondary index, by secondary keys; it waits for locks. With `only` the
// range is one secondary key, `low`. The cursor's key and value are those of the primary's record.
int lockstep_scan_by(lockstep_txn* txn, lockstep_index* secondary, lockstep_slice low,
                     lockstep_slice high, bool only, int access, lockstep_cursor** cursor,
                     lockstep_error* error);
// Gives a cursor a new range; it then stands before and behind it as a new one.
int lockstep_cursor_seek(lockstep_cursor* cursor, lockstep_slice low, lockstep_slice high,
                         lockstep_error* error);
// Steps to the next larger or smaller key. *key and *value, if not NULL, are then the record. The
// bytes belong to the cursor and are valid until it moves or ends. *found is false at the end of
// the range. *secondary_key, if not NULL, is the key in a secondary index, else empty.
int lockstep_cursor_next(lockstep_cursor* cursor, lockstep_slice* key, lockstep_slice* value,
                         lockstep_slice* secondary_key, bool* found, lockstep_error* error);
int lockstep_cursor_prev(lockstep_cursor* cursor, lockstep_slice* key, lockstep_slice* value,
                         lockstep_slice* secondary_key, bool* found, lockstep_error* error);
// Steps up to `rows_max` times and copies the records to `memory`, one hand-over for many records
// in the session form. rows[i] point into `memory`, which is the caller's. *count is their number.
// It is smaller than `rows_max` at the end of the range, or if the next record does not fit. In
// that case *needed is its length, and it comes first in the next call, with the bytes that it has
// now; at the end *needed is 0. While such a record waits the cursor does not change its direction,
// and nothing is patched (LOCKSTEP_BAD_ARGUMENT).
int lockstep_cursor_read(lockstep_cursor* cursor, bool forward, lockstep_record* rows,
                         size_t rows_max, void* memory, size_t memory_bytes, size_t* count,
                         size_t* needed, lockstep_error* error);
// Overwrites bytes of the current record's value from `offset` on. Not through a secondary index
// (LOCKSTEP_UNSUPPORTED).
int lockstep_cursor_patch(lockstep_cursor* cursor, size_t offset, lockstep_slice part, bool* found,
                          lockstep_error* error);
// Ends a cursor before its transaction ends.
int lockstep_cursor_close(lockstep_cursor* cursor, lockstep_error* error);

// Fills an empty index from records in ascending order. next(arg, record) sets the record and
// returns true, or returns false at the end. It owns the bytes until its next call. Pages are
// filled to `fill_percent`, 50..100.
int lockstep_bulk_load(lockstep_txn* txn, lockstep_index* index,
                       bool (*next)(void* arg, lockstep_record* record), void* arg,
                       uint32_t fill_percent, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
