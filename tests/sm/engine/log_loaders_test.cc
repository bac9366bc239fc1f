// labels: model
// log_loaders_test.cc - loaders on kernel threads fill a log much faster than checkpoints free it.
// None of them meets log_full.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/sm/store_crash_util.h"

namespace lockstep::log_loaders_test {

constexpr uint64_t kRecords = 1000;

std::string row(uint64_t n) { return std::string(1000, static_cast<char>('a' + n % 26)); }

class LogLoaders : public StoreCrash {
protected:
    // Transaction `t` of all loaders has its own range of keys.
    static Result<void> load(Txn& txn, const Index& index, uint64_t t, uint64_t records) {
        for (uint64_t n = t * records; n < (t + 1) * records; ++n)
            TRY(index.insert(txn, Key().u64(n), row(n)));
        return {};
    }
    Options loader_options() {
        Options o = small_options(2);
        o.pool_bytes = 64 << 20;
        o.sync = false;
        o.lock_timeout = 600 * kSecond;
        o.logger = [this](int level, std::string_view text) {
            if (level < 2) lines_ += std::string(text) + "\n";
        };
        return o;
    }
    static Index make_index(Store& store) {
        auto made = store.run([&](Txn& txn) { return store.create_index(txn, "i"); });
        CHECK(made);
        return *made;
    }
    static uint64_t count(Store& store, const Index& index) {
        uint64_t rows = 0;
        const auto read = store.run([&](Txn& txn) -> Result<void> {
            rows = 0;
            for (Cursor c = index.scan(txn); TRY(c.next()); ++rows) {}
            return {};
        });
        EXPECT_TRUE(read) << read.error().text();
        return rows;
    }
    std::string lines_;
};

// 207 transactions of 1,000 records of 1 KB, a log of 64 MB. The loaders begin and commit
// themselves, so nothing repeats a log_full.
TEST_F(LogLoaders, NoneMeetsLogFull) {
    Store store = open("db", loader_options());
    const Index index = make_index(store);
    constexpr uint64_t kLoaders = 9, kEach = 23;
    std::atomic<uint64_t> largest{0};
    std::vector<Handle<void>> loaders;
    for (uint64_t loader = 0; loader < kLoaders; ++loader)
        loaders.push_back(store.start([&, loader]() -> Result<void> {
            for (uint64_t t = 0; t < kEach; ++t) {
                Txn txn = TRY(store.begin());
                TRY(load(txn, index, t * kLoaders + loader, kRecords));
                if (t % 8 == 0)
                    for (const TransactionInfo& info : store.transactions())
                        if (info.id == txn.id())
                            largest = std::max(largest.load(), info.log_bytes + info.undo_bytes);
                TRY(txn.commit());
            }
            return {};
        }));
    for (auto& loader : loaders) {
        const auto done = loader.join();
        EXPECT_TRUE(done) << done.error().text();
    }
    EXPECT_EQ(count(store, index), 207 * kRecords);
    EXPECT_EQ(lines_.find("is ended"), std::string::npos) << lines_;
    EXPECT_EQ(store.stats().aborts, 0u);
    EXPECT_GT(largest.load(), kRecords * 2000);
    EXPECT_LT(largest.load(), store.options().log_bytes / 8);
    std::printf("one transaction needs %llu bytes\n",
                static_cast<unsigned long long>(largest.load()));
    expect_sound(store);
}

// The same through run(), from kernel threads of the application.
TEST_F(LogLoaders, RunFromForeignThreads) {
    Store store = open("db", loader_options());
    const Index index = make_index(store);
    constexpr uint64_t kLoaders = 8, kEach = 4;
    std::atomic<uint64_t> failed{0};
    std::vector<std::thread> loaders;
    for (uint64_t loader = 0; loader < kLoaders; ++loader)
        loaders.emplace_back([&, loader] {
            for (uint64_t t = 0; t < kEach; ++t) {
                const auto done = store.run(
                    [&](Txn& txn) { return load(txn, index, loader * kEach + t, kRecords); });
                if (!done) ++failed;
            }
        });
    for (std::thread& loader : loaders) loader.join();
    EXPECT_EQ(failed.load(), 0u);
    EXPECT_EQ(count(store, index), kLoaders * kEach * kRecords);
    expect_sound(store);
}

// So many loaders at a time that the log cannot hold them: run() repeats what met log_full.
TEST_F(LogLoaders, RunCopesWithMoreThanTheLogHolds) {
    Options options = loader_options();
    options.log_bytes = 16 << 20;
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    Store store = open("db", options);
    const Index index = make_index(store);
    constexpr uint64_t kLoaders = 64, kEach = 2, kFew = 400;
    std::vector<Handle<void>> loaders;
    for (uint64_t loader = 0; loader < kLoaders; ++loader)
        loaders.push_back(store.start([&, loader]() -> Result<void> {
            for (uint64_t t = 0; t < kEach; ++t)
                TRY(store.run([&](Txn& txn) -> Result<void> {
                    for (uint64_t part = 0; part < kFew; part += 10) {
                        TRY(load(txn, index, ((loader * kEach + t) * kFew + part) / 10, 10));
                        yield();
                    }
                    return {};
                }));
            return {};
        }));
    for (auto& loader : loaders) {
        const auto done = loader.join();
        EXPECT_TRUE(done) << done.error().text();
    }
    EXPECT_EQ(count(store, index), kLoaders * kEach * kFew);
    std::printf("%llu repetitions\n",
                static_cast<unsigned long long>(store.stats().deadlock_retries));
    expect_sound(store);
}

}  // namespace lockstep::log_loaders_test
