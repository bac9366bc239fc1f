// changed_records.h - the records that a change of pages is about to change, as they are before it.
//
// Concepts   Each of them gets a version. Some are handed to the table of versions together: the
//            place of each in it is seldom in the caches, and the table's queue is locked once.
// Invariants CR-1 The keys of B-tree records and the bytes of all records stay until keep(): keys
//                 lie in the log record, bytes in the latched page.
// Blocking   Spin locks of the table. Nothing parks.
#pragma once

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "sm/version/version_table.h"
#include "threads/base/mutants.h"

namespace lockstep::sm {

class ChangedRecords {
public:
    ChangedRecords(VersionTable& versions, txn::Transaction& txn)
        : versions_(versions), txn_(txn) {}
    ChangedRecords(const ChangedRecords&) = delete;
    ChangedRecords& operator=(const ChangedRecords&) = delete;
    ~ChangedRecords() { DCHECK(n_ == 0); }

    // All of the record changes, or that part.
    void add(ObjectId object, Slice key, const RecordState& before) {
        add(object, key, before, RecordPart::all(before.bytes));
    }
    void add(ObjectId object, Slice key, const RecordState& before, const RecordPart& part) {
        put(name_of_key(object, key), before, part);
    }
    void add(ObjectId object, RecordId id, const RecordState& before, const RecordPart& part) {
        const SlotKey key(id);
        ChangedRecord& changed = put(name_of_slot(object, key), before, part);
        std::memcpy(changed.slot, key.bytes, sizeof changed.slot);
        changed.name.key = {changed.slot, sizeof changed.slot};
    }
    // The next add() makes versions before it adds.
    bool full() const { return n_ == kTogether; }
    // Makes the versions of what was added.
    void keep() {
        const size_t n = std::exchange(n_, 0);
        if (MUTANT(version_missing)) return;
        if (n == 1) [[likely]]
            versions_.note(txn_, *record(0));
        else if (n != 0) versions_.note(txn_, {record(0), n});
    }

private:
    static constexpr size_t kTogether = VersionTable::kTogether;
    static_assert(std::is_trivially_destructible_v<ChangedRecord>);

    [[gnu::noinline]] void keep_all() { keep(); }
    ChangedRecord* record(size_t i) { return reinterpret_cast<ChangedRecord*>(memory_) + i; }
    ChangedRecord& put(const RecordName& name, const RecordState& before, const RecordPart& part) {
        DCHECK(n_ <= kTogether && name.hash != 0);
        if (n_ == kTogether) [[unlikely]]
            keep_all();
        ChangedRecord& changed = *new (record(n_++)) ChangedRecord;
        changed.name = name;
        changed.before = before;
        changed.part = part;
        versions_.ask_for(changed);
        return changed;
    }

    VersionTable& versions_;
    txn::Transaction& txn_;
    size_t n_ = 0;
    // Not set before it is used.
    alignas(ChangedRecord) std::byte memory_[kTogether * sizeof(ChangedRecord)];
};

}  // namespace lockstep::sm
