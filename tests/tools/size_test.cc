// labels: unit
// size_test.cc - `lockstep size`: its figures hold for a real store, and follow the options.
#include "tools/cli/size/size.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <lockstep/store.h>
#include <lockstep/sync.h>

#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "threads/base/sanitized.h"
#include "threads/base/try.h"

namespace lockstep::cli::size_test {

constexpr uint64_t kMiB = 1ull << 20;

uint64_t row(const Sizes& sizes, const std::string& name) {
    for (const SizeRow& found : sizes.memory)
        if (found.name == name) return found.bytes;
    ADD_FAILURE() << "no row " << name;
    return 0;
}

// Memory of the process that is neither a file's nor shared, in bytes.
uint64_t own_memory() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "RssAnon:") {
            uint64_t kilobytes = 0;
            status >> kilobytes;
            return kilobytes * 1024;
        }
    ADD_FAILURE() << "no RssAnon";
    return 0;
}

TEST(Size, TotalsAreTheRows) {
    const Sizes sizes = sizes_of({}, {});
    uint64_t sum = 0;
    for (const SizeRow& found : sizes.memory) sum += found.bytes;
    EXPECT_EQ(sizes.memory_bytes, sum);
    EXPECT_EQ(row(sizes, "buffer pool"), Options{}.pool_bytes);
    EXPECT_EQ(row(sizes, "log buffer"), 32 * kMiB);
    EXPECT_EQ(row(sizes, "stacks"), 1000 * 64 * 1024u);
    EXPECT_EQ(row(sizes, "versions for snapshots"), 64 * kMiB + 8 * kMiB);
}

TEST(Size, LogFollowsTheRate) {
    Options options{.log_bytes = 1024 * kMiB};
    const Load load{
        .transactions_a_second = 1024, .log_bytes_each = 4096, .redo_bytes_a_second = 128 * kMiB};
    const Sizes sizes = sizes_of(options, load);
    EXPECT_EQ(sizes.log_bytes_a_second, 4.0 * kMiB);
    EXPECT_EQ(sizes.checkpoint_seconds, 64);  // a quarter of the log
    EXPECT_EQ(sizes.redo_bytes, 384 * kMiB);  // and half an interval until it has ended
    EXPECT_EQ(sizes.restart_seconds, 3);
    EXPECT_EQ(sizes.log_bytes_for_a_minute, 960 * kMiB);
    options.log_bytes = sizes.log_bytes_for_a_minute;
    EXPECT_EQ(sizes_of(options, load).checkpoint_seconds, 60);
    options.checkpoint_log_bytes = 100 * kMiB;
    EXPECT_EQ(sizes_of(options, load).redo_bytes, 150 * kMiB);
    EXPECT_EQ(sizes_of(options, {}).checkpoint_seconds, 0) << "nothing writes";
}

class SizeOfStore : public ::testing::Test {
protected:
    void TearDown() override { std::filesystem::remove_all(directory_); }
    static std::string key(uint64_t i) { return std::to_string(10'000'000 + i); }

    const std::string directory_ = make_own_directory("size");
};

// The pool is full, many threads are in transactions.
TEST_F(SizeOfStore, TakesNoMore) {
    constexpr uint64_t kThreads = 400, kLocks = 20, kRecords = 60'000;
    const Options options{.pool_bytes = 32 * kMiB, .log_bytes = 256 * kMiB, .sync = false};
    const uint64_t before = own_memory();
    const Sizes sizes =
        sizes_of(options, {.data_bytes = 128 * kMiB, .threads = kThreads, .locks = kLocks});
    Options as_opened = options;
    as_opened.executors = kThreads;
    auto store = std::move(Store::open(directory_ + "/store", as_opened).value());
    const Index index = store.run([&](Txn& t) { return store.create_index(t, "a"); }).value();
    for (uint64_t i = 0; i < kRecords; i += 1000)
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            for (uint64_t j = i; j < i + 1000; ++j)
                TRY(index.insert(txn, key(j), std::string(1000, 'v')));
            return {};
        }));
    Event end;
    std::atomic<uint64_t> waiting{0};
    std::vector<Handle<void>> handles;
    for (uint64_t i = 0; i < kThreads; ++i)
        handles.push_back(store.spawn([&, i](Txn& txn) -> Result<void> {
            for (uint64_t j = 0; j < kLocks; ++j)
                TRY(index.update(txn, key(i * kLocks + j), std::string(1000, 'w')));
            waiting.fetch_add(1);
            return end.wait();
        }));
    for (int i = 0; i < 60'000 && waiting.load() < kThreads; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(waiting.load(), kThreads);
    const uint64_t taken = own_memory() - before;
    end.set();
    for (auto& handle : handles) ASSERT_OK(handle.join());
    // The sanitizer's own memory counts there.
    if (!kAddressSanitizer) {
        EXPECT_LE(taken, sizes.memory_bytes);
    }
    EXPECT_GE(taken, options.pool_bytes) << "the test does not fill the pool";
}

}  // namespace lockstep::cli::size_test
