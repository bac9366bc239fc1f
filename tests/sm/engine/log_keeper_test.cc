// labels: unit sim
// log_keeper_test.cc - a full log that a transaction in doubt, or a failing checkpoint, keeps:
// writers wait for a bounded time, learn which it is, and go on when it has ended.
#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sm/api/index_on_sim_store.h"
#include "threads/io/sim_disk.h"

namespace lockstep::log_keeper_test {

constexpr Nanos kBound = 5 * kSecond, kMargin = kSecond;
constexpr int kWriters = 6;

class LogKeeper : public IndexOnSimStore {
protected:
    LogKeeper() : IndexOnSimStore(seed_of_run()) {
        store.options().log_bytes = 4 << 20;
        store.options().pool_bytes = 32 << 20;
    }
    Result<void> put(uint64_t key) {
        return store->run(
            [&](Txn& txn) -> Result<void> {
                return index.put(txn, Key().u64(key), std::string(1000, 'v'));
            },
            {.durability = Durability::lazy});
    }
    // Writers put until each has met an error. The longest call.
    Nanos write_until_refused(std::vector<Error>& errors) {
        errors.assign(kWriters, {});
        Nanos longest = 0;
        std::vector<Handle<void>> writers;
        for (uint64_t w = 0; w < kWriters; ++w)
            writers.push_back(store->start([&, w]() -> Result<void> {
                for (uint64_t n = 0; n < 20'000; ++n) {
                    const Nanos before = now();
                    const auto done = put(w * 1'000 + n % 500);
                    longest = std::max(longest, now() - before);
                    if (done) continue;
                    errors[w] = done.error();
                    break;
                }
                return {};
            }));
        for (auto& writer : writers) store.on_thread([&] { EXPECT_TRUE(writer.join()); });
        return longest;
    }
};

TEST_F(LogKeeper, ATransactionInDoubtIsNamedAndItsEndFreesTheLog) {
    open();
    store.on_thread([&] {
        auto txn = store->begin();
        ASSERT_OK(txn);
        ASSERT_OK(index.put(*txn, "in doubt", "v"));
        ASSERT_OK(txn->prepare("the gid"));
    });
    std::vector<Error> errors;
    EXPECT_LT(write_until_refused(errors), kBound + kMargin);
    for (const Error& error : errors) {
        EXPECT_EQ(error.code, ErrorCode::log_full) << error.text();
        EXPECT_NE(error.text().find("the gid"), std::string::npos) << error.text();
        EXPECT_NE(error.text().find("rollback_prepared"), std::string::npos) << error.text();
    }
    // All have waited together: the next one does not begin to wait anew.
    store.on_thread([&] {
        const Nanos before = now();
        EXPECT_FALSE(put(1));
        EXPECT_LT(now() - before, kSecond);
        EXPECT_TRUE(store->run(
            [&](Txn& txn) -> Result<void> {
                std::string value;
                EXPECT_TRUE(TRY(index.get(txn, Key().u64(1), value)));
                return {};
            },
            {.read_only = true}));
        EXPECT_TRUE(store->commit_prepared("the gid").value_or(false));
        for (uint64_t n = 0; n < 10'000; ++n) ASSERT_OK(put(n % 700));
    });
}

TEST_F(LogKeeper, AFailingCheckpointIsNamedAndItsEndFreesTheLog) {
    open();
    disk.faults().only_paths_ending_with(threads::SimFault::write_error, "/data");
    disk.faults().set_odds(threads::SimFault::write_error, 1);
    std::vector<Error> errors;
    EXPECT_LT(write_until_refused(errors), kBound + kMargin);
    for (const Error& error : errors) {
        EXPECT_EQ(error.code, ErrorCode::log_full) << error.text();
        EXPECT_EQ(error.os, EIO);
        EXPECT_NE(error.text().find("write of page"), std::string::npos) << error.text();
        EXPECT_NE(error.text().find("/store/data"), std::string::npos) << error.text();
    }
    disk.faults().set_odds(threads::SimFault::write_error, 0);
    store.on_thread([&] {
        sleep_for(2 * kSecond);
        for (uint64_t n = 0; n < 10'000; ++n) ASSERT_OK(put(n % 700));
    });
}

}  // namespace lockstep::log_keeper_test
