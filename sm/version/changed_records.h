// changed_records.h - the records that a change of pages is about to change, as they are before it.
//
// Concepts   Each of them gets a version. Some are handed to the table of versions together: the
//            place of each in it is seldom in the caches, and the table's queue is locked once.
//            The record of a change that is *alone* goes to the table at once.
// Invariants CR-1 The keys of B-tree records and the bytes of all records stay until keep(): keys
//                 lie in the log record, bytes in the latched page.
// Blocking   Spin locks of the table. Nothing parks.
#pragma once

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "sm/version/version_table.h"

namespace lockstep::sm {

class ChangedRecords {
public:
    // alone: the change has one page action.
    ChangedRecords(VersionTable& versions, txn::Transaction& txn, bool alone)
        : versions_(versions), txn_(txn), alone_(alone) {}
    ChangedRecords(const ChangedRecords&) = delete;
    ChangedRecords& operator=(const ChangedRecords&) = delete;
    ~ChangedRecords() { DCHECK(n_ == 0); }

    // The only record of the only action.
    static void keep_only(VersionTable& versions, txn::Transaction& txn, const RecordName& name,
                          const RecordState& before, const RecordPart& part) {
        ChangedRecord changed;
        fill(versions, changed, name, before, part);
        versions.note(txn, changed);
    }
    // One of an action's records; that part of it changes.
    void add(const RecordName& name, const RecordState& before, const RecordPart& part) {
        put(name, before, part);
    }
    // The only one.
    void add_only(const RecordName& name, const RecordState& before, const RecordPart& part) {
        if (alone_) [[likely]]
            keep_only(versions_, txn_, name, before, part);
        else put(name, before, part);
    }
    void add_only(ObjectId object, RecordId id, const RecordState& before, const RecordPart& part) {
        const SlotKey key(id);
        const RecordName name = name_of_slot(object, key);
        if (alone_) [[likely]]
            return keep_only(versions_, txn_, name, before, part);
        ChangedRecord& changed = put(name, before, part);
        static_assert(sizeof key.bytes <= sizeof changed.text);
        std::memcpy(changed.text, key.bytes, sizeof key.bytes);
        changed.name.key = {changed.text, sizeof key.bytes};
    }
    // May keys that the index is about to insert become one run?
    bool may_add_run(ObjectId index) const { return versions_.may_note_run(index); }
    // `name`: of the run, whose keys end with `ends`.
    void add_run(const RecordName& name, Slice ends) {
        DCHECK(!ends.empty() && ends.size() <= kRunKeysMax);
        ChangedRecord& changed = put(name, {}, {});
        std::memcpy(changed.text, ends.data(), ends.size());
        changed.before.bytes = {changed.text, ends.size()};
        changed.part = RecordPart::all(changed.before.bytes);
        changed.run = true;
    }
    // The next add() makes versions before it adds.
    bool full() const { return n_ == kTogether; }
    // Makes the versions of what was added.
    void keep() {
        const size_t n = std::exchange(n_, 0);
        if (n != 0) versions_.note(txn_, {record(0), n});
    }

private:
    static constexpr size_t kTogether = VersionTable::kTogether;
    static_assert(std::is_trivially_destructible_v<ChangedRecord>);

    [[gnu::noinline]] void keep_all() { keep(); }
    ChangedRecord* record(size_t i) { return reinterpret_cast<ChangedRecord*>(memory_) + i; }
    static void fill(const VersionTable& versions, ChangedRecord& changed, const RecordName& name,
                     const RecordState& before, const RecordPart& part) {
        DCHECK(name.hash != 0);
        changed.name = name;
        changed.before = before;
        changed.part = part;
        changed.run = false;
        versions.find_bucket(changed);
    }
    ChangedRecord& put(const RecordName& name, const RecordState& before, const RecordPart& part) {
        DCHECK(n_ <= kTogether);
        if (n_ == kTogether) [[unlikely]]
            keep_all();
        ChangedRecord& changed = *new (record(n_++)) ChangedRecord;
        fill(versions_, changed, name, before, part);
        prefetch_line(changed.bucket);
        return changed;
    }

    VersionTable& versions_;
    txn::Transaction& txn_;
    const bool alone_;
    size_t n_ = 0;
    // Not set before it is used.
    alignas(ChangedRecord) std::byte memory_[kTogether * sizeof(ChangedRecord)];
};

}  // namespace lockstep::sm
