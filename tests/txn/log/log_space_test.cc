// labels: unit
// log_space_test.cc - LOG-3: space for undo is promised before it is needed, and a
// rollback always finds it.
#include <algorithm>

#include "tests/txn/log/log_test_util.h"
#include "threads/thread/thread.h"

namespace lockstep::txn::test::log_space_test {

LogOptions tiny(const std::string& directory) {
    return LogOptions{.directory = directory,
                      .segment_bytes = 1 << 20,
                      .capacity_bytes = 4 << 20,
                      .ring_bytes = 1 << 20};
}

struct Writer {
    UndoCredit credit;
    std::vector<uint32_t> undo;  // sizes of the compensation records still owed
    uint64_t number = 0;
};

TEST(LogSpace, PromisesNeverExceedTheCapacityAndRollbackAlwaysFits) {
    const uint64_t seed = seed_of_run(20261121);
    for (uint64_t round = 0; round < 4; ++round) {
        TempDirectory directory;
        Bench bench(tiny(directory.path()));
        bench.create();
        bench.run([&] {
            Log& log = *bench.log;
            Rng rng(seed + round);
            std::vector<Writer> writers(8);
            uint64_t refused = 0;
            // Forward until nobody gets anything any more: then the log is full of records and
            // promises.
            for (uint64_t n = 0; refused < 100 && n < 100000; ++n) {
                Writer& w = writers[rng.below(writers.size())];
                const uint32_t forward = log_align(static_cast<uint32_t>(rng.between(40, 4000)));
                const uint32_t undo = log_align(static_cast<uint32_t>(rng.between(40, 6000)));
                const auto promised = log.reserve_undo(w.credit, forward, undo);
                if (!promised) {
                    ASSERT_EQ(promised.error().code, ErrorCode::log_full);
                    ++refused;
                    continue;
                }
                append(log, 1 + (&w - writers.data()), w.number++, forward - 32);
                w.undo.push_back(undo);
                ASSERT_LE(log.used_bytes() + log.undo_reserved_bytes(), log.capacity_bytes());
            }
            ASSERT_EQ(refused, 100u);
            // Not before it must: most of the space is taken.
            EXPECT_GT(log.used_bytes() + log.undo_reserved_bytes(), log.capacity_bytes() * 3 / 4);
            for (Writer& w : writers) {
                while (!w.undo.empty()) {
                    log.use_undo(w.credit, w.undo.back());
                    append(log, 100, w.number++, w.undo.back() - 32);
                    w.undo.pop_back();
                    ASSERT_LE(log.used_bytes() + log.undo_reserved_bytes(), log.capacity_bytes());
                }
                log.release_undo(w.credit);
            }
            EXPECT_EQ(log.undo_reserved_bytes(), 0u);
            ASSERT_TRUE(log.wait_durable(log.tail()));
            EXPECT_FALSE(log.failed());
        });
    }
}

TEST(LogSpace, TruncationMakesRoomAgain) {
    TempDirectory directory;
    Bench bench(tiny(directory.path()));
    bench.create();
    bench.run([&] {
        Log& log = *bench.log;
        for (int turn = 0; turn < 5; ++turn) {
            UndoCredit credit;
            uint64_t n = 0;
            while (log.reserve_undo(credit, 10032, 64)) append(log, 1, n++, 10000);
            EXPECT_GT(n, 100u) << "turn " << turn;
            log.release_undo(credit);
            ASSERT_TRUE(log.wait_durable(log.tail()));
            log.truncate_before(log.tail());
        }
    });
}

TEST(LogSpace, ARefusedPromiseTakesNothing) {
    TempDirectory directory;
    Bench bench(tiny(directory.path()));
    bench.create();
    bench.run([&] {
        UndoCredit credit;
        ASSERT_TRUE(bench.log->reserve_undo(credit, 100, 1000));
        const uint64_t before = bench.log->undo_reserved_bytes(), mine = credit.bytes;
        EXPECT_EQ(bench.log->reserve_undo(credit, 100, 5 << 20).error().code, ErrorCode::log_full);
        EXPECT_EQ(bench.log->reserve_undo(credit, 5 << 20, 0).error().code, ErrorCode::log_full);
        EXPECT_EQ(bench.log->undo_reserved_bytes(), before);
        EXPECT_EQ(credit.bytes, mine);
        EXPECT_TRUE(bench.log->reserve_undo(credit, 100, 1000));
        bench.log->release_undo(credit);
        EXPECT_EQ(bench.log->undo_reserved_bytes(), 0u);
    });
}

// The log was full, and records without a promise have used some slack. After a restart the promise
// still fits into the capacity.
TEST(LogSpace, APromiseIsMadeAgainInAFullLog) {
    TempDirectory directory;
    Bench bench(tiny(directory.path()));
    bench.create();
    bench.run([&] {
        Log& log = *bench.log;
        UndoCredit writer, in_doubt;
        uint64_t n = 0;
        while (log.reserve_undo(writer, 10032, 64)) append(log, 1, n++, 10000);
        for (int i = 0; i < 2; ++i) append(log, 1, n++, 10000);
        EXPECT_EQ(log.reserve_undo(in_doubt, 0, 5000).error().code, ErrorCode::log_full);
        log.promise_again(in_doubt, 5000);
        EXPECT_GE(in_doubt.bytes, 5000u);
        EXPECT_LE(log.used_bytes() + log.undo_reserved_bytes(), log.capacity_bytes());
        log.use_undo(in_doubt, 5000);
        append(log, 2, n++, 4968);
        log.release_undo(in_doubt);
        log.release_undo(writer);
        EXPECT_EQ(log.undo_reserved_bytes(), 0u);
        EXPECT_TRUE(log.wait_durable(log.tail()));
    });
}

// LI-7: while there is plenty of space nobody adds up what is taken. That must end exactly where
// the sum passes the half, whether records or promises do it.
TEST(LogSpace, ItIsFillingExactlyFromTheHalfOn) {
    for (const uint32_t forward : {4000u, 40u}) {
        TempDirectory directory;
        LogOptions options = tiny(directory.path());
        options.capacity_bytes = 64 << 20;
        options.segment_bytes = 16 << 20;  // files are made ahead by as much
        Bench bench(options);
        bench.create();
        bench.run([&] {
            Log& log = *bench.log;
            UndoCredit credit;
            bool was_filling = false;
            for (uint64_t n = 0; log.reserve_undo(credit, log_align(forward), 8000); ++n) {
                append(log, 1, n, log_align(forward) - 32);
                ASSERT_EQ(log.filling(), log.taken_bytes() > log.capacity_bytes() / 2) << n;
                was_filling |= log.filling();
            }
            EXPECT_TRUE(was_filling);
            log.release_undo(credit);
        });
    }
}

// LI-7: plenty of space is no leave to write while writers are stopped.
TEST(LogSpace, StoppedWritersAreRefusedAlsoWithPlentyOfSpace) {
    TempDirectory directory;
    LogOptions options = tiny(directory.path());
    options.capacity_bytes = 64 << 20;
    options.segment_bytes = 16 << 20;
    Bench bench(options);
    bench.create();
    bench.run([&] {
        Log& log = *bench.log;
        UndoCredit credit;
        // Files are made ahead by as much as was used, so the space becomes plenty.
        for (uint64_t n = 0; n < 2000; ++n) {
            ASSERT_TRUE(log.reserve_undo(credit, 4000, 64));
            append(log, 1, n, 4000 - 32);
            if (n % 100 != 99) continue;
            ASSERT_TRUE(log.wait_durable(log.tail()));
        }
        log.stop_writers(true);
        const auto refused = log.reserve_undo(credit, 64, 64);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::archive_failed);
        log.stop_writers(false);
        EXPECT_TRUE(log.reserve_undo(credit, 64, 64));
        log.release_undo(credit);
    });
}

// LI-2 with old ends: workers that were idle while others wrote come back when the ring is full,
// and each may write one record only before it looks at the limit.
TEST(LogSpace, IdleWorkersComeBackToAFullRing) {
    constexpr uint32_t kWorkers = 4;
    TempDirectory directory;
    LogOptions options = tiny(directory.path());
    options.capacity_bytes = 64 << 20;
    Bench bench(options, kWorkers);
    bench.create();
    for (uint32_t w = 0; w < kWorkers; ++w)
        bench.run([&] { append(*bench.log, 1 + w, 0, 1000); }, w);
    for (uint32_t round = 1; round <= 8; ++round) {
        bench.run(
            [&] {
                for (uint64_t n = 0; n < 500; ++n)
                    append(*bench.log, 1 + round % kWorkers, round * 1000 + n, 4000);
            },
            round % kWorkers);
        for (uint32_t w = 0; w < kWorkers; ++w)
            bench.run([&] { append(*bench.log, 1 + w, round, 60'000); }, w);
    }
    bench.run([&] { ASSERT_TRUE(bench.log->wait_durable(bench.log->tail())); });
    ASSERT_TRUE(bench.reopen());
    uint64_t records = 0;
    threads::Disk& disk = *bench.disk;
    LogReader reader(disk, options);
    reader.seek(Lsn{4096});
    for (LogRecordView record; reader.position() < bench.log->tail();) {
        const auto more = reader.next(record);
        ASSERT_TRUE(more.has_value()) << more.error().text();
        if (!*more) break;
        if (record.header->kind != kTestKind) continue;
        check_record(record);
        ++records;
    }
    EXPECT_EQ(records, kWorkers + 8 * (500 + kWorkers));
}

// What one worker keeps spare does not keep the others from the last bytes of a small log for long:
// the bound is small.
TEST(LogSpace, SeveralWorkersShareTheSpace) {
    TempDirectory directory;
    LogOptions options = tiny(directory.path());
    options.capacity_bytes = 8 << 20;
    Bench bench(options, 4);
    bench.create();
    std::vector<UndoCredit> credits(4);
    for (uint32_t w = 0; w < 4; ++w)
        bench.run(
            [&] {
                while (bench.log->reserve_undo(credits[w], 0, 5000) && credits[w].bytes < 1500000) {
                }
            },
            w);
    uint64_t all = 0;
    for (const auto& credit : credits) all += credit.bytes;
    EXPECT_EQ(all, bench.log->undo_reserved_bytes());
    EXPECT_GT(all, 5u << 20);
    for (uint32_t w = 0; w < 4; ++w) bench.run([&] { bench.log->release_undo(credits[w]); }, w);
    EXPECT_EQ(bench.log->undo_reserved_bytes(), 0u);
}

}  // namespace lockstep::txn::test::log_space_test
