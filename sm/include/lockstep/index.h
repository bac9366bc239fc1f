// index.h - an ordered index (B-tree): keys and values are byte strings, keys ascend as memcmp
// orders them (key.h encodes numbers).
//
// Limits     key 0..1024 bytes, value 0..16 MB (values above about 2 KB go to overflow pages).
// Blocking   Every call may suspend the calling user thread for locks, pages and log space.
// Errors     Besides those named: deadlock and lock_timeout (roll back, perhaps try again:
//            Store::run does), log_full, no_space, io_error, corrupt_page (names the page),
//            store_failed, store_closed, and those of txn.h.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/cursor.h>
#include <lockstep/record.h>
#include <lockstep/txn.h>

namespace lockstep {

namespace sm {
class BTree;
}

// A handle: copy freely; valid while the store is open and the index not dropped.
class Index {
public:
    Index() = default;
    explicit operator bool() const { return tree_ != nullptr; }

    // True and the value, or false if there is no such key (at serializable it stays absent until
    // the transaction ends).
    Result<bool> get(Txn& txn, Slice key, std::string& value, Access access = Access::read) const;
    // The same into a buffer of the caller: the value's full length, or nothing if there is no such
    // key; at most buffer.size() bytes are written. Never allocates.
    Result<std::optional<size_t>> get(Txn& txn, Slice key, std::span<std::byte> buffer,
                                      Access access = Access::read) const;

    // The same for many keys in any order, a key may stand there twice: the number found. Much
    // faster than one by one, because the memory's (and the device's) delays of many keys pass at
    // the same time, most so if the keys ascend. All are locked before any is read. After an error
    // nothing in `rows` counts. Never allocates.
    Result<size_t> get_many(Txn& txn, std::span<Lookup> rows, Access access = Access::read) const;

    Result<void> insert(Txn& txn, Slice key, Slice value) const;  // duplicate_key if it exists
    // The same for many, in this order. Much faster than one by one where ascending keys come to
    // stand side by side: such a run is one change of its page. After an error the records in front
    // of the refused one are in.
    Result<void> insert_many(Txn& txn, std::span<const NewRecord> records) const;
    Result<bool> update(Txn& txn, Slice key, Slice value) const;  // false: no such key
    Result<void> put(Txn& txn, Slice key, Slice value) const;     // insert or update
    // Overwrites bytes [offset, offset + part.size()) of the value; bad_argument if they do not lie
    // within it. False: no such key.
    Result<bool> patch(Txn& txn, Slice key, size_t offset, Slice part) const;
    Result<bool> patch(Txn& txn, Slice key, size_t offset, Slice part,
                       const RecordHint& hint) const;
    Result<bool> erase(Txn& txn, Slice key) const;  // false: no such key

    // Records with low <= key < high in ascending (next) or descending (prev) order; empty high: to
    // the end.
    Cursor scan(Txn& txn, Slice low = {}, Slice high = {}, Access access = Access::read) const;

    ObjectId id() const;

private:
    friend class Store;
    Index(sm::Engine* engine, sm::BTree* tree) : engine_(engine), tree_(tree) {}
    sm::Engine* engine_ = nullptr;
    sm::BTree* tree_ = nullptr;
};

}  // namespace lockstep
