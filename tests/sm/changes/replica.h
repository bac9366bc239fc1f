// replica.h - a second store that is made from the change feed of a first one, and refuses whatever
// does not fit: an insert of what it has, an update or erasure of what it lacks, other old bytes.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <lockstep/changes.h>
#include <lockstep/store.h>
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"
#include "threads/base/try.h"

namespace lockstep {

// A change with texts of its own.
struct ToldChange {
    Change of;
    std::string object, key, value, old;

    explicit ToldChange(const Change& change)
        : of(change),
          object(change.object),
          key(change.key),
          value(change.value),
          old(change.old.value_or(Slice{})) {}
    Change change() const {
        Change same = of;
        same.object = object, same.key = key, same.value = value;
        if (same.old) same.old = old;
        return same;
    }
    // All that a feed says of it.
    std::string text() const {
        return std::string(change_kind_name(of.kind)) + " " + object + " " +
               std::to_string(of.id.value) + " " + std::to_string(of.of.value) + " '" + key + "' " +
               std::to_string(of.record.page.value) + "." + std::to_string(of.record.slot.value) +
               " " + std::to_string(of.offset) + " '" + value + "' " +
               (of.old ? "'" + old + "'" : "-") + " " + std::to_string(of.txn.value) + " " +
               std::to_string(of.commit.value);
    }
};

using Records = std::map<std::string, std::string>;  // of an index

inline Result<Records> records_of(const Index& index, Txn& txn) {
    Records all;
    for (Cursor at = index.scan(txn); TRY(at.next());)
        all.emplace(std::string(at.key()), std::string(at.value()));
    return all;
}
inline Result<std::map<RecordId, std::string>> records_of(const Heap& heap, Txn& txn) {
    std::map<RecordId, std::string> all;
    TRY(heap.scan(txn, [&](RecordId id, Slice record) {
        all.emplace(id, record);
        return true;
    }));
    return all;
}

class Replica {
public:
    Replica() : store_(disk_, 1) {
        const auto opened = store_.open();
        CHECK(opened.has_value());
    }
    // Each change of the feed of `source`, in order. A transaction takes effect at its end.
    void take(const Change& change, SimStore& source) {
        ++taken_[change.kind];
        if (change.kind != ChangeKind::commit) {
            pending_.emplace_back(change);
            if (change.kind == ChangeKind::reset) read_again(pending_.back(), source);
            return;
        }
        ASSERT_FALSE(pending_.empty()) << "a commit without a change";
        for (const ToldChange& told : pending_) ASSERT_EQ(told.of.commit, change.commit);
        ASSERT_GT(change.commit, last_);
        last_ = change.commit;
        store_.on_thread([&] {
            const auto done = store_->run([&](Txn& txn) -> Result<void> {
                for (const ToldChange& told : pending_) TRY(apply(txn, told));
                return {};
            });
            EXPECT_TRUE(done.has_value()) << done.error().text();
        });
        pending_.clear();
    }
    // The feed begins again at the end of the last transaction.
    void forget_begun() { pending_.clear(); }
    Lsn last() const { return last_; }
    // How many changes of that kind it was told.
    size_t taken(ChangeKind kind) { return taken_[kind]; }

    // Has it what the source has?
    void compare(SimStore& source) {
        std::map<std::string, Store::Entry> here, there;
        for (const Store::Entry& entry : store_->list()) here.emplace(entry.name, entry);
        for (const Store::Entry& entry : source->list())
            if (entry.of == ObjectId{}) there.emplace(entry.name, entry);
        ASSERT_EQ(here.size(), there.size());
        for (const auto& [name, entry] : there) {
            ASSERT_TRUE(here.contains(name)) << name;
            ASSERT_EQ(here.at(name).is_index, entry.is_index) << name;
            if (entry.is_index) EXPECT_EQ(index_in(store_, name), index_in(source, name)) << name;
            else compare_heap(source, entry);
        }
    }

private:
    // What the index has, or nothing if it is not there.
    static Records index_in(SimStore& store, const std::string& name) {
        Records all;
        store.on_thread([&] {
            const auto read = store->run(
                [&](Txn& txn) -> Result<Records> {
                    return records_of(TRY(store->index(txn, name)), txn);
                },
                {.isolation = Isolation::snapshot, .read_only = true});
            EXPECT_TRUE(read.has_value()) << read.error().text();
            if (read) all = *read;
        });
        return all;
    }
    void compare_heap(SimStore& source, const Store::Entry& entry) {
        const auto read = [&](SimStore& store, std::map<RecordId, std::string>& all) {
            store.on_thread([&] {
                ASSERT_OK(store->run(
                    [&](Txn& txn) -> Result<void> {
                        all = TRY(records_of(TRY(store->heap(txn, entry.name)), txn));
                        return {};
                    },
                    {.isolation = Isolation::snapshot, .read_only = true}));
            });
        };
        std::map<RecordId, std::string> here, there, expected;
        read(store_, here);
        read(source, there);
        for (const auto& [id, record] : there) expected.emplace(ids_[{entry.id, id}], record);
        EXPECT_EQ(here, expected) << entry.name;
    }
    // Keeps what the source has now, and what the feed will tell of it once more.
    void read_again(ToldChange& told, SimStore& source) {
        source.on_thread([&] {
            const auto read = source->run(
                [&](Txn& txn) -> Result<void> {
                    const auto index = source->index(txn, told.object);
                    if (!index || index->id() != told.of.id) {
                        known_below_[told.of.id] = kLsnMax;  // its drop follows
                        return {};
                    }
                    known_below_[told.of.id] = TRY(source->changes_point(txn)).lsn;
                    read_[told.of.id] = TRY(records_of(*index, txn));
                    return {};
                },
                {.isolation = Isolation::snapshot, .read_only = true});
            EXPECT_TRUE(read.has_value()) << read.error().text();
        });
    }
    Result<void> apply(Txn& txn, const ToldChange& told) {
        const Change& of = told.of;
        if (of.kind == ChangeKind::create) {
            if (of.of != ObjectId{}) return {};
            names_[of.id] = told.object;
            if (of.is_index) TRY(store_->create_index(txn, told.object));
            else TRY(store_->create_heap(txn, told.object));
            return {};
        }
        if (of.kind == ChangeKind::drop) {
            known_below_.erase(of.id);
            const auto name = names_.find(of.id);
            if (name == names_.end()) return {};  // a secondary index
            EXPECT_EQ(name->second, told.object);
            names_.erase(name);
            return store_->drop(txn, told.object);
        }
        const bool known = known_below_.contains(of.id) && of.commit < known_below_[of.id];
        if (known && (of.kind != ChangeKind::reset || !read_.contains(of.id))) return {};
        EXPECT_EQ(names_[of.id], told.object) << told.text();
        if (!of.is_index) return apply_heap(txn, TRY(store_->heap(txn, told.object)), told);
        return apply_index(txn, TRY(store_->index(txn, told.object)), told);
    }
    Result<void> apply_index(Txn& txn, const Index& index, const ToldChange& told) {
        std::string now;
        switch (told.of.kind) {
            case ChangeKind::insert: return index.insert(txn, told.key, told.value);
            case ChangeKind::erase:
                EXPECT_TRUE(TRY(index.erase(txn, told.key))) << told.text();
                return {};
            case ChangeKind::update:
            case ChangeKind::patch:
                EXPECT_TRUE(TRY(index.get(txn, told.key, now))) << told.text();
                TRY(index.update(txn, told.key, changed(now, told)));
                return {};
            default:
                EXPECT_EQ(told.of.kind, ChangeKind::reset);
                TRY(index.erase_range(txn, {}, {}));
                for (const auto& [key, value] : read_[told.of.id])
                    TRY(index.insert(txn, key, value));
                read_.erase(told.of.id);
                return {};
        }
    }
    Result<void> apply_heap(Txn& txn, const Heap& heap, const ToldChange& told) {
        RecordId& id = ids_[{told.of.id, told.of.record}];
        std::string now;
        if (told.of.kind == ChangeKind::insert) {
            id = TRY(heap.insert(txn, told.value));
            return {};
        }
        EXPECT_TRUE(TRY(heap.get(txn, id, now))) << told.text();
        if (told.of.kind != ChangeKind::erase) {
            TRY(heap.update(txn, id, changed(now, told)));
            return {};
        }
        EXPECT_TRUE(told.of.old.has_value());
        EXPECT_EQ(now, told.old);
        TRY(heap.erase(txn, id));
        return {};
    }
    // The value after the change.
    static std::string changed(const std::string& now, const ToldChange& told) {
        if (told.of.kind == ChangeKind::update) {
            if (told.of.old) {
                EXPECT_EQ(now, told.old) << told.text();
            }
            return told.value;
        }
        EXPECT_TRUE(told.of.old.has_value());
        EXPECT_EQ(now.substr(std::min(told.of.offset, now.size()), told.old.size()), told.old)
            << told.text();
        std::string after = now;
        return after.replace(told.of.offset, told.old.size(), told.value);
    }

    threads::SimDisk disk_;
    SimStore store_;
    std::vector<ToldChange> pending_;
    std::map<ObjectId, std::string> names_;
    std::map<std::pair<ObjectId, RecordId>, RecordId> ids_;
    std::map<ObjectId, Lsn> known_below_;
    std::map<ObjectId, Records> read_;
    std::map<ChangeKind, size_t> taken_;
    Lsn last_{};
};

}  // namespace lockstep
