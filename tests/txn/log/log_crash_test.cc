// labels: sim
// log_crash_test.cc - power cuts at every I/O event of seeded runs: what was
// acknowledged is there, and there is never a hole.
#include <algorithm>
#include <map>

#include "tests/txn/log/log_sim_util.h"

namespace lockstep::txn::test::log_crash_test {

using threads::SimCrash;
using threads::SimDisk;

// What the world outside the disk knows at some moment.
struct Oracle {
    // LSN -> (txn, number), as appended.
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> records;
    // LSN that some wait_durable() has returned for.
    uint64_t acknowledged = 0;
    // Where a superblock would tell to begin.
    uint64_t start = 4096;
};

// Reads from the oracle's start: records in order, each as appended, none missing up to what was
// acknowledged. The end found.
uint64_t check_log(threads::Disk& disk, const LogOptions& options, const Oracle& oracle,
                   const std::string& context) {
    LogReader reader(disk, options);
    reader.seek(Lsn{oracle.start});
    LogRecordView record;
    auto expected = oracle.records.lower_bound(oracle.start);
    for (;;) {
        const auto more = reader.next(record);
        EXPECT_TRUE(more.has_value()) << context;
        if (!more.has_value() || !*more) break;
        if (expected == oracle.records.end() || expected->first != record.lsn.value) {
            ADD_FAILURE() << context << ": record at " << record.lsn.value
                          << " was never appended there";
            break;
        }
        EXPECT_EQ(record.header->txn, expected->second.first) << context;
        EXPECT_EQ(check_record(record), expected->second.second) << context;
        ++expected;
    }
    EXPECT_GE(reader.position().value, oracle.acknowledged)
        << context << ": acknowledged records are gone";
    return reader.position().value;
}

// One crash: what the disk then holds, and what must be found on it. Images share their pages, so
// keeping many is cheap; they are opened when the run that they were taken from is over, since one
// kernel thread drives one runtime at a time.
struct Crash {
    std::unique_ptr<SimDisk> disk;
    Oracle oracle;
    std::string context;
};

Crash crash_now(const SimDisk& disk, const Oracle& oracle, Rng& rng, std::string context) {
    const SimCrash mode = threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))];
    context += ", crash mode " + std::to_string(static_cast<int>(mode));
    return Crash{disk.image(rng.next(), mode), oracle, std::move(context)};
}

// Opens what a crash has left, checks it, works on, closes, and looks again. With `depth` > 0 there
// is a crash during that, too.
void recover(Crash crash, uint64_t seed, int depth) {
    SimDisk& disk = *crash.disk;
    Oracle& oracle = crash.oracle;
    const std::string& context = crash.context;
    Rng rng(seed);
    std::vector<Crash> next;
    uint64_t until = 1 + rng.below(40);
    if (depth > 0)
        disk.observe([&](const threads::SimEvent&) {
            if (--until == 0)
                next.push_back(crash_now(disk, oracle, rng, context + ", while recovering"));
        });
    {
        SimBench bench(disk, seed, 1);
        const auto opened = bench.open(Lsn{oracle.start});
        ASSERT_TRUE(opened) << context << ": " << opened.error().text();
        const uint64_t end = bench.log->tail().value;
        EXPECT_GE(end, oracle.acknowledged) << context;
        for (auto it = oracle.records.lower_bound(end); it != oracle.records.end();)
            it = oracle.records.erase(it);
        bench.run([&] {
            for (uint64_t n = 0; n < 3; ++n) {
                // Sizes as before the crash: a new record may end where a lost one began.
                const Lsn lsn = append(*bench.log, 77, n + seed,
                                       static_cast<uint32_t>(n == 0 ? 600 : 8 + rng.below(6000)));
                oracle.records[lsn.value] = {77, n + seed};
            }
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail())) << context;
            oracle.acknowledged = bench.log->tail().value;
        });
    }
    disk.observe(nullptr);
    EXPECT_EQ(check_log(disk, sim_options(), oracle, context), oracle.acknowledged) << context;
    EXPECT_EQ(recorded_durable_end(disk, "/store")->value, oracle.acknowledged) << context;
    for (Crash& again : next) recover(std::move(again), rng.next(), depth - 1);
}

// Committers of different sizes on two workers, with truncation as a checkpoint would do it.
void crash_run(uint64_t seed, bool nested) {
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed);
    ASSERT_TRUE(bench.create());
    Oracle oracle;
    Rng crash(seed * 31 + 7);
    std::vector<Crash> crashes;
    disk.observe([&](const threads::SimEvent&) {
        crashes.push_back(crash_now(
            disk, oracle, crash,
            "seed " + std::to_string(seed) + ", event " + std::to_string(crashes.size())));
    });
    const uint32_t threads = 3;
    for (uint32_t t = 0; t < threads; ++t)
        bench.spawn(t, [&, t] {
            Rng rng(seed * 101 + t);
            for (uint64_t n = 0; n < 30; ++n) {
                const uint32_t bytes =
                    n % 3 == 0
                        ? 600
                        : static_cast<uint32_t>(8 + rng.below(rng.chance(0.2) ? 40000 : 3000));
                const Lsn lsn = append(*bench.log, t + 1, n, bytes);
                oracle.records[lsn.value] = {t + 1, n};
                if (rng.chance(0.3)) threads::yield();
                if (rng.chance(0.3)) continue;
                const Lsn end = bench.log->tail();
                ASSERT_TRUE(bench.log->wait_durable(end));
                oracle.acknowledged = std::max(oracle.acknowledged, end.value);
                if (t == 0 && rng.chance(0.3)) {
                    oracle.start = lsn.value;
                    bench.log->truncate_before(lsn);
                }
            }
        });
    bench.finish();
    bench.run([&] { bench.log->stop_flusher(); });
    disk.observe(nullptr);
    EXPECT_EQ(check_log(disk, bench.options, oracle, "at the end"), bench.log->tail().value);
    std::printf("seed %llu: %zu crash points, log of %llu bytes\n",
                static_cast<unsigned long long>(seed), crashes.size(),
                static_cast<unsigned long long>(bench.log->tail().value));
    EXPECT_GT(crashes.size(), 100u);
    for (Crash& c : crashes) {
        recover(std::move(c), crash.next(), nested ? 2 : 0);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(LogCrash, EveryEventKeepsWhatWasAcknowledged) {
    const uint64_t seed = seed_of_run(20261121);
    for (uint64_t i = 0; i < 3; ++i) crash_run(seed + i, false);
}

TEST(LogCrash, CrashesWhileRecoveringAreSurvived) { crash_run(seed_of_run(20261121) + 100, true); }

// Long enough to go round: every segment is an old one under a new name, and the log stands in it
// when the power goes.
TEST(LogCrash, RecycledSegmentsAreFoundAgain) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed);
    ASSERT_TRUE(bench.create());
    Oracle oracle;
    Rng crash(seed), work(seed + 1);
    std::vector<Crash> crashes;
    disk.observe([&](const threads::SimEvent&) {
        if (crash.chance(0.1))
            crashes.push_back(
                crash_now(disk, oracle, crash, "event " + std::to_string(crashes.size())));
    });
    bench.run([&] {
        Lsn keep = bench.log->tail();
        for (uint64_t n = 0; bench.log->tail().value < 4u << 20; ++n) {
            const Lsn lsn = append(*bench.log, 1, n, static_cast<uint32_t>(8 + work.below(20'000)));
            oracle.records[lsn.value] = {1, n};
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            oracle.acknowledged = bench.log->tail().value;
            if (lsn.value - keep.value < 150'000) continue;
            oracle.start = keep.value;
            bench.log->truncate_before(std::exchange(keep, lsn));
        }
        bench.log->stop_flusher();
    });
    disk.observe(nullptr);
    EXPECT_GT(crashes.size(), 50u);
    for (Crash& c : crashes) {
        recover(std::move(c), crash.next(), 0);
        if (testing::Test::HasFailure()) return;
    }
}

// The same run twice gives the same events.
TEST(LogCrash, OneSeedIsOneRun) {
    const uint64_t seed = seed_of_run(20261121);
    uint64_t digests[2];
    for (uint64_t& digest : digests) {
        SimDisk disk({.seed = seed});
        SimBench bench(disk, seed);
        ASSERT_TRUE(bench.create());
        for (uint32_t t = 0; t < 4; ++t)
            bench.spawn(t, [&, t] {
                for (uint64_t n = 0; n < 20; ++n) {
                    append(*bench.log, t, n, 500);
                    ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
                }
            });
        bench.finish();
        bench.run([&] { bench.log->stop_flusher(); });
        digest = disk.event_digest();
    }
    EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace lockstep::txn::test::log_crash_test
