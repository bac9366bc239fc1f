// labels: unit
// log_test.cc - append, flush, group commit, ring, segments, reading back.
#include "txn/log/log.h"

#include <atomic>
#include <map>

#include "tests/txn/log/log_test_util.h"
#include "threads/thread/thread.h"

namespace lockstep::txn::test::log_test {

TEST(Log, RecordsComeBackFromRingAndFile) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()));
    bench.create();
    std::vector<Lsn> at;
    const uint32_t sizes[] = {8, 9, 15, 16, 68, 100, 241, 4096, 8200, 100000, kLogRecordMax - 32};
    bench.run([&] {
        EXPECT_EQ(bench.log->tail().value, 4096u);
        for (uint32_t i = 0; i < std::size(sizes); ++i)
            at.push_back(append(*bench.log, 1, i, sizes[i]));
        std::string buffer;
        for (uint32_t i = 0; i < at.size(); ++i) {
            auto record = bench.log->read(at[i], buffer);
            ASSERT_TRUE(record) << record.error().text();
            EXPECT_EQ(check_record(*record), i);
        }
        ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        EXPECT_EQ(bench.log->durable(), bench.log->tail());
        // Push them out of the ring.
        for (uint64_t n = 0; bench.log->tail() - at[0] < 3u << 20; ++n)
            append(*bench.log, 2, n, 50000);
        ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        for (uint32_t i = 0; i < at.size(); ++i) {
            auto record = bench.log->read(at[i], buffer);
            ASSERT_TRUE(record) << record.error().text();
            EXPECT_EQ(check_record(*record), i);
        }
        EXPECT_EQ(bench.log->read(Lsn{at[3].value + 8}, buffer).error().code,
                  ErrorCode::corrupt_log);
        EXPECT_EQ(bench.log->read(bench.log->tail(), buffer).error().code, ErrorCode::corrupt_log);
        EXPECT_EQ(bench.log->read(Lsn{UINT64_MAX - 7}, buffer).error().code,
                  ErrorCode::corrupt_log);
        EXPECT_EQ(bench.log->read(Lsn{8}, buffer).error().code, ErrorCode::corrupt_log);
    });
    std::string buffer;  // and from a foreign kernel thread
    auto record = bench.log->read(at[5], buffer);
    ASSERT_TRUE(record);
    EXPECT_EQ(check_record(*record), 5u);
}

TEST(Log, DiscardedSpaceBecomesPadding) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()));
    bench.create();
    bench.run([&] {
        append(*bench.log, 1, 0, 40);
        bench.log->discard(bench.log->reserve(100));
        append(*bench.log, 1, 1, 40);
    });
    bench.stop();
    LogReader reader(*bench.disk, bench.options);
    std::vector<uint16_t> kinds;
    LogRecordView record;
    while (*reader.next(record)) kinds.push_back(record.header->kind);
    EXPECT_EQ(kinds, (std::vector<uint16_t>{kTestKind, static_cast<uint16_t>(TxnLogKind::pad),
                                            kTestKind}));
}

// Every record of every worker is there, in its worker's order, without a gap between records.
TEST(Log, ParallelAppendLosesNothing) {
    const uint64_t seed = seed_of_run(20261121);
    for (uint32_t workers = 2; workers <= 4; workers += 2) {
        TempDirectory directory;
        LogOptions options = small_options(directory.path());
        options.capacity_bytes = 64 << 20;
        Bench bench(options, workers);
        bench.create();
        constexpr uint64_t kEach = 5000;
        const uint32_t threads = workers * 2;
        std::vector<std::unique_ptr<threads::Completion>> done;
        for (uint32_t t = 0; t < threads; ++t) {
            done.push_back(std::make_unique<threads::Completion>());
            ASSERT_TRUE(bench.runtime->spawn(t, "append", [&, t] {
                Rng rng(seed + t);
                for (uint64_t n = 0; n < kEach; ++n) {
                    append(*bench.log, t + 1, n,
                           static_cast<uint32_t>(8 + rng.below(rng.chance(0.01) ? 5000 : 200)));
                    if (rng.chance(0.02)) threads::yield();
                }
                done[t]->set();
            }));
        }
        for (auto& d : done) d->wait();
        EXPECT_EQ(bench.log->stats().records, threads * kEach);
        const Lsn tail = bench.log->tail();
        bench.stop();
        EXPECT_EQ(*recorded_durable_end(*bench.disk, directory.path()), tail);
        LogReader reader(*bench.disk, options);
        std::map<uint64_t, uint64_t> next;
        LogRecordView record;
        while (*reader.next(record)) EXPECT_EQ(check_record(record), next[record.header->txn]++);
        EXPECT_EQ(reader.position(), tail);
        for (uint32_t t = 0; t < threads; ++t) EXPECT_EQ(next[t + 1], kEach);
    }
}

TEST(Log, FullRingMakesAppendersWaitAndLosesNothing) {
    TempDirectory directory;
    LogOptions options = small_options(directory.path());
    options.capacity_bytes = 32 << 20;
    Bench bench(options);
    bench.create();
    const uint64_t count = 200;
    bench.run([&] {
        for (uint64_t n = 0; n < count; ++n) append(*bench.log, 1, n, 100000);
    });
    EXPECT_GT(bench.log->stats().ring_full_waits, 0u);
    bench.stop();
    LogReader reader(*bench.disk, options);
    LogRecordView record;
    uint64_t n = 0;
    while (*reader.next(record)) EXPECT_EQ(check_record(record), n++);
    EXPECT_EQ(n, count);
}

TEST(Log, SegmentsAreRecycledAndTheLogStaysBounded) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()));
    bench.create();
    uint64_t n = 0;
    Lsn kept{};
    uint64_t first_kept = 0;
    bench.run([&] {
        while (bench.log->tail().value < 40u << 20) {
            kept = append(*bench.log, 1, n++, 3000);
            first_kept = n - 1;
            if (n % 500 != 0) continue;
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            bench.log->truncate_before(kept);
            EXPECT_EQ(bench.log->start(), kept);
            threads::sleep_until(threads::now() + kMillisecond);
        }
        first_kept = n;
        kept = append(*bench.log, 1, n++, 3000);
        ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        bench.log->truncate_before(kept);
        for (int i = 0; i < 1000; ++i) append(*bench.log, 1, n++, 700);
        EXPECT_LT(bench.log->used_bytes(), 2u << 20);
    });
    bench.stop();
    size_t files = 0;
    const auto names = bench.disk->list(directory.path());
    ASSERT_TRUE(names);
    for (const std::string& name : *names) files += name.starts_with("log.0");
    EXPECT_LE(files, 9u);
    ASSERT_TRUE(bench.reopen(kept));
    LogReader reader(*bench.disk, bench.options);
    reader.seek(kept);
    LogRecordView record;
    uint64_t expected = first_kept;
    while (*reader.next(record)) EXPECT_EQ(check_record(record), expected++);
    EXPECT_EQ(expected, n);
    EXPECT_LE(bench.log->start(), kept);
}

TEST(Log, LazyRecordsBecomeDurableWithinTheInterval) {
    TempDirectory directory;
    LogOptions options = small_options(directory.path());
    options.lazy_flush_interval = 5 * kMillisecond;
    Bench bench(options);
    bench.create();
    bench.run([&] {
        for (int i = 0; i < 3; ++i) {
            append(*bench.log, 1, i, 100);
            const Lsn end = bench.log->tail();
            for (int wait = 0; wait < 2000 && bench.log->durable() < end; ++wait)
                threads::sleep_until(threads::now() + kMillisecond);
            EXPECT_EQ(bench.log->durable(), end);
        }
    });
    EXPECT_EQ(bench.log->stats().durable_waits, 0u);
}

TEST(Log, RequestedFlushDoesNotWaitForTheInterval) {
    TempDirectory directory;
    LogOptions options = small_options(directory.path());
    options.lazy_flush_interval = 1000 * kSecond;
    Bench bench(options);
    bench.create();
    bench.run([&] {
        append(*bench.log, 1, 0, 100);
        threads::sleep_until(threads::now() + 2 * kMillisecond);
        EXPECT_LT(bench.log->durable(), bench.log->tail());
        bench.log->request_flush();
        for (int wait = 0; wait < 5000 && bench.log->durable() < bench.log->tail(); ++wait)
            threads::sleep_until(threads::now() + kMillisecond);
        EXPECT_EQ(bench.log->durable(), bench.log->tail());
    });
}

TEST(Log, WaitDurableHonoursItsDeadline) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()));
    bench.create();
    bench.run([&] {
        append(*bench.log, 1, 0, 100);
        const auto late = bench.log->wait_durable(bench.log->tail(), threads::now() - 1);
        ASSERT_FALSE(late);
        EXPECT_EQ(late.error().code, ErrorCode::timeout);
        EXPECT_TRUE(bench.log->wait_durable(bench.log->tail(), threads::now() + 60 * kSecond));
        EXPECT_EQ(bench.log->wait_durable(bench.log->tail() + 8).error().code,
                  ErrorCode::bad_argument);
    });
}

// 64 committers share syncs: far fewer than commits.
TEST(Log, CommitsAreGrouped) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()), 2);
    bench.create();
    constexpr uint32_t kThreads = 64, kEach = 30;
    std::atomic<uint32_t> left{kThreads};
    threads::Completion done;
    for (uint32_t t = 0; t < kThreads; ++t)
        ASSERT_TRUE(bench.runtime->spawn(t, "commit", [&, t] {
            for (uint32_t n = 0; n < kEach; ++n) {
                const Lsn lsn = append(*bench.log, t + 1, n, 100);
                EXPECT_TRUE(bench.log->wait_durable(lsn + 136));
                EXPECT_GE(bench.log->durable(), lsn + 136);
            }
            if (left.fetch_sub(1) == 1) done.set();
        }));
    done.wait();
    EXPECT_LT(bench.log->stats().syncs, kThreads * kEach / 4);
    std::printf("%u commits, %llu syncs\n", kThreads * kEach,
                static_cast<unsigned long long>(bench.log->stats().syncs));
}

TEST(Log, GoesOnAfterReopening) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()), 2);
    bench.create();
    uint64_t n = 0;
    for (int round = 0; round < 4; ++round) {
        bench.run(
            [&] {
                for (int i = 0; i < 700; ++i) append(*bench.log, 1, n++, 300);
            },
            1);
        const Lsn tail = bench.log->tail();
        ASSERT_TRUE(bench.reopen());
        EXPECT_EQ(bench.log->tail(), tail);
        EXPECT_EQ(bench.log->durable(), tail);
    }
    bench.stop();
    LogReader reader(*bench.disk, bench.options);
    LogRecordView record;
    uint64_t expected = 0;
    while (*reader.next(record)) EXPECT_EQ(check_record(record), expected++);
    EXPECT_EQ(expected, n);
}

TEST(Log, RefusesOptionsOutOfRange) {
    TempDirectory directory;
    Bench bench(small_options(directory.path()));
    const auto code = [&](auto change) {
        LogOptions options = bench.options;
        change(options);
        const auto made = Log::create(*bench.runtime, options);
        return made ? ErrorCode::none : made.error().code;
    };
    EXPECT_EQ(code([](LogOptions& o) { o.segment_bytes = 1000000; }), ErrorCode::bad_option);
    EXPECT_EQ(code([](LogOptions& o) { o.capacity_bytes = 3 << 20; }), ErrorCode::bad_option);
    EXPECT_EQ(code([](LogOptions& o) { o.ring_bytes = 3 << 19; }), ErrorCode::bad_option);
    EXPECT_EQ(code([](LogOptions& o) { o.ring_bytes = 4 << 20; }), ErrorCode::bad_option);
    EXPECT_EQ(code([](LogOptions&) {}), ErrorCode::none);
    EXPECT_EQ(code([](LogOptions&) {}), ErrorCode::already_exists);
    LogOptions other = bench.options;
    other.segment_bytes = 512 << 10;
    EXPECT_EQ(Log::open(*bench.runtime, other, Lsn{4096}).error().code, ErrorCode::bad_option);
}

}  // namespace lockstep::txn::test::log_test
