// labels: unit
// snapshot_run_test.cc - what snapshots see of keys that were inserted side by side and have one
// version together (sm/version/key_run.h).
#include <atomic>
#include <vector>

#include "tests/sm/services/snapshot_test_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::snapshot_run_test {

class SnapshotRun : public SnapshotTest {
protected:
    // In one change: prefix0 to prefix9, or those of them that `last` has.
    void insert(Txn& txn, const std::string& prefix, Slice last = "0123456789") {
        std::vector<std::string> keys;
        for (const char c : last) keys.push_back(prefix + c);
        std::vector<NewRecord> records;
        for (const std::string& key : keys) records.push_back({.key = key, .value = "new"});
        ASSERT_OK(index().insert_many(txn, records));
    }
    void insert(const std::string& prefix, Slice last = "0123456789") {
        Txn txn = begin(kWriter);
        insert(txn, prefix, last);
        ASSERT_OK(txn.commit());
    }
    void insert_and_abort(const std::string& prefix) {
        Txn gone = begin(kWriter);
        insert(gone, prefix);
        ASSERT_OK(gone.abort());
    }
    // How many versions `change` leaves.
    template <class F>
    uint64_t made_by(const F& change) {
        const uint64_t before = versions().made();
        change();
        return versions().made() - before;
    }
    Content content(const std::string& prefix, Slice last = "0123456789") {
        Content out;
        for (const char c : last) out.emplace(prefix + c, "new");
        return out;
    }
};

TEST_F(SnapshotRun, OneVersionForAllKeys) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        Txn writer = begin(kWriter);
        EXPECT_EQ(made_by([&] { insert(writer, "a"); }), 1u);
        Txn during = begin(kSnapshot);
        ASSERT_OK(writer.commit());
        Txn after = begin(kSnapshot);
        for (Txn* snapshot : {&before, &during}) {
            EXPECT_EQ(get(*snapshot, "a0"), "-");
            EXPECT_EQ(get(*snapshot, "a9"), "-");
            EXPECT_TRUE(scan(*snapshot).empty());
        }
        EXPECT_EQ(get(after, "a0"), "new");
        EXPECT_EQ(scan(after), content("a"));
        for (Txn* snapshot : {&before, &during, &after}) ASSERT_OK(snapshot->commit());
        sweep(versions());
    });
}

TEST_F(SnapshotRun, OtherKeysOfThePrefixAreNotInTheRun) {
    on_thread(*store_, [&] {
        put("a", "old");
        for (const Slice key : {"a3", "a", "b4", "a44"}) put(key, "old");
        const Content old = {{"a", "old"}, {"a3", "old"}, {"b4", "old"}, {"a44", "old"}};
        Txn before = begin(kSnapshot);
        insert("a", "012");
        insert("a", "456");
        for (const auto& [key, value] : old) EXPECT_EQ(get(before, key), value) << key;
        for (const Slice key : {"a0", "a2", "a4", "a6"}) EXPECT_EQ(get(before, key), "-") << key;
        EXPECT_EQ(scan(before), old);
    });
}

// Each of two transactions has a run with the same prefix, and they end in the other order.
TEST_F(SnapshotRun, RunsOfOnePrefixDoNotHideEachOther) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        Txn first = begin(kWriter), second = begin(kWriter);
        insert(first, "a", "01");
        insert(second, "a", "56");
        ASSERT_OK(second.commit());
        Txn between = begin(kSnapshot);
        ASSERT_OK(first.commit());
        Txn after = begin(kSnapshot);
        EXPECT_TRUE(scan(before).empty());
        EXPECT_EQ(scan(between), content("a", "56"));
        EXPECT_EQ(get(between, "a1"), "-");
        EXPECT_EQ(get(between, "a5"), "new");
        EXPECT_EQ(scan(after), content("a", "0156"));
    });
}

// Two leaves have keys of one prefix, and two workers insert into them at the same time.
TEST_F(SnapshotRun, RunsOfOnePrefixAreMadeByTwoWorkersAtOnce) {
    constexpr int kRounds = kAddressSanitizer ? 500 : 2000, kFew = 5;
    reopen(small_options(2));
    const auto prefix = [](int round) { return "r" + std::to_string(10'000 + round) + "-"; };
    std::atomic<int> arrived{0};
    const auto insert_side = [&](Slice last) -> Result<void> {
        for (int round = 0; round < kRounds; ++round) {
            Txn txn = begin(kWriter);
            for (++arrived; arrived < 2 * (round + 1);) {}
            insert(txn, prefix(round), last);
            EXPECT_TRUE(txn.commit());
        }
        return {};
    };
    on_thread(*store_, [&] {
        Content apart;  // the leaves of each prefix
        for (int round = 0; round < kRounds; ++round)
            for (int n = 0; n < kFew; ++n)
                apart.emplace(prefix(round) + "4" + std::to_string(n), std::string(1900, 'x'));
        for (const auto& [key, value] : apart) put(key, value);
        Txn before = begin(kSnapshot);
        auto low = store_->start([&] { return insert_side("01234"); }, 0);
        auto high = store_->start([&] { return insert_side("56789"); }, 1);
        ASSERT_OK(low.join());
        ASSERT_OK(high.join());
        EXPECT_EQ(scan(before).size(), apart.size());
    });
}

// A third transaction's run begins when the two others have ended and no snapshot is between.
TEST_F(SnapshotRun, AnEarlierRunStaysBelowALaterOne) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        insert("a", "01");
        insert("a", "23");
        insert("a", "45");
        EXPECT_TRUE(scan(before).empty());
        for (const Slice key : {"a0", "a2", "a4"}) EXPECT_EQ(get(before, key), "-") << key;
    });
}

TEST_F(SnapshotRun, LaterChangesOfAKeyAreAboveItsRun) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        insert("a");
        Txn inserted = begin(kSnapshot);
        put("a1", "newer");
        erase("a2");
        Txn changed = begin(kSnapshot);
        put("a2", "again");
        clean();
        EXPECT_TRUE(scan(before).empty());
        for (const Slice key : {"a1", "a2"}) EXPECT_EQ(get(before, key), "-") << key;
        EXPECT_EQ(scan(inserted), content("a"));
        for (const Slice key : {"a1", "a2"}) EXPECT_EQ(get(inserted, key), "new") << key;
        EXPECT_EQ(get(changed, "a1"), "newer");
        EXPECT_EQ(get(changed, "a2"), "-");
    });
}

// The writer changes and erases what it has inserted.
TEST_F(SnapshotRun, TheWritersOwnChangesAreNotSeen) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        Txn writer = begin(kWriter);
        insert(writer, "a");
        put(writer, "a1", "newer");
        EXPECT_TRUE(*index().erase(writer, "a2"));
        EXPECT_TRUE(scan(before).empty());
        ASSERT_OK(writer.commit());
        clean();
        EXPECT_TRUE(scan(before).empty());
        for (const Slice key : {"a1", "a2", "a3"}) EXPECT_EQ(get(before, key), "-") << key;
    });
}

// Rolled back, also to a savepoint, and inserted again by another transaction.
TEST_F(SnapshotRun, ARolledBackRunHidesNothing) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        insert_and_abort("a");
        put("a1", "put");
        Txn first = begin(kSnapshot);
        EXPECT_EQ(scan(before), Content{});
        EXPECT_EQ(scan(first), (Content{{"a1", "put"}}));
        EXPECT_EQ(get(first, "a1"), "put");
        Txn writer = begin(kWriter);
        insert(writer, "b");
        const Savepoint mark = *writer.savepoint();
        insert(writer, "c");
        ASSERT_OK(writer.rollback_to(mark));
        ASSERT_OK(writer.commit());
        clean();
        insert("c");
        EXPECT_EQ(scan(first), (Content{{"a1", "put"}}));
        Txn last = begin(kSnapshot);
        EXPECT_EQ(get(last, "c1"), "new");
    });
}

// The version of `kept`, which the snapshot needs, holds up the sweeps of all that follow.
TEST_F(SnapshotRun, RolledBackRunsDoNotPileUp) {
    constexpr int kRetries = 300;
    on_thread(*store_, [&] {
        put("kept", "old");
        Txn before = begin(kSnapshot);
        put("kept", "new");
        for (int n = 0; n < kRetries; ++n) {
            Txn gone = begin(kWriter);
            insert(gone, "a");
            ASSERT_OK(gone.abort());
            clean();
        }
        EXPECT_LT(versions().bytes(), 2048u);
        insert("a");
        EXPECT_EQ(scan(before), (Content{{"kept", "old"}}));
    });
}

// KR-1: an older snapshot sees the erased record, which left its leaf, and not the new one.
TEST_F(SnapshotRun, KeysThatWereErasedAreNoRun) {
    on_thread(*store_, [&] {
        put("a1", "old");
        Txn old = begin(kSnapshot);
        erase("a1");
        clean();
        Txn none = begin(kSnapshot);
        EXPECT_GT(made_by([&] { insert("a", "012"); }), 1u);
        EXPECT_EQ(get(old, "a1"), "old");
        EXPECT_EQ(get(none, "a1"), "-");
        EXPECT_EQ(scan(old), (Content{{"a1", "old"}}));
        EXPECT_TRUE(scan(none).empty());
    });
}

// Erased keys that no snapshot sees do not stand in the way, nor do those of aborted writers.
TEST_F(SnapshotRun, KeysOfRolledBackRecordsAreForgotten) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        insert_and_abort("a");
        clean();
        EXPECT_EQ(made_by([&] { insert("a"); }), 1u);
        EXPECT_TRUE(scan(before).empty());
    });
}

// A scan looks once for all keys of a prefix, and again for the next prefix.
TEST_F(SnapshotRun, AScanPassesFromPrefixToPrefix) {
    on_thread(*store_, [&] {
        for (const Slice key : {"a1", "c1", "e1"}) put(key, "old");
        Txn before = begin(kSnapshot);
        insert("b");
        insert("d");
        EXPECT_EQ(scan(before), (Content{{"a1", "old"}, {"c1", "old"}, {"e1", "old"}}));
        EXPECT_EQ(scan(before, "b", "c2"), (Content{{"c1", "old"}}));
    });
}

// The empty key is in no run, although the bytes before its end are those of one-byte keys.
TEST_F(SnapshotRun, TheEmptyKeyStandsBesideARunOfOneByteKeys) {
    on_thread(*store_, [&] {
        put("", "old");
        Txn before = begin(kSnapshot);
        insert("");
        EXPECT_EQ(scan(before), (Content{{"", "old"}}));
        EXPECT_EQ(get(before, ""), "old");
        EXPECT_EQ(get(before, "0"), "-");
    });
}

// The keys of a run differ in their last byte only.
TEST_F(SnapshotRun, KeysOfTwoLengthsOrPrefixesAreNoRun) {
    on_thread(*store_, [&] {
        Txn before = begin(kSnapshot);
        const auto made_with = [&](std::vector<NewRecord> records) {
            return made_by([&] {
                Txn txn = begin(kWriter);
                ASSERT_OK(index().insert_many(txn, records));
                ASSERT_OK(txn.commit());
            });
        };
        EXPECT_EQ(made_with({{"a1", "x"}, {"a10", "x"}, {"a2", "x"}}), 3u);
        EXPECT_EQ(made_with({{"b8", "x"}, {"b9", "x"}, {"c0", "x"}}), 3u);
        EXPECT_EQ(made_with({{"1", "x"}, {"2", "x"}}), 1u);  // nothing is before the last byte
        EXPECT_TRUE(scan(before).empty());
        EXPECT_EQ(get(before, "1"), "-");
        EXPECT_EQ(get(before, ""), "-");
    });
}

}  // namespace lockstep::snapshot_run_test
