// labels: sim
// log_fault_test.cc - failing writes, failing syncs, full disks, damaged files: what
// each must lead to.
#include "tests/txn/log/log_sim_util.h"

namespace lockstep::txn::test::log_fault_test {

using threads::SimDisk;
using threads::SimFault;

// LOG-5, for a write or a sync that fails at the n-th opportunity: nobody is told "durable"
// afterwards, and what was told before is there.
void fail_one(SimFault fault, uint64_t nth, uint64_t seed, bool by_sync = false) {
    SCOPED_TRACE(std::string(threads::sim_fault_name(fault)) + " " + std::to_string(nth));
    SimDisk disk({.seed = seed, .syncs_after_write = by_sync});
    uint64_t acknowledged = 0;
    {
        SimBench bench(disk, seed);
        ASSERT_TRUE(bench.create());
        // The keeper's work is done before the faults begin. The promise demands slack of it.
        bench.run([&] {
            UndoCredit credit;
            ASSERT_TRUE(bench.log->reserve_undo(credit, 100, 100));
            append(*bench.log, 9, 0, 100);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            threads::sleep_until(threads::now() + kSecond);
        });
        acknowledged = bench.log->durable().value;
        disk.faults().only_paths_with(fault, "log.0");
        disk.faults().fail_nth(fault, nth);
        uint32_t refused = 0;
        for (uint32_t t = 0; t < 6; ++t)
            bench.spawn(t, [&, t] {
                for (uint64_t n = 0; n < 20; ++n) {
                    append(*bench.log, t, n, 200);
                    const Lsn end = bench.log->tail();
                    const auto done = bench.log->wait_durable(end);
                    if (done) {
                        EXPECT_FALSE(bench.log->failed());
                        acknowledged = std::max(acknowledged, end.value);
                        continue;
                    }
                    EXPECT_EQ(done.error().code, ErrorCode::store_failed);
                    ++refused;
                    UndoCredit credit;
                    EXPECT_EQ(bench.log->reserve_undo(credit, 100, 100).error().code,
                              ErrorCode::store_failed);
                    // Unwinding goes on: records into memory, more of them than the ring holds.
                    for (int i = 0; i < 10; ++i) append(*bench.log, t, n, 200000);
                    return;
                }
            });
        bench.finish();
        EXPECT_EQ(refused, 6u);
        EXPECT_TRUE(bench.log->failed());
        EXPECT_EQ(disk.faults().count(fault), 1u);
        EXPECT_LE(acknowledged, bench.log->durable().value);
    }
    disk.faults().enable(false);
    disk.close_all();
    auto after = disk.image(seed, threads::SimCrash::random_sectors);
    SimBench again(*after, seed);
    const auto opened = again.open(Lsn{4096});
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_GE(again.log->tail().value, acknowledged);
}

TEST(LogFault, AFailedWriteStopsTheStore) {
    for (uint64_t nth : {1, 2, 5}) fail_one(SimFault::write_error, nth, seed_of_run(20261121));
}
TEST(LogFault, AFailedSyncStopsTheStore) {
    for (uint64_t nth : {1, 2, 5}) fail_one(SimFault::sync_error, nth, seed_of_run(20261121));
}

// The same where a sync behind each write makes it durable.
TEST(LogFault, AFailedSyncBehindAWriteStopsTheStore) {
    for (uint64_t nth : {1, 2, 5}) {
        fail_one(SimFault::sync_error, nth, seed_of_run(20261121), true);
        fail_one(SimFault::write_error, nth, seed_of_run(20261121), true);
    }
}

// LOG-5: also not by a flush that was already gathering commits when the store stopped.
TEST(LogFault, NothingThatFollowsAFailureIsWritten) {
    const uint64_t first = seed_of_run(20261121);
    for (uint64_t seed = first; seed < first + 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        SimDisk disk({.seed = seed});
        uint64_t failed_at = 0;
        {
            SimBench bench(disk, seed);
            ASSERT_TRUE(bench.create());
            // A flush that takes its time: the next one gathers.
            bench.run([&] {
                append(*bench.log, 9, 0, 100);
                ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            });
            bench.spawn(0, [&] {
                append(*bench.log, 0, 0, 100);
                (void)bench.log->wait_durable(bench.log->tail());
            });
            bench.spawn(1, [&] {
                for (uint64_t n = 0; n < seed % 8; ++n) threads::yield();
                failed_at = bench.log->tail().value;
                bench.log->fail_store(
                    {.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
                append(*bench.log, 1, 0, 100);
            });
            bench.finish();
        }
        disk.close_all();
        SimBench again(disk, seed);
        ASSERT_TRUE(again.open(Lsn{4096}));
        EXPECT_LE(again.log->tail().value, failed_at);
    }
}

TEST(LogFault, ShortTransfersAndRepetitionsAreInvisible) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed);
    ASSERT_TRUE(bench.create());
    disk.faults().set_odds(SimFault::short_transfer, 0.3);
    disk.faults().set_odds(SimFault::again, 0.3);
    disk.faults().set_odds(SimFault::slow, 0.1);
    for (uint32_t t = 0; t < 4; ++t)
        bench.spawn(t, [&, t] {
            for (uint64_t n = 0; n < 30; ++n) {
                append(*bench.log, t, n, 3000);
                ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            }
        });
    bench.finish();
    bench.run([&] { bench.log->stop_flusher(); });
    EXPECT_GT(disk.faults().count(SimFault::short_transfer), 0u);
    LogReader reader(disk, bench.options);
    LogRecordView record;
    uint64_t count = 0;
    while (*reader.next(record)) ++count, check_record(record);
    EXPECT_EQ(count, 120u);
}

// A full disk is no_space for those who ask for room; rollbacks fit, and work goes on when there is
// space again.
TEST(LogFault, AFullDiskRefusesPromisesAndKeepsThoseGiven) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed, .capacity_bytes = 2 << 20});
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.create());
    bench.run([&] {
        Log& log = *bench.log;
        UndoCredit credit;
        uint64_t owed = 0, n = 0;
        for (;; ++owed) {
            const auto promised = log.reserve_undo(credit, 2032, 2032);
            if (!promised) {
                EXPECT_EQ(promised.error().code, ErrorCode::no_space);
                EXPECT_EQ(promised.error().os, ENOSPC);
                EXPECT_NE(promised.error().text().find("free some on its device"),
                          std::string::npos)
                    << promised.error().text();
                break;
            }
            append(log, 1, n++, 2000);
            ASSERT_LT(owed, 10000u);
        }
        EXPECT_GT(owed, 50u);
        EXPECT_LT(log.used_bytes(), 2u << 20);
        for (uint64_t i = 0; i < owed; ++i) {
            log.use_undo(credit, 2032);
            append(log, 1, n++, 2000);
        }
        ASSERT_TRUE(log.wait_durable(log.tail()));
        log.release_undo(credit);
        EXPECT_EQ(log.reserve_undo(credit, 1 << 20, 0).error().code, ErrorCode::no_space);
        disk.set_capacity(UINT64_MAX);
        bool again = false;
        for (int i = 0; i < 100 && !again; ++i) {
            again = log.reserve_undo(credit, 1 << 20, 0).has_value();
            threads::sleep_until(threads::now() + kMillisecond);
        }
        EXPECT_TRUE(again);
        log.release_undo(credit);
        EXPECT_FALSE(log.failed());
    });
}

// A log whose first segments are not needed any more. They cannot be recycled while `fault` lasts.
// Promises are then refused, or given with other space. Afterwards they are given again.
void fail_recycling(SimBench& bench, SimDisk& disk, SimFault fault, bool refused) {
    Log& log = *bench.log;
    disk.faults().only_paths_with(fault, "log.0");
    disk.faults().set_odds(fault, 1);
    log.truncate_before(log.durable());  // before the keeper's next step
    bool ended = false;
    UndoCredit credit;
    bench.spawn(0, [&] {
        Result<void> promised{};
        while (promised && credit.bytes < log.capacity_bytes() / 2)
            promised = log.reserve_undo(credit, 0, 50'000);
        EXPECT_EQ(promised ? ErrorCode::none : promised.error().code,
                  refused ? ErrorCode::io_error : ErrorCode::none);
        if (refused) {
            EXPECT_EQ(promised.error().os, EIO);
            EXPECT_NE(promised.error().text().find("in this directory"), std::string::npos);
        }
        ended = true;
    });
    for (int steps = 0; !ended && steps < 200'000; ++steps) bench.step();
    EXPECT_TRUE(ended) << "a thread waits for the keeper for ever";
    EXPECT_GT(disk.faults().count(fault), 0u);
    disk.faults().set_odds(fault, 0);
    bench.finish();
    bench.run([&] {
        (void)log.reserve_undo(credit, 0, 50'000);  // wakes the keeper
        threads::sleep_until(threads::now() + 100 * kMillisecond);
        while (credit.bytes < log.capacity_bytes() / 2)
            ASSERT_TRUE(log.reserve_undo(credit, 0, 50'000));
        EXPECT_FALSE(log.failed());
        EXPECT_FALSE(disk.exists("/store/log.00000000"));
        log.release_undo(credit);
    });
}

void fill_segments(Log& log, uint64_t segments) {
    for (uint64_t n = 0; log.tail().value < segments * sim_options().segment_bytes; ++n)
        append(log, 1, n, 4000);
    ASSERT_TRUE(log.wait_durable(log.tail()));
}

TEST(LogFault, ASegmentThatCannotBeRenamedRefusesPromises) {
    const uint64_t seed = seed_of_run(20261127);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.create());
    bench.run([&] {
        fill_segments(*bench.log, 3);
        threads::sleep_until(threads::now() + 100 * kMillisecond);
    });
    fail_recycling(bench, disk, SimFault::rename_error, true);
}

// A crash has cut the last segment short, so older ones are removed and not renamed.
TEST(LogFault, ASegmentThatCannotBeRemovedHoldsUpNothing) {
    const uint64_t seed = seed_of_run(20261127);
    SimDisk disk({.seed = seed});
    uint64_t end = 0;
    {
        SimBench bench(disk, seed, 1);
        ASSERT_TRUE(bench.create());
        bench.run([&] { fill_segments(*bench.log, 3); });
        end = bench.log->tail().value;
    }
    const uint64_t segment = sim_options().segment_bytes, number = end / segment;
    const auto file = disk.open("/store/log.0000000" + std::to_string(number), 0);
    ASSERT_TRUE(file);
    ASSERT_TRUE(disk.truncate(*file, end % segment / 4096 * 4096 + 4096));
    disk.close(*file);
    while (disk.exists("/store/log.0000000" + std::to_string(number + 1)))
        ASSERT_TRUE(disk.unlink("/store/log.0000000" + std::to_string(number + 1)));
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.open(Lsn{4096}));
    fail_recycling(bench, disk, SimFault::unlink_error, false);
}

// Makes a log of 50 records, closes it, damages one byte.
std::unique_ptr<SimDisk> damaged(uint64_t at, std::vector<Lsn>& lsns) {
    auto disk = std::make_unique<SimDisk>(threads::SimOptions{.seed = 3});
    {
        SimBench bench(*disk, 3);
        EXPECT_TRUE(bench.create());
        bench.run([&] {
            for (uint64_t n = 0; n < 50; ++n) lsns.push_back(append(*bench.log, 1, n, 4000));
            EXPECT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
    }
    if (at == 0) return disk;
    char path[32];
    std::snprintf(path, sizeof path, "/store/log.%08u",
                  static_cast<unsigned>(at / sim_options().segment_bytes));
    const threads::FileId file = *disk->open(path, 0);
    uint8_t byte = 0;
    EXPECT_EQ(*disk->read_now(file, at % sim_options().segment_bytes, &byte, 1), 1u);
    byte ^= 0x40;
    EXPECT_TRUE(disk->write_now(file, at % sim_options().segment_bytes, &byte, 1));
    disk->close(file);
    return disk;
}

// LOG-4: damage below the durable end is named, never cut off.
TEST(LogFault, DamageInTheDurablePartIsNamed) {
    std::vector<Lsn> lsns;
    damaged(0, lsns);
    for (size_t victim : {0u, 1u, 17u, 48u, 49u}) {
        for (uint64_t offset : {0u, 4u, 30u, 40u, 4024u}) {
            std::vector<Lsn> ignored;
            auto disk = damaged(lsns[victim].value + offset, ignored);
            SimBench bench(*disk, 3);
            const auto opened = bench.open(Lsn{4096});
            ASSERT_FALSE(opened);
            EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
            EXPECT_EQ(opened.error().a, lsns[victim].value);
        }
    }
}

TEST(LogFault, AMissingOrDamagedMarkIsAnError) {
    std::vector<Lsn> lsns;
    auto disk = damaged(0, lsns);
    const threads::FileId file = *disk->open("/store/log.mark", 0);
    std::vector<char> zeros(8192);
    auto half = disk->image(1, threads::SimCrash::keep_all);
    ASSERT_TRUE(disk->write_now(file, 0, zeros.data(), zeros.size()));
    {
        SimBench bench(*disk, 3);
        EXPECT_EQ(bench.open(Lsn{4096}).error().code, ErrorCode::corrupt_log);
    }
    disk->close(file);
    ASSERT_TRUE(disk->unlink("/store/log.mark"));
    {
        SimBench bench(*disk, 3);
        EXPECT_EQ(bench.open(Lsn{4096}).error().code, ErrorCode::corrupt_log);
    }
    // One slot lost: the other still tells an end that is not above the true one.
    const threads::FileId other = *half->open("/store/log.mark", 0);
    ASSERT_TRUE(half->write_now(other, 0, zeros.data(), 4096));
    SimBench bench(*half, 3);
    EXPECT_TRUE(bench.open(Lsn{4096}));
}

// A torn tail: its first record is lost, later ones are valid by themselves. A new record that ends
// where one of those begins must not bring it back.
TEST(LogFault, RemainsOfATornTailNeverComeBack) {
    SimDisk disk({.seed = 5});
    std::vector<char> mark(8192);
    const auto append_durably = [&](SimBench& bench, uint64_t number) {
        Lsn lsn{};
        bench.run([&] {
            // A whole block each: the next write does not cover the record after.
            lsn = append(*bench.log, 1, number, 4064);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
        return lsn;
    };
    {
        SimBench bench(disk, 5);
        ASSERT_TRUE(bench.create());
        append_durably(bench, 0);
    }
    const threads::FileId mark_file = *disk.open("/store/log.mark", 0);
    ASSERT_EQ(*disk.read_now(mark_file, 0, mark.data(), mark.size()), mark.size());
    Lsn lost{};
    {
        SimBench bench(disk, 5);
        ASSERT_TRUE(bench.open(Lsn{4096}));
        lost = append_durably(bench, 1);
        for (uint64_t n = 2; n < 5; ++n) append_durably(bench, n);
    }
    // As if none of the four had been synced, and the first had not reached the disk.
    ASSERT_TRUE(disk.write_now(mark_file, 0, mark.data(), mark.size()));
    const threads::FileId segment = *disk.open("/store/log.00000000", 0);
    ASSERT_TRUE(disk.write_now(segment, lost.value + 32, "gone", 4));
    {
        SimBench bench(disk, 5);
        ASSERT_TRUE(bench.open(Lsn{4096}));
        EXPECT_EQ(bench.log->tail(), lost);
        EXPECT_EQ(append_durably(bench, 100), lost);
    }
    LogReader reader(disk, sim_options());
    LogRecordView record;
    std::vector<uint64_t> numbers;
    while (*reader.next(record)) numbers.push_back(check_record(record));
    EXPECT_EQ(numbers, (std::vector<uint64_t>{0, 100}));
}

TEST(LogFault, AMissingSegmentIsNamed) {
    std::vector<Lsn> lsns;
    auto disk = damaged(0, lsns);
    ASSERT_TRUE(disk->unlink("/store/log.00000001"));
    SimBench bench(*disk, 3);
    const auto opened = bench.open(Lsn{4096});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
    EXPECT_LE(opened.error().a, 65536u);
    EXPECT_GT(opened.error().a, 65536u - 5000u);
}

// The mark names an end that the file does not reach: nothing is opened there.
TEST(LogFault, AShortSegmentIsNamed) {
    std::vector<Lsn> lsns;
    auto disk = damaged(0, lsns);
    const uint64_t segment = lsns.back().value / sim_options().segment_bytes;
    char path[32];
    std::snprintf(path, sizeof path, "/store/log.%08u", static_cast<unsigned>(segment));
    const threads::FileId file = *disk->open(path, 0);
    ASSERT_TRUE(disk->truncate(file, 4096));
    disk->close(file);
    SimBench bench(*disk, 3);
    const auto opened = Log::open(*bench.runtime, bench.options, Lsn{4096});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
    EXPECT_EQ(opened.error().a, segment * sim_options().segment_bytes + 4096);
}

}  // namespace lockstep::txn::test::log_fault_test
