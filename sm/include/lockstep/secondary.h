// secondary.h - secondary indexes: kept up by the store with every change of the index they are of.
//
// Concepts   A secondary index finds the records of another index, its primary, by keys that a
//            function of the application computes from each record. Store::create_index() makes it
//            and fills it from the records that exist. From then on each change of the primary
//            changes it in the same operation and transaction.
//            The store cannot keep the function. After an open the application attaches it again,
//            with Store::attach_key() or Store::open_or_create_index(). Until then reads work, and
//            each change of the primary returns key_function_missing.
//            A secondary index is an Index of its own, with a name. Only the store changes it: its
//            insert(), put() and so on return bad_argument. Index::scan() shows the stored entries.
//            unique: entry = key, value = primary key. Otherwise: entry = key with its end marked
//            (as Key::text does), then the primary key; the value is empty.
// Locks      A read locks the entry and then the record. Serializable scans protect the range of
//            entries, as in any index. A change locks the record and then its entries, so it may
//            meet a reader in a deadlock. Store::run repeats the victim.
// Limits     An entry is a key and has at most kKeyBytesMax bytes: the secondary key, 2 for its
//            end, 1 for each zero byte in it, and the primary key.
// Blocking   As index.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/function.h>
#include <lockstep/index.h>

namespace lockstep {

namespace sm {
struct Secondary;
}

// Takes the secondary keys of one record.
class SecondaryKeys {
public:
    // Adds a key; copies it. Without a key the record is not in the index. Several keys give
    // several entries; a key that is added twice counts once.
    void add(Slice key) {
        bytes_.append(key);
        ends_.push_back(bytes_.size());
    }
    // Keys so far, and one of them; valid until the next add() or clear().
    size_t size() const { return ends_.size(); }
    Slice operator[](size_t n) const {
        const size_t begin = n == 0 ? 0 : ends_[n - 1];
        return Slice(bytes_).substr(begin, ends_[n] - begin);
    }
    // Takes all keys out.
    void clear() {
        bytes_.clear();
        ends_.clear();
    }

private:
    std::string bytes_;
    std::vector<size_t> ends_;
};

// Computes the secondary keys of the record (key, value) of the primary. Equal records must always
// get equal keys. Called on user threads, and on several kernel threads at once while an index is
// built. It must not block, use the store, or throw. A call of the store in it that may wait
// returns wrong_thread.
using KeyFunction = Function<void(Slice key, Slice value, SecondaryKeys& keys)>;

// How far the building of a secondary index is.
struct BuildProgress {
    uint64_t pages_read = 0;      // leaves of the primary
    uint64_t entries_loaded = 0;  // 0 until all leaves are read and all entries sorted
};

// What a new secondary index is.
struct SecondaryOptions {
    Index of = {};         // the primary: no secondary index itself
    KeyFunction key = {};  // see there
    bool unique = false;   // two records with one key: duplicate_key
    // Memory for entries while the index is built, 1 MB .. 1 TB. What does not fit is sorted into
    // files without a name in the store's directory.
    uint64_t build_bytes = 256ull << 20;
    // Called on the creator's user thread now and then while the index is built. May suspend.
    Function<void(const BuildProgress&)> progress = {};
};

// A record found through a secondary index.
struct SecondaryRecord {
    std::string key;    // of the primary
    std::string value;  // of the primary
};

// A walk over a range of a secondary index. Belongs to one transaction and must not outlive it.
// Movable. If the walk changes records so that their secondary keys grow, it meets them again.
class SecondaryCursor {
public:
    // Steps to the next entry of the range, in order of secondary key, then of primary key, and
    // reads its record. False at the end; the cursor then has no record. Errors: those of index.h;
    // index_mismatch if an entry has no record.
    Result<bool> next();
    // The same in the opposite order.
    Result<bool> prev();
    // Secondary key of the current entry, and primary key and value of its record. The bytes belong
    // to the cursor and are valid until it moves.
    Slice secondary_key() const { return secondary_key_; }
    Slice key() const { return key_; }
    Slice value() const { return value_; }

private:
    friend struct sm::IndexAccess;
    SecondaryCursor(Txn& txn, Index entries, Index primary, const sm::Secondary* secondary,
                    Cursor cursor, Access access)
        : txn_(&txn),
          entries_(entries),
          primary_(primary),
          secondary_(secondary),
          cursor_(std::move(cursor)),
          access_(access) {}
    Result<bool> step(bool forward);
    Result<bool> read_record();

    Txn* txn_;
    Index entries_, primary_;
    const sm::Secondary* secondary_;
    Cursor cursor_;
    Access access_;
    std::string secondary_key_, key_, value_;
};

// The first record in order of primary key whose secondary key in index `secondary` is `key`.
// False: there is none; at serializable that stays so until the transaction ends. `access` is the
// lock on entry and record. Errors: those of index.h; bad_argument if the index is not secondary.
Result<bool> get_by(Txn& txn, Index secondary, Slice key, SecondaryRecord& record,
                    Access access = Access::read);
// A cursor over all records with this secondary key. What forbids the scan is the error of the
// cursor's first step. Copies `key`.
SecondaryCursor find_by(Txn& txn, Index secondary, Slice key, Access access = Access::read);
// A cursor over the records whose secondary keys are low <= key < high; an empty `high` means to
// the end. Otherwise as find_by().
SecondaryCursor scan_by(Txn& txn, Index secondary, Slice low = {}, Slice high = {},
                        Access access = Access::read);

}  // namespace lockstep
