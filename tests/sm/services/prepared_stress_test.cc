// labels: unit
// prepared_stress_test.cc - real kernel threads: transactions are prepared on two workers and ended
// by foreign threads and by user threads, while others look at them, read snapshots and checkpoint.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/sm/store_crash_util.h"

namespace lockstep::prepared_stress_test {

constexpr int kWriters = 4, kRounds = 60, kCounters = 3;

class PreparedStress : public StoreCrash {
protected:
    // Gids that wait for their second phase.
    void hand_over(std::string gid) {
        const std::lock_guard guard(mutex_);
        waiting_.push_back(std::move(gid));
    }
    std::string take() {
        const std::lock_guard guard(mutex_);
        if (waiting_.empty()) return {};
        std::string gid = std::move(waiting_.back());
        waiting_.pop_back();
        return gid;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> waiting_;
};

TEST_F(PreparedStress, EachIsEndedOnce) {
    Options options = small_options(2);
    options.sync = false;
    Store store = open("db", options);
    make(store, "i", "h");
    const Index index = *store.index("i");
    std::atomic<uint64_t> committed{0}, rolled_back{0}, prepared{0};
    std::atomic<int> writers{kWriters};
    const auto end = [&](const std::string& gid) {
        const bool commits = gid.back() % 3 != 0;
        const auto ended = commits ? store.commit_prepared(gid) : store.rollback_prepared(gid);
        ASSERT_OK(ended);
        EXPECT_TRUE(*ended) << gid;
        ++(commits ? committed : rolled_back);
    };
    const auto all_ended = [&] { return writers == 0 && committed + rolled_back == prepared; };
    std::vector<Handle<void>> handles;
    for (int w = 0; w < kWriters; ++w)
        handles.push_back(store.start(
            [&, w]() -> Result<void> {
                for (int i = 0; i < kRounds; ++i) {
                    const std::string gid = std::to_string(w) + "-" + std::to_string(i);
                    auto done = store.run([&](Txn& txn) -> Result<void> {
                        const std::string key = "counter" + std::to_string(i % kCounters);
                        std::string value = "0";
                        TRY(index.get(txn, key, value, Access::write));
                        TRY(index.put(txn, key, std::to_string(std::stoull(value) + 1)));
                        EXPECT_EQ(TRY(txn.prepare(gid)), Vote::prepared);
                        return {};
                    });
                    if (!done) {
                        --writers;
                        return done;
                    }
                    ++prepared;
                    // Half of them end here, on whatever worker.
                    if (i % 2 == 0) end(gid);
                    else hand_over(gid);
                }
                --writers;
                return {};
            },
            w % 2));
    std::vector<std::thread> foreign;
    for (int i = 0; i < 2; ++i)
        foreign.emplace_back([&] {
            while (!all_ended())
                if (const std::string gid = take(); !gid.empty()) end(gid);
                else std::this_thread::yield();
        });
    foreign.emplace_back([&] {
        while (!all_ended()) {
            for (const PreparedInfo& of : store.prepared()) EXPECT_FALSE(of.gid.empty());
            for (const TransactionInfo& of : store.transactions())
                EXPECT_EQ(of.state == TransactionState::prepared, !of.gid.empty());
            EXPECT_TRUE(store.checkpoint());
            auto read = store.run(
                [&](Txn& txn) -> Result<void> {
                    std::string value;
                    TRY(index.get(txn, "counter0", value));
                    return {};
                },
                {.isolation = Isolation::snapshot});
            EXPECT_TRUE(read) << read.error().text();
        }
    });
    for (auto& thread : foreign) thread.join();
    for (auto& handle : handles) ASSERT_OK(handle.join());
    uint64_t sum = 0;
    for (const auto& [key, value] : index_content(store, "i")) sum += std::stoull(value);
    EXPECT_EQ(sum, committed.load());
    EXPECT_EQ(committed + rolled_back, uint64_t{kWriters} * kRounds);
    EXPECT_TRUE(store.prepared().empty());
    expect_sound(store);
    ASSERT_OK(store.close());
}

}  // namespace lockstep::prepared_stress_test
