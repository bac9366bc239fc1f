// labels: sim
// txn_ids_test.cc - transaction ids grow over every kind of open, and no two transactions that run
// or are in doubt share one.
#include <set>

#include <lockstep/backup.h>
#include "tests/sm/backup/archive_test_util.h"
#include "tests/sm/services/prepared_test_util.h"

namespace lockstep::txn_ids_test {

using threads::SimCrash;
using threads::SimDisk;

class TxnIds : public PreparedTest {
protected:
    // The store has just been opened. Ids without a record may come again; what is in doubt has its
    // own.
    void opened() {
        base_ = newest_;
        used_.clear();
        for (const PreparedInfo& of : store().prepared()) used_.insert(of.id.value);
    }
    // Ids of transactions on both workers, which take them in blocks. Each change is another one: a
    // transaction that changes nothing leaves no record.
    void take_ids(bool writes) {
        for (int i = 0; i < 6; ++i) {
            Result<void> done;
            auto handle = store().start(
                [&]() -> Result<void> {
                    Txn txn = TRY(store().begin({.durability = Durability::durable}));
                    note(txn.id(), writes);
                    if (!writes) return txn.abort();
                    TRY(TRY(store().index("i"))
                            .put(txn, "k" + std::to_string(i), std::to_string(txn.id().value)));
                    TRY(txn.commit());
                    return {};
                },
                i % 2);
            bool ended = false;
            ASSERT_TRUE(sim().step_until([&] { return ended = handle.ready(); }));
            ASSERT_OK(handle.join());
        }
    }
    void note(TxnId id, bool writes) {
        if (writes) newest_ = std::max(newest_, id.value);
        EXPECT_GT(id.value, base_);
        EXPECT_TRUE(used_.insert(id.value).second) << id.value;
    }
    // One in doubt, which keeps its id.
    void prepare(const std::string& gid) {
        sim().on_thread([&] {
            Txn txn = *store().begin();
            note(txn.id(), true);
            ASSERT_OK(store().index("i")->put(txn, gid, "v"));
            ASSERT_OK(txn.prepare(gid));
        });
    }

    std::set<uint64_t> used_;
    uint64_t newest_ = 0;  // of those that have left a record
    uint64_t base_ = 0;    // the newest one at the last open
};

TEST_F(TxnIds, GrowOverACleanClose) {
    for (int round = 0; round < 4; ++round) {
        take_ids(true);
        take_ids(false);
        reopen();
        opened();
    }
    take_ids(true);
}

TEST_F(TxnIds, GrowOverKillsAndPowerCuts) {
    for (const SimCrash mode : threads::kSimCrashes) {
        take_ids(true);
        crash(mode);
        opened();
        take_ids(false);
        take_ids(true);
        // Nothing has been written since the last record: the second crash reads the same log.
        crash(mode);
        opened();
    }
    take_ids(true);
}

// The oldest record that a restart reads may lie behind the checkpoint that knew the ids.
TEST_F(TxnIds, GrowBehindACheckpoint) {
    for (int round = 0; round < 3; ++round) {
        take_ids(true);
        sim().on_thread([&] { ASSERT_OK(store().checkpoint()); });
        crash(SimCrash::keep_all);
        opened();
        take_ids(true);
    }
}

TEST_F(TxnIds, AreNotThoseInDoubt) {
    prepare("a");
    take_ids(true);
    crash(SimCrash::keep_all);
    ASSERT_EQ(store().prepared().size(), 1u);
    opened();
    prepare("b");
    take_ids(true);
    sim().on_thread([&] { ASSERT_OK(store().checkpoint()); });
    reopen();
    ASSERT_EQ(store().prepared().size(), 2u);
    opened();
    take_ids(true);
}

TEST_F(TxnIds, GrowOverARestore) {
    configure = [](Options& options) { archive_options(options); };
    reopen();
    take_ids(true);
    sim().on_thread([&] { ASSERT_OK(store().backup("/backup")); });
    const uint64_t in_backup = newest_;
    take_ids(true);
    close();
    // The newest state, then that of the backup: a transaction behind it is not part of the store.
    const uint64_t all = newest_;
    for (const bool newest_state : {true, false}) {
        const std::string to = newest_state ? "/newest" : "/point";
        RestoreOptions options;
        if (newest_state) options.archive = kArchive;
        const std::vector<std::string> backups{"/backup"};
        ASSERT_OK(sm::restore_on(disk(), backups, to, options));
        open_at(to.c_str());
        newest_ = newest_state ? all : in_backup;
        opened();
        take_ids(true);
        close();
    }
    open();
}

}  // namespace lockstep::txn_ids_test
