// index.h - an ordered index (B-tree) of byte strings; memcmp orders the keys.
//
// Concepts   key.h encodes numbers and texts so that memcmp orders them. Values up to about 2 KB
//            lie in the leaf, larger ones in chains of overflow pages.
//            An index may have secondary indexes, which the store keeps up (secondary.h).
// Limits     A key has 0..kKeyBytesMax bytes (1024), a value 0..kValueBytesMax (16 MB). Every call
//            that takes a key refuses a longer one, also as a bound of a scan: key_too_long.
// Blocking   Every call may suspend the calling user thread for locks, pages and log space.
// Errors     Besides those named: deadlock (roll back and try again: Store::run does), lock_timeout
//            (roll back; Store::run returns it and does not try again), self_deadlock (roll back;
//            see Store::run), key_too_long, log_full, no_space, io_error, corrupt_page (names the
//            page), store_failed, store_closed, and those of txn.h. Error::text() of the first
//            three names the lock, its holders and the cycle.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/cursor.h>
#include <lockstep/function_ref.h>
#include <lockstep/record.h>
#include <lockstep/txn.h>

namespace lockstep {

namespace sm {
class BTree;
struct IndexAccess;
}  // namespace sm

// How a call without a transaction runs.
struct CallOptions {
    // Of a change: whether the call returns when the change is on disk. Of a read: whether no crash
    // can take back what it has returned. lazy waits for neither.
    Durability durability = Durability::durable;
    // The longest wait for one lock in nanoseconds; kNever: Options::lock_timeout.
    Nanos lock_timeout = kNever;
};

// A handle on an index. Copy it freely; it is valid while the store is open and the index exists.
class Index {
public:
    // The empty handle: every call through it returns no_such_object.
    Index() = default;
    // False for the empty handle.
    explicit operator bool() const { return tree_ != nullptr; }

    // Copies the value into `value`, which is resized to fit. False: there is no such key; at
    // serializable the key then stays absent until the transaction ends. `access` is the lock that
    // the read takes.
    Result<bool> get(Txn& txn, Slice key, std::string& value, Access access = Access::read) const;
    // The same into a buffer of the caller. The value's full length in bytes, or nothing if there
    // is no such key; at most buffer.size() bytes are written. Never allocates.
    Result<std::optional<size_t>> get(Txn& txn, Slice key, std::span<std::byte> buffer,
                                      Access access = Access::read) const;
    // Both without a wait for a lock: what they do about a key that is locked. With IfLocked::skip
    // that is no such key. Error: lock_refused with IfLocked::no_wait.
    Result<bool> get(Txn& txn, Slice key, std::string& value, Access access,
                     IfLocked if_locked) const;
    Result<std::optional<size_t>> get(Txn& txn, Slice key, std::span<std::byte> buffer,
                                      Access access, IfLocked if_locked) const;

    // Looks up many keys, in any order and with repetitions; the number found. All keys are locked
    // before any is read. Faster than single gets, because cache misses and page reads of many keys
    // overlap, most of all if the keys ascend. After an error nothing in `rows` counts. Never
    // allocates.
    Result<size_t> get_many(Txn& txn, std::span<Lookup> rows, Access access = Access::read) const;
    // The same without a wait for a lock, one key after the other; as get() above.
    Result<size_t> get_many(Txn& txn, std::span<Lookup> rows, Access access,
                            IfLocked if_locked) const;

    // Adds a record. Errors: duplicate_key, key_too_long, value_too_long, read_only.
    Result<void> insert(Txn& txn, Slice key, Slice value) const;
    // Adds many records in this order. Faster than single inserts where ascending keys become
    // neighbours: such a run is one page change. After an error the records before the refused one
    // are in.
    Result<void> insert_many(Txn& txn, std::span<const NewRecord> records) const;
    // Replaces the whole value. False: there is no such key. Errors: value_too_long, read_only.
    Result<bool> update(Txn& txn, Slice key, Slice value) const;
    // Adds the record or replaces its value. Errors: key_too_long, value_too_long, read_only.
    Result<void> put(Txn& txn, Slice key, Slice value) const;
    // Overwrites bytes [offset, offset + part.size()) of the value. False: there is no such key.
    // Errors: bad_argument if the bytes do not lie within the value, read_only.
    Result<bool> patch(Txn& txn, Slice key, size_t offset, Slice part) const;
    // The same for a key that get_many() has found: `hint` (Lookup::hint) saves the search.
    Result<bool> patch(Txn& txn, Slice key, size_t offset, Slice part,
                       const RecordHint& hint) const;
    // Reads a record, has `change` alter it, and logs what was altered: faster than get() and
    // patch(), with one lock, one search and one boundary. The value, or as much of it as fits,
    // comes into `buffer`. change(value) gets that part of the buffer, alters it in place, and
    // returns the range that it altered; other alterations are not stored, and the value's length
    // stays. An empty range stores nothing. `change` runs at most once, with no latch held. It must
    // neither throw nor use the transaction. False: there is no such key, and `change` did not run.
    // While `change` waits, the transaction may be ended from outside (txn.h): nothing is stored,
    // and the error is that reason. Errors: bad_argument if the range does not lie within the
    // value, read_only.
    Result<bool> modify(Txn& txn, Slice key, std::span<std::byte> buffer,
                        FunctionRef<ByteRange(std::span<std::byte> value)> change) const;
    // The same for many records, in this order; the number found, which Lookup::found names.
    // change(i, value) is called for each that was found, rows[i], and `value` lies in its buffer.
    // Fastest if the keys ascend: then up to 16 records are one record of the log. A key that
    // occurs again sees what was stored before. After an error the records before the failed one
    // may have changed: roll back, to a savepoint or entirely. Never allocates, except for long
    // keys and large values.
    Result<size_t> modify_many(
        Txn& txn, std::span<Lookup> rows,
        FunctionRef<ByteRange(size_t i, std::span<std::byte> value)> change) const;
    // Adds `n` to the integer of eight bytes, in the byte order of the machine, that stands at
    // `offset` of the value; it wraps around. The sum, or nothing if there is no such key. One
    // operation as modify(). Errors: bad_argument if the integer does not lie within the value,
    // read_only.
    Result<std::optional<int64_t>> add(Txn& txn, Slice key, size_t offset, int64_t n) const;
    // Erases the record. False: there is no such key. Errors: read_only.
    Result<bool> erase(Txn& txn, Slice key) const;
    // Erases the records with low <= key < high; an empty `high` means to the end. Their number.
    // Faster than single erases, because the records of a leaf are one record of the log, and their
    // values are neither read nor logged. At serializable no other transaction can insert into the
    // range until this one ends. Locks each key; the whole index instead, if the range has no
    // bounds and nobody else uses it. After an error nothing of the call is left. Errors: those of
    // erase(), log_full.
    Result<size_t> erase_range(Txn& txn, Slice low, Slice high) const;

    // A cursor over the records with low <= key < high; an empty `high` means to the end. It stands
    // before the first record (next) and behind the last (prev). `access` is the lock on each key.
    // Both bounds are copied before the call may suspend. What forbids the scan is the error of the
    // cursor's first step.
    Cursor scan(Txn& txn, Slice low = {}, Slice high = {}, Access access = Access::read) const;
    // The same without a wait for a lock. With IfLocked::no_wait a step that meets a lock returns
    // lock_refused, and the cursor stays: a later step may succeed. With IfLocked::skip the cursor
    // passes over what is locked. At serializable a step returns lock_refused where not even the
    // gap can be locked, because an insert goes on there or the whole index is locked.
    Cursor scan(Txn& txn, Slice low, Slice high, Access access, IfLocked if_locked) const;

    // A cursor over the keys that begin with `prefix`; as scan().
    Cursor scan_prefix(Txn& txn, Slice prefix, Access access = Access::read) const;
    // The same without a wait for a lock.
    Cursor scan_prefix(Txn& txn, Slice prefix, Access access, IfLocked if_locked) const;
    // The number of records with low <= key < high; an empty `high` means to the end. Reads and
    // locks them as a scan does. Errors: those of Cursor::next().
    Result<size_t> count(Txn& txn, Slice low = {}, Slice high = {}) const;

    // --- Calls without a transaction: each is a transaction of its own, which is repeated and
    // rolled back as Store::run() does it. From any thread. On a user thread of the store a call
    // runs there. Any other kernel thread waits for a user thread, except in get(), as long as that
    // needs no wait. Calls are linearizable, and serializable among transactions: each takes effect
    // at one moment between its begin and its end. Within an open transaction of the same thread
    // such a call stays apart: it sees no change of that transaction, and its own stays if that
    // rolls back. If it needs a lock of that transaction it gets self_deadlock at once. Errors:
    // those of index.h, begin()'s and commit's, store_closed, forked, bad_option, and wrong_thread
    // in a key function. Not for a store that was destroyed.

    // As get() above. Needs neither lock nor transaction, if the key's pages are in memory and no
    // transaction has an open change of the key: it looks at the lock table between two looks at
    // the page, which has not changed in between. So the value is that of the last commit at the
    // moment of the look at the lock table. Otherwise it locks the key in a transaction. On a user
    // thread a loop of such reads gives no other thread a turn: yield() does.
    Result<bool> get(Slice key, std::string& value, const CallOptions& options = {}) const;
    // The same into a buffer of the caller.
    Result<std::optional<size_t>> get(Slice key, std::span<std::byte> buffer,
                                      const CallOptions& options = {}) const;
    // As get_many() above: the state of one moment.
    Result<size_t> get_many(std::span<Lookup> rows, const CallOptions& options = {}) const;
    // As insert() above.
    Result<void> insert(Slice key, Slice value, const CallOptions& options = {}) const;
    // As put() above.
    Result<void> put(Slice key, Slice value, const CallOptions& options = {}) const;
    // As add() above.
    Result<std::optional<int64_t>> add(Slice key, size_t offset, int64_t n,
                                       const CallOptions& options = {}) const;
    // As erase() above.
    Result<bool> erase(Slice key, const CallOptions& options = {}) const;
    // As erase_range() above.
    Result<size_t> erase_range(Slice low, Slice high, const CallOptions& options = {}) const;
    // As modify() above. `change` may run several times, each time with the value as it is then: a
    // deadlock victim is repeated. It runs on a user thread of the store.
    Result<bool> modify(Slice key, std::span<std::byte> buffer,
                        FunctionRef<ByteRange(std::span<std::byte> value)> change,
                        const CallOptions& options = {}) const;
    // Calls each(key, value) for the records with low <= key < high in their order, until it
    // returns false; an empty `high` means to the end. The number of calls. The records are those
    // of one moment, a snapshot, so the call waits for no transaction and makes none wait. The
    // bytes are valid during the call. `each` runs on a user thread of the store, once for each
    // record. It may call the store and may suspend. Error: snapshot_too_old, behind some calls of
    // `each`.
    Result<size_t> scan(Slice low, Slice high, FunctionRef<bool(Slice key, Slice value)> each,
                        const CallOptions& options = {}) const;

    // The same for the keys that begin with `prefix`.
    Result<size_t> scan_prefix(Slice prefix, FunctionRef<bool(Slice key, Slice value)> each,
                               const CallOptions& options = {}) const;
    // As count() above, in a snapshot.
    Result<size_t> count(Slice low = {}, Slice high = {}, const CallOptions& options = {}) const;
    // About how much there is with low <= key < high; an empty `high` means to the end. From the
    // nodes above the leaves, of which there is about one for 500 leaves, and from leaves that are
    // in memory. Reads no leaf, unless no leaf of the range is in memory: then one. Locks no
    // record, and counts open changes as if they were committed. The bytes are those of the leaves,
    // without the pages of large values. Of a range within one leaf the records are exact.
    Result<RangeSize> approximate_size(Slice low = {}, Slice high = {}) const;

    // The index's number in the catalog; 0 for the empty handle.
    ObjectId id() const;

private:
    friend class Store;
    friend struct sm::IndexAccess;
    Index(sm::Engine* engine, sm::BTree* tree) : engine_(engine), tree_(tree) {}
    sm::Engine* engine_ = nullptr;
    sm::BTree* tree_ = nullptr;
};

}  // namespace lockstep
