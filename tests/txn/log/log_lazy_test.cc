// labels: sim
// log_lazy_test.cc - lazy commits: how few submissions they take, and how long they stay undurable.
#include "tests/txn/log/log_sim_util.h"
#include "txn/log/durable_end_file.h"

namespace lockstep::txn::test::log_lazy_test {

using threads::SimDisk;
using threads::SimEvent;

// Segments that are whole from the begin, so that nothing but the log's own writes goes to them.
LogOptions lazy_options(Nanos interval) {
    return LogOptions{.directory = "/store",
                      .segment_bytes = 8 << 20,
                      .first_bytes = 8 << 20,
                      .capacity_bytes = 64 << 20,
                      .ring_bytes = 1 << 20,
                      .lazy_flush_interval = interval};
}

// Longer than a write of the simulated disk takes, and the step of loops that look.
constexpr Nanos kWriteMax = 2 * kMillisecond, kStep = 50 * kMicrosecond;

// Parks until everything up to `end` is durable. How long that took.
Nanos time_until_durable(SimBench& bench, Lsn end) {
    const Nanos begin = bench.clock.now();
    while (bench.log->durable() < end && bench.clock.now() - begin < 100 * kSecond)
        threads::sleep_until(bench.clock.now() + kStep);
    return bench.clock.now() - begin;
}

// LI-6. Half of the submissions were marks when each flush had its own.
TEST(LogLazy, ASubmissionTakesAtLeast64KBAndAMillisecond) {
    SimDisk disk({.seed = 1});
    SimBench bench(disk, 1, 1);
    bench.options = lazy_options(10 * kMillisecond);
    ASSERT_TRUE(bench.create());
    uint64_t flushes = 0, marks = 0, bytes = 0;
    const Lsn begin = bench.log->tail();
    disk.observe([&](const SimEvent& event) {
        if (event.kind != SimEvent::submitted || event.io != threads::IoKind::write) return;
        if (event.path.find("/log.0") != std::string_view::npos) ++flushes;
        if (event.path.find("/log.mark") != std::string_view::npos) ++marks;
    });
    const Nanos started = bench.clock.now();
    bench.run([&] {
        for (uint64_t n = 0; n < 4000; ++n) {  // 12 MB/s
            append(*bench.log, 1, n, 3000);
            threads::sleep_until(started + static_cast<Nanos>(n) * 250 * kMicrosecond);
        }
        bytes = bench.log->tail() - begin;
    });
    disk.observe(nullptr);
    const Nanos took = bench.clock.now() - started;
    std::printf("%llu KB of log in %lld ms: %llu flushes, %llu marks\n",
                static_cast<unsigned long long>(bytes >> 10),
                static_cast<long long>(took / kMillisecond),
                static_cast<unsigned long long>(flushes), static_cast<unsigned long long>(marks));
    EXPECT_LE(flushes + marks, bytes / (64 << 10));
    EXPECT_LE(flushes + marks, static_cast<uint64_t>(took / kMillisecond));
    // One for each interval, and one more where a segment ends.
    EXPECT_LE(flushes, static_cast<uint64_t>(took / bench.options.lazy_flush_interval) + 3);
    EXPECT_GE(flushes, static_cast<uint64_t>(took / bench.options.lazy_flush_interval / 2));
    EXPECT_LE(marks, flushes / 8);
    EXPECT_GE(marks, static_cast<uint64_t>(took / kLazyMarkInterval / 2));
}

// The promise of Options::lazy_flush_interval, for the first commit after a rest and for commits
// that come while the flusher collects.
TEST(LogLazy, NoCommitWaitsLongerThanTheInterval) {
    for (const Nanos interval :
         {50 * kMicrosecond, kMillisecond, 10 * kMillisecond, 200 * kMillisecond, kSecond}) {
        const uint64_t seed = seed_of_run(20261123);
        SimDisk disk({.seed = seed});
        SimBench bench(disk, seed, 1);
        bench.options = lazy_options(interval);
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            Rng rng(seed);
            for (uint64_t n = 0; n < 20; ++n) {
                append(*bench.log, 1, 2 * n, 100);
                const Nanos pause = static_cast<Nanos>(rng.below(static_cast<uint64_t>(interval)));
                threads::sleep_until(bench.clock.now() + pause);
                append(*bench.log, 1, 2 * n + 1, 100);
                // A flush may have begun before the commit, and the commit's own follows it.
                EXPECT_LE(time_until_durable(bench, bench.log->tail()),
                          interval + 2 * kWriteMax + kStep)
                    << "interval " << interval << ", round " << n;
            }
        });
        EXPECT_EQ(bench.log->stats().durable_waits, 0u);
    }
}

TEST(LogLazy, ADurableWaiterEndsTheCollecting) {
    const uint64_t seed = seed_of_run(20261123);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed, 1);
    bench.options = lazy_options(10 * kSecond);
    ASSERT_TRUE(bench.create());
    bench.run([&] {
        for (uint64_t n = 0; n < 20; ++n) {
            append(*bench.log, 1, 2 * n, 100);
            threads::sleep_until(bench.clock.now() + 3 * kMillisecond);
            EXPECT_LT(bench.log->durable(), bench.log->tail());  // it collects
            append(*bench.log, 2, 2 * n + 1, 100);
            const Nanos begin = bench.clock.now();
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            EXPECT_LE(bench.clock.now() - begin, 2 * kWriteMax) << "round " << n;
        }
    });
}

}  // namespace lockstep::txn::test::log_lazy_test
