// labels: unit
// metrics_test.cc - statistics as Prometheus text: nothing is missing, and the text is exact.
#include "sm/observe/metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep::metrics_test {

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

std::vector<StageHistogram*> histograms_of(StoreStats& s) {
    std::vector<StageHistogram*> all = {&s.io.depth};
    for (StageStats* stage : {&s.admission_stage, &s.lock_stage, &s.io.stage})
        for (StageHistogram* histogram : {&stage->length, &stage->wait, &stage->batch})
            all.push_back(histogram);
    return all;
}

TEST(MetricsTest, EveryValueIsThere) {
    StoreStats stats;
    const StepsStats none;
    const std::string before = sm::metrics_text(stats, none, {});
    auto* bytes = reinterpret_cast<std::byte*>(&stats);
    // Of a histogram the buckets are no plain number, and are tried below. The samples say how many
    // values there are: `_count` and the bucket +Inf are the sum of the buckets, so the count
    // itself is not printed.
    std::set<const std::byte*> buckets, unprinted;
    for (const StageHistogram* of : histograms_of(stats)) {
        const auto* const begin = reinterpret_cast<const std::byte*>(&of->buckets);
        for (size_t at = 0; at < sizeof(std::vector<uint64_t>); at += sizeof(uint64_t))
            buckets.insert(begin + at);
        unprinted.insert(reinterpret_cast<const std::byte*>(&of->count));
    }
    static_assert(offsetof(StoreStats, io_backend) % sizeof(uint64_t) == 0);
    for (size_t at = 0; at < offsetof(StoreStats, io_backend); at += sizeof(uint64_t)) {
        if (buckets.contains(bytes + at)) continue;
        const uint64_t value = 987'654'321, zero = 0;
        std::memcpy(bytes + at, &value, sizeof value);
        EXPECT_EQ(sm::metrics_text(stats, none, {}) == before, unprinted.contains(bytes + at))
            << "byte " << at;
        std::memcpy(bytes + at, &zero, sizeof zero);
    }
    EXPECT_EQ(sm::metrics_text(stats, none, {}), before);
    for (StageHistogram* of : histograms_of(stats))
        for (size_t at = 0; at < StageBuckets::kCount; ++at) {
            of->buckets.assign(at + 1, 0);
            EXPECT_EQ(sm::metrics_text(stats, none, {}), before);
            of->buckets[at] = 1;
            EXPECT_NE(sm::metrics_text(stats, none, {}), before) << "bucket " << at;
            of->buckets.clear();
        }
    stats.io_backend = "x";
    const std::string with_backend = sm::metrics_text(stats, none, {});
    EXPECT_NE(with_backend, before);
    stats.log_durability = "y";
    EXPECT_NE(sm::metrics_text(stats, none, {}), with_backend);
}

template <class S>
void each_word_is_printed(StepsStats& steps, S& of, size_t from) {
    const std::string before = sm::metrics_text({}, steps, {});
    auto* bytes = reinterpret_cast<std::byte*>(&of);
    for (size_t at = from; at < sizeof(S); at += sizeof(uint64_t)) {
        uint64_t old, value = 987'654'321;
        std::memcpy(&old, bytes + at, sizeof old);
        std::memcpy(bytes + at, &value, sizeof value);
        EXPECT_NE(sm::metrics_text({}, steps, {}), before) << "byte " << at;
        std::memcpy(bytes + at, &old, sizeof old);
    }
}

TEST(MetricsTest, EveryValueOfTeamsIsThere) {
    StepsStats steps;
    steps.teams.resize(1);
    steps.points.resize(1);
    steps.tuner.resize(1);
    each_word_is_printed(steps, steps.teams[0], sizeof(std::string));
    each_word_is_printed(steps, steps.points[0], sizeof(std::string));
    each_word_is_printed(steps, steps.tuner[0], sizeof(uint64_t));
    const std::string before = sm::metrics_text({}, steps, {});
    steps.tuner[0].mode = StepsMode::prefetch;
    EXPECT_NE(sm::metrics_text({}, steps, {}), before);
    steps.tuner[0] = {.mode = StepsMode::on, .team_max = 8};
    EXPECT_NE(sm::metrics_text({}, steps, {}), before);
}

TEST(MetricsTest, EveryValueOfReportsIsThere) {
    ReportStats reports;
    const std::string before = sm::metrics_text({}, {}, reports);
    auto* bytes = reinterpret_cast<std::byte*>(&reports);
    std::set<std::string> texts = {before};
    for (size_t at = 0; at < offsetof(ReportStats, open); at += sizeof(uint64_t)) {
        const uint64_t value = 987'654'321, zero = 0;
        std::memcpy(bytes + at, &value, sizeof value);
        EXPECT_TRUE(texts.insert(sm::metrics_text({}, {}, reports)).second) << "byte " << at;
        std::memcpy(bytes + at, &zero, sizeof zero);
    }
    reports.busy_nanos = 1'250'000'000;
    EXPECT_TRUE(
        has_line(sm::metrics_text({}, {}, reports), "lockstep_report_busy_seconds_total 1.25"));
}

TEST(MetricsTest, NumbersAndUnits) {
    StoreStats stats;
    stats.commits = UINT64_MAX;
    stats.lock_wait_nanos = 1'500'000'000;
    stats.waits[0].nanos = 7;
    stats.memory_log = 32 << 20;
    const std::string text = sm::metrics_text(stats, {}, {});
    EXPECT_TRUE(
        has_line(text, "lockstep_transactions_total{outcome=\"committed\"} 18446744073709551615"));
    EXPECT_TRUE(has_line(text, "lockstep_lock_wait_seconds_total 1.5"));
    EXPECT_TRUE(has_line(text, "lockstep_wait_seconds_total{cause=\"lock\"} 0.000000007"));
    EXPECT_TRUE(has_line(text, "lockstep_memory_bytes{part=\"log\"} 33554432"));
    EXPECT_TRUE(has_line(text, "# TYPE lockstep_memory_bytes gauge"));
}

// A value on a border belongs below it, the next one above.
TEST(MetricsTest, BucketsCountExactly) {
    StoreStats stats;
    for (const uint64_t nanos : {1023u, 1024u, 2047u}) stats.lock_stage.wait.record(nanos);
    stats.lock_stage.wait.record(100 * kSecond);
    stats.lock_stage.length.record(0);
    stats.lock_stage.length.record(1);
    stats.lock_stage.length.record(2);
    const std::string text = sm::metrics_text(stats, {}, {});
    const auto bucket = [](const char* name, const char* le, int count) {
        return std::string(name) + R"(_bucket{stage="lock",le=")" + le + "\"} " +
               std::to_string(count);
    };
    const char* wait = "lockstep_stage_wait_seconds";
    EXPECT_TRUE(has_line(text, bucket(wait, "0.000001023", 1)));
    EXPECT_TRUE(has_line(text, bucket(wait, "0.000002047", 3)));
    EXPECT_TRUE(has_line(text, bucket(wait, "17.179869183", 3)));
    EXPECT_TRUE(has_line(text, bucket(wait, "+Inf", 4)));
    EXPECT_TRUE(has_line(text, std::string(wait) + "_sum{stage=\"lock\"} 100.000004094"));
    EXPECT_TRUE(has_line(text, std::string(wait) + "_count{stage=\"lock\"} 4"));
    EXPECT_TRUE(has_line(text, std::string(wait) + "_max{stage=\"lock\"} 100"));
    const char* length = "lockstep_stage_queue_length";
    EXPECT_TRUE(has_line(text, bucket(length, "0", 1)));
    EXPECT_TRUE(has_line(text, bucket(length, "1", 2)));
    EXPECT_TRUE(has_line(text, bucket(length, "3", 3)));
}

TEST(MetricsTest, LabelsAreEscaped) {
    EXPECT_EQ(sm::escaped_label("plain"), "plain");
    EXPECT_EQ(sm::escaped_label("a\"b\\c"), "a\\\"b\\\\c");
    EXPECT_EQ(sm::escaped_label("line\nend"), "line\\\\x0aend");
    EXPECT_EQ(sm::escaped_label("caf\xc3\xa9"), "caf\xc3\xa9");
    EXPECT_EQ(sm::escaped_label("caf\xe9"), "caf\\\\xe9");                  // Latin-1
    EXPECT_EQ(sm::escaped_label("\xed\xa0\x80"), "\\\\xed\\\\xa0\\\\x80");  // a surrogate
    EXPECT_EQ(sm::escaped_label("\xf0\x9f\x94\x92"), "\xf0\x9f\x94\x92");
    EXPECT_EQ(sm::escaped_label("\xc3"), "\\\\xc3");  // cut off
}

// The file is read by metrics_test.py with the official client.
TEST(MetricsTest, AWholeText) {
    StoreStats stats;
    stats.commits = 42;
    stats.io_backend = "pool";
    stats.lock_stage.wait.record(5'000'000);
    StepsStats steps;
    steps.teams.push_back({.operation = "fetch (q\"uo\\te \xe9)", .teams = 7, .strays = {}});
    steps.points.push_back({.name = "leaf", .taken = 3});
    steps.tuner.push_back({.mode = StepsMode::on, .team_max = 16, .windows = 1});
    const std::string text = sm::metrics_text(stats, steps, {});
    EXPECT_TRUE(
        has_line(text, "lockstep_ctx_point_passes_total{point=\"leaf\",result=\"taken\"} 3"));
    EXPECT_EQ(text.back(), '\n');
    if (const char* file = std::getenv("LOCKSTEP_METRICS_FILE")) std::ofstream(file) << text;
}

Result<Store> open_small(const std::string& directory) {
    Options options;
    options.pool_bytes = 8 << 20;
    options.log_bytes = 64 << 20;
    options.log_segment_bytes = 4 << 20;
    options.log_ring_bytes = 4 << 20;
    options.steps = steps_of_run();
    return Store::open(directory, options);
}

TEST(MetricsTest, OfAStore) {
    const std::string directory = make_own_directory("metrics");
    auto store = open_small(directory);
    ASSERT_OK(store);
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store->create_index(txn, "i"));
        return index.put(txn, "k", "v");
    }));
    const std::string text = store->metrics();
    const std::string commits = std::to_string(store->stats().commits);
    EXPECT_TRUE(has_line(text, "lockstep_transactions_total{outcome=\"committed\"} " + commits));
    EXPECT_TRUE(has_line(text, "lockstep_log_capacity_bytes 67108864"));
    ASSERT_OK(store->close());
    EXPECT_EQ(store->metrics(), "");
    std::filesystem::remove_all(directory);
}

// An application compares the counters of several moments; its thread has 64 KB.
TEST(MetricsTest, CountersFitOnTheStackOfAUserThread) {
    const std::string directory = make_own_directory("metrics");
    auto store = open_small(directory);
    ASSERT_OK(store);
    Handle<uint64_t> growth = store->start([&]() -> Result<uint64_t> {
        StoreStats at[8];
        for (StoreStats& now : at) {
            TRY(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "i" + std::to_string(&now - at)));
                return {};
            }));
            now = store->stats();
        }
        return at[7].commits - at[0].commits;
    });
    const Result<uint64_t> grown = growth.join();
    ASSERT_OK(grown);
    EXPECT_EQ(*grown, 7u);
    ASSERT_OK(store->close());
    std::filesystem::remove_all(directory);
}

// A wait for a lock is counted under its cause, and while it lasts as a waiter.
TEST(MetricsTest, WaitsByCause) {
    const std::string directory = make_own_directory("metrics");
    auto store = open_small(directory);
    ASSERT_OK(store);
    Index index;
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        index = TRY(store->create_index(txn, "i"));
        return index.put(txn, "k", "v");
    }));
    const WaitStats before = store->stats().waits[0];
    Handle<void> second;
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(index.put(txn, "k", "1"));
        second = store->spawn([&](Txn& other) { return index.put(other, "k", "2"); });
        while (store->stats().waits[0].now == 0) sleep_for(kMillisecond);
        sleep_for(5 * kMillisecond);
        return {};
    }));
    ASSERT_OK(second.join());
    const WaitStats after = store->stats().waits[0];
    EXPECT_EQ(std::string(kWaitCauseNames[0]), "lock");
    EXPECT_EQ(after.count, before.count + 1);
    EXPECT_GE(after.nanos, before.nanos + 5 * kMillisecond);
    EXPECT_EQ(after.now, 0u);
    ASSERT_OK(store->close());
    std::filesystem::remove_all(directory);
}

}  // namespace lockstep::metrics_test
