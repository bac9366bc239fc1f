// labels: unit
// c_changes_test.cc - the change feed of the C interface: what it gives, how its waits end, and
// what a wrong handle or position gets.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/sm/c/c_util.h"

namespace lockstep::c_changes_test {

constexpr uint64_t kForEver = UINT64_MAX;

class CChanges : public CStore {
protected:
    struct Told {
        std::string kind, object, key, value, old;
        bool is_index;
        lockstep_record_id record;
        uint64_t offset, txn, commit;
        bool operator==(const Told& o) const { return text() == o.text(); }
        std::string text() const { return kind + " " + object + "[" + key + "] = " + value; }
        friend std::ostream& operator<<(std::ostream& out, const Told& told) {
            return out << told.text();
        }
    };
    struct Reader {
        std::vector<Told> told;
        size_t most = SIZE_MAX;  // each() asks for no more then
    };
    static bool take(void* arg, const lockstep_change* change) {
        auto& reader = *static_cast<Reader*>(arg);
        EXPECT_EQ(change->size, sizeof *change);
        reader.told.push_back({lockstep_change_kind_name(change->kind), text_of(change->object),
                               text_of(change->key), text_of(change->value),
                               change->has_old ? text_of(change->old) : "-", change->is_index,
                               change->record, change->offset, change->txn, change->commit});
        return reader.told.size() < reader.most;
    }
    lockstep_changes* feed(const std::string& position = {}) {
        lockstep_changes* made = nullptr;
        EXPECT_C(lockstep_changes_begin(store, lockstep_bytes(position.data(), position.size()),
                                        &made, &error));
        return made;
    }
    std::vector<Told> read(lockstep_changes* of, size_t most = SIZE_MAX) {
        Reader reader{{}, most};
        size_t given = 99;
        EXPECT_C(lockstep_changes_read(of, 0, take, &reader, &given, &error));
        EXPECT_EQ(given, reader.told.size());
        return reader.told;
    }
    std::string position(lockstep_changes* of) {
        char text[100];
        size_t bytes = 0;
        EXPECT_C(lockstep_changes_position(of, text, sizeof text, &bytes, &error));
        EXPECT_LT(bytes, sizeof text);
        return {text, bytes};
    }
    void put(lockstep_index* index, const char* key, const char* value) {
        EXPECT_C(lockstep_put_once(store, index, lockstep_text(key), lockstep_text(value), nullptr,
                                   &error));
    }
    // The code of a read that waits for ever on another thread, while `meanwhile` runs here.
    template <class Meanwhile>
    int wait_beside(lockstep_changes* of, Reader& reader, Meanwhile meanwhile) {
        int code = -1;
        std::thread waits(
            [&] { code = lockstep_changes_read(of, kForEver, take, &reader, nullptr, nullptr); });
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        meanwhile();
        waits.join();
        return code;
    }
};

TEST_F(CChanges, GivesWhatACommitHasChanged) {
    lockstep_index* const cities = make_index("cities");
    lockstep_heap* const notes = make_heap("notes");
    put(cities, "Lisbon", "Spain");
    put(cities, "Rome", "Italy");
    lockstep_changes* const changes = feed();
    lockstep_txn* txn = nullptr;
    lockstep_record_id id{};
    bool found = false;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_C(lockstep_insert(txn, cities, lockstep_text("Oslo"), lockstep_text("Norway"), &error));
    ASSERT_C(lockstep_put(txn, cities, lockstep_text("Lisbon"), lockstep_text("Portugal"), &error));
    ASSERT_C(lockstep_erase(txn, cities, lockstep_text("Rome"), &found, &error));
    ASSERT_C(lockstep_heap_insert(txn, notes, lockstep_text("note"), &id, &error));
    EXPECT_TRUE(read(changes).empty()) << "before the commit";
    uint64_t lsn = 0;
    ASSERT_C(lockstep_commit(txn, &lsn, &error));
    const std::vector<Told> told = read(changes);
    const std::vector<Told> expected = {
        {"insert", "cities", "Oslo", "Norway", "", true, {}, 0, 0, 0},
        {"patch", "cities", "Lisbon", "Portugal", "", true, {}, 0, 0, 0},
        {"erase", "cities", "Rome", "", "", true, {}, 0, 0, 0},
        {"insert", "notes", "", "note", "", false, {}, 0, 0, 0},
        {"commit", "", "", "", "", false, {}, 0, 0, 0}};
    ASSERT_EQ(told, expected);
    EXPECT_EQ(told[1].old, "Spain");
    EXPECT_EQ(told[0].old, "-");
    EXPECT_EQ(told[3].record.page, id.page);
    EXPECT_EQ(told[3].record.slot, id.slot);
    for (const Told& one : told) {
        EXPECT_EQ(one.txn, told[0].txn);
        EXPECT_LT(one.commit, lsn);
        EXPECT_EQ(one.commit, told[0].commit);
    }
    EXPECT_TRUE(read(changes).empty()) << "each change is given once";
    ASSERT_C(lockstep_changes_close(changes, &error));
}

TEST_F(CChanges, APositionGoesOnInTheMiddleOfATransaction) {
    lockstep_index* const index = make_index("i");
    lockstep_changes* const first = feed();
    put(index, "a", "1");
    put(index, "b", "2");
    const std::vector<Told> begun = read(first, 1);
    ASSERT_EQ(begun.size(), 1U);
    const std::string between = position(first);
    const std::vector<Told> rest = read(first);
    ASSERT_EQ(rest.size(), 3U);
    lockstep_changes* const second = feed(between);
    EXPECT_EQ(read(second), rest);
    lockstep_changes* const oldest = feed("oldest");
    const std::vector<Told> all = read(oldest);
    ASSERT_GT(all.size(), 4U);
    EXPECT_EQ(all[0].kind, "create");
    EXPECT_EQ(std::vector<Told>(all.end() - 3, all.end()), rest);
}

TEST_F(CChanges, AFeedBehindASnapshot) {
    lockstep_index* const index = make_index("i");
    put(index, "a", "1");
    lockstep_txn_options options;
    lockstep_txn_options_init(&options, sizeof options);
    options.isolation = LOCKSTEP_SNAPSHOT;
    options.read_only = true;
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, &options, &txn, &error));
    EXPECT_EQ(value_of(txn, index, "a"), "1");
    put(index, "a", "2");
    char text[100];
    size_t bytes = 0;
    uint64_t lsn = 0;
    ASSERT_C(lockstep_changes_point(txn, text, sizeof text, &bytes, &lsn, &error));
    EXPECT_EQ(value_of(txn, index, "a"), "1");
    ASSERT_C(lockstep_abort(txn, &error));
    const std::vector<Told> told = read(feed({text, bytes}));
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[0].value, "2");
    EXPECT_GE(told[0].commit, lsn);
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_EQ(lockstep_changes_point(txn, text, sizeof text, &bytes, &lsn, &error),
              LOCKSTEP_BAD_ARGUMENT);
    ASSERT_C(lockstep_abort(txn, &error));
}

TEST_F(CChanges, AReadWaitsForACommit) {
    lockstep_index* const index = make_index("i");
    lockstep_changes* const changes = feed();
    Reader reader{{}, 2};
    EXPECT_EQ(wait_beside(changes, reader, [&] { put(index, "a", "1"); }), LOCKSTEP_OK);
    ASSERT_EQ(reader.told.size(), 2U);
    EXPECT_EQ(reader.told[0].key, "a");
    size_t given = 99;
    EXPECT_C(lockstep_changes_read(changes, 20'000'000, take, &reader, &given, &error));
    EXPECT_EQ(given, 0U);
}

TEST_F(CChanges, ClosingTheStoreEndsAWait) {
    Reader reader;
    EXPECT_EQ(wait_beside(feed(), reader, [&] { EXPECT_C(lockstep_close(store, &error)); }),
              LOCKSTEP_STORE_CLOSED);
    store = nullptr;
}

TEST_F(CChanges, AWatchEndsAWait) {
    int looks = 0;
    lockstep_watch_waits([](void* arg) { return ++*static_cast<int*>(arg) == 3 ? 1 : 0; }, &looks);
    Reader reader;
    EXPECT_EQ(lockstep_changes_read(feed(), kForEver, take, &reader, nullptr, &error),
              LOCKSTEP_CANCELLED);
    lockstep_watch_waits(nullptr, nullptr);
    EXPECT_EQ(looks, 3);
}

TEST_F(CChanges, OneCallAtATime) {
    lockstep_index* const index = make_index("i");
    lockstep_changes* changes = feed();
    put(index, "a", "1");
    const auto uses_it = [](void* arg, const lockstep_change*) {
        char text[100];
        size_t bytes = 0;
        EXPECT_EQ(lockstep_changes_position(*static_cast<lockstep_changes**>(arg), text,
                                            sizeof text, &bytes, nullptr),
                  LOCKSTEP_WRONG_THREAD);
        return true;
    };
    EXPECT_C(lockstep_changes_read(changes, 0, uses_it, &changes, nullptr, &error));
    EXPECT_FALSE(position(changes).empty()) << "usable again";
}

TEST_F(CChanges, RefusesWhatIsNoFeed) {
    make_index("i");
    lockstep_changes* made = nullptr;
    EXPECT_EQ(lockstep_changes_begin(store, lockstep_text("yesterday"), &made, &error),
              LOCKSTEP_BAD_ARGUMENT);
    EXPECT_EQ(made, nullptr);
    EXPECT_NE(std::string(error.text).find("yesterday"), std::string::npos) << error.text;
    lockstep_changes* const changes = feed();
    EXPECT_EQ(lockstep_changes_read(changes, 0, nullptr, nullptr, nullptr, &error),
              LOCKSTEP_BAD_ARGUMENT);
    lockstep_report* report = nullptr;
    ASSERT_C(lockstep_report_begin(store, nullptr, &report, &error));
    EXPECT_EQ(lockstep_changes_close(reinterpret_cast<lockstep_changes*>(report), &error),
              LOCKSTEP_BAD_ARGUMENT);
    ASSERT_C(lockstep_changes_close(changes, &error));
    Reader reader;
    EXPECT_EQ(lockstep_changes_read(changes, 0, take, &reader, nullptr, &error),
              LOCKSTEP_TXN_ENDED);
    lockstep_changes* const left = feed();
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;
    EXPECT_EQ(lockstep_changes_close(left, &error), LOCKSTEP_TXN_ENDED);
    EXPECT_STREQ(lockstep_change_kind_name(8), "unknown");
    EXPECT_STREQ(lockstep_change_kind_name(-1), "unknown");
}

}  // namespace lockstep::c_changes_test
