// labels: sim
// log_grow_test.cc - the file of a new log is small and grows in steps: what each step promises,
// what a power cut leaves of it, and what a full disk makes of it.
#include <algorithm>
#include <map>
#include <vector>

#include "tests/txn/log/log_sim_util.h"

namespace lockstep::txn::test::log_grow_test {

using threads::SimDisk;
using threads::SimEvent;

LogOptions growing() {
    return LogOptions{.directory = "/store",
                      .segment_bytes = 8 << 20,
                      .capacity_bytes = 64 << 20,
                      .ring_bytes = 1 << 20};
}

// Where the row of segment files ends that begins with number 0.
uint64_t end_of_files(SimDisk& disk, const LogOptions& options) {
    const LogOptions& o = options;
    uint64_t end = 0;
    for (unsigned n = 0;; ++n) {
        char path[32];
        std::snprintf(path, sizeof path, "/store/log.%08u", n);
        if (!disk.exists(path)) return end;
        const threads::FileId file = *disk.open(path, 0);
        const uint64_t bytes = *disk.size(file);
        disk.close(file);
        end += bytes;
        if (bytes < o.segment_bytes) return end;
    }
}

// Appends records of 8 KB with a promise for each, until the log's tail reaches `upto`.
void fill(Log& log, uint64_t upto, UndoCredit& credit) {
    for (uint64_t n = 0; log.tail().value < upto; ++n) {
        const Result<void> promised = log.reserve_undo(credit, 8192, 64);
        ASSERT_TRUE(promised) << promised.error().text();
        append(log, 1, n, 8192 - 32);
        log.use_undo(credit, 64);
        if (n % 8 == 0) {
            ASSERT_TRUE(log.wait_durable(log.tail()));
        }
    }
    log.release_undo(credit);
    ASSERT_TRUE(log.wait_durable(log.tail()));
}

// The file doubles; a whole segment is the last step. Each step is one sync, and so is each later
// segment (and one of its name): 100 MB of log take few of them beside its own writes.
TEST(LogGrow, ANewLogIsSmallAndDoubles) {
    SimDisk disk({.seed = 1});
    SimBench bench(disk, 1, 1);
    bench.options = LogOptions{.directory = "/store"};
    ASSERT_TRUE(bench.create());
    EXPECT_EQ(end_of_files(disk, bench.options), bench.options.first_bytes);
    std::vector<uint64_t> lengths{bench.options.first_bytes};
    uint64_t syncs = 0, names = 0;
    disk.observe([&](const SimEvent& event) {
        if (event.path.find("/log.mark") != std::string_view::npos) return;
        if (event.kind == SimEvent::submitted) syncs += event.io == threads::IoKind::sync;
        else if (event.kind == SimEvent::renamed && event.bytes > 0) lengths.push_back(event.bytes);
        else if (event.kind == SimEvent::renamed) ++names;
    });
    bench.run([&] {
        UndoCredit credit;
        fill(*bench.log, 100 << 20, credit);
    });
    disk.observe(nullptr);
    ASSERT_GE(lengths.size(), 8u);
    for (size_t i = 1; i < lengths.size(); ++i)
        EXPECT_TRUE(lengths[i] == bench.options.segment_bytes || lengths[i] == 2 * lengths[i - 1])
            << "step " << i << ": " << lengths[i];
    EXPECT_EQ(lengths.back(), bench.options.segment_bytes);
    std::printf("100 MB of log: %zu lengths of files, %llu syncs of them, %llu of names\n",
                lengths.size() - 1, static_cast<unsigned long long>(syncs),
                static_cast<unsigned long long>(names));
    EXPECT_LE(syncs, 12u);
}

// A log that has nothing to promise stays as it was created, also over many opens.
TEST(LogGrow, AnUnusedLogDoesNotGrow) {
    SimDisk disk({.seed = 2});
    for (int turn = 0; turn < 5; ++turn) {
        SimBench bench(disk, 2, 4);
        bench.options = growing();
        ASSERT_TRUE(turn == 0 ? bench.create() : bench.open(Lsn{4096}));
        bench.run([&] {
            append(*bench.log, 1, 0, 1000);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            threads::sleep_until(threads::now() + kSecond);
        });
        EXPECT_EQ(end_of_files(disk, bench.options), bench.options.first_bytes);
    }
}

// LI-5: what transactions were promised is on the disk whatever unsynced changes a crash takes.
TEST(LogGrow, WhatIsPromisedSurvivesAPowerCut) {
    const uint64_t seed = seed_of_run(20261123);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed, 1);
    bench.options = growing();
    ASSERT_TRUE(bench.create());
    uint64_t looked = 0, least = UINT64_MAX;
    const auto look = [&] {
        const uint64_t promised = bench.log->tail().value + bench.log->undo_reserved_bytes();
        const auto left = disk.image(seed + looked, threads::SimCrash::drop_unsynced);
        const uint64_t end = end_of_files(*left, bench.options);
        ++looked;
        ASSERT_GE(end, promised) << "look " << looked;
        least = std::min(least, end - promised);
    };
    disk.observe([&](const SimEvent&) { look(); });
    bench.run([&] {
        UndoCredit credit;
        for (uint64_t n = 0; bench.log->tail().value + credit.bytes < 20u << 20; ++n) {
            const Result<void> promised = bench.log->reserve_undo(credit, 0, 30'000);
            ASSERT_TRUE(promised) << promised.error().text();
            if (n % 20 == 0) append(*bench.log, 1, n, 2000);
            look();
            if (testing::Test::HasFatalFailure()) return;
        }
        bench.log->release_undo(credit);
    });
    disk.observe(nullptr);
    EXPECT_GT(looked, 500u);
    EXPECT_LT(least, 1u << 20);  // it came close
}

struct Crash {
    std::unique_ptr<SimDisk> disk;
    uint64_t acknowledged, records, length;
};

// What a crash left is a log whose records are in order, up to what was acknowledged at least. It
// goes on from there, and grows on.
void recover(Crash& crash, const LogOptions& options, uint64_t seed) {
    SimBench bench(*crash.disk, seed, 1);
    bench.options = options;
    const auto opened = bench.open(Lsn{4096});
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_GE(bench.log->tail().value, crash.acknowledged);
    LogReader reader(*crash.disk, options);
    LogRecordView record;
    uint64_t n = 0;
    for (; *reader.next(record); ++n) ASSERT_EQ(check_record(record), n);
    EXPECT_LE(n, crash.records);
    EXPECT_EQ(reader.position(), bench.log->tail());
    bench.run([&] {
        UndoCredit credit;
        fill(*bench.log, bench.log->tail().value + 300'000, credit);
        bench.log->stop_flusher();
    });
    uint64_t after = 0;
    LogReader again(*crash.disk, options);
    while (*again.next(record)) ++after;
    EXPECT_GT(after, n + 30);
}

// Records without a promise in bursts: the flusher often reaches the end of the file first, also in
// the middle of a step. Power is cut at any event.
TEST(LogGrow, PowerCutsWhileTheFileGrows) {
    const uint64_t first = seed_of_run(20261123);
    uint64_t shorter = 0, crashes_seen = 0;
    for (uint64_t seed = first; seed < first + 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        SimDisk disk({.seed = seed});
        SimBench bench(disk, seed, 1);
        bench.options = growing();
        bench.options.segment_bytes = seed % 2 == 0 ? 8 << 20 : 1 << 20;
        bench.options.first_bytes = 8 << 10;
        ASSERT_TRUE(bench.create());
        Rng rng(seed);
        uint64_t acknowledged = 4096, records = 0;
        std::vector<Crash> crashes;
        disk.observe([&](const SimEvent&) {
            if (!rng.chance(0.3)) return;
            const auto mode = threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))];
            crashes.push_back({disk.image(rng.next(), mode), acknowledged, records,
                               end_of_files(disk, bench.options)});
        });
        bench.run([&] {
            while (bench.log->tail().value < 1'500'000) {
                for (uint64_t burst = 1 + rng.below(12); burst > 0; --burst)
                    append(*bench.log, 1, records++, static_cast<uint32_t>(8 + rng.below(9000)));
                if (rng.chance(0.5)) threads::yield();
                ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
                acknowledged = bench.log->tail().value;
            }
            bench.log->stop_flusher();
        });
        disk.observe(nullptr);
        LogReader reader(disk, bench.options);
        LogRecordView record;
        uint64_t n = 0;
        for (; *reader.next(record); ++n) ASSERT_EQ(check_record(record), n);
        EXPECT_EQ(n, records);
        crashes_seen += crashes.size();
        for (Crash& crash : crashes) {
            shorter += end_of_files(*crash.disk, bench.options) < crash.length;
            recover(crash, bench.options, seed);
            if (testing::Test::HasFailure()) return;
        }
    }
    std::printf("%llu crashes, %llu of them took length of a file\n",
                static_cast<unsigned long long>(crashes_seen),
                static_cast<unsigned long long>(shorter));
    EXPECT_GT(crashes_seen, 200u);
    EXPECT_GT(shorter, 3u);
}

// Records without a promise reach the file's end before the keeper has grown it: the flusher grows
// it itself, by as much. What the log then counts on is in the file, whatever a power cut takes.
TEST(LogGrow, TheFlusherGrowsTheFileByItself) {
    SimDisk disk({.seed = 5});
    SimBench bench(disk, 5, 1);
    bench.options = growing();
    bench.options.first_bytes = 8 << 10;
    ASSERT_TRUE(bench.create());
    const uint64_t before = end_of_files(disk, bench.options);
    bench.run([&] {
        for (uint64_t n = 0; bench.log->tail().value < before + 100; ++n)
            append(*bench.log, 1, n, 1000);
        ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        EXPECT_GE(end_of_files(disk, bench.options), 2 * before);
        const auto left = disk.image(1, threads::SimCrash::drop_unsynced);
        EXPECT_GE(end_of_files(*left, bench.options), 2 * before);
    });
}

// A log that was closed with a short file is opened on a full disk: only what the file holds may be
// promised. With a little space more, the step is smaller and succeeds.
TEST(LogGrow, OpenPromisesWhatTheFileHolds) {
    const uint64_t seed = seed_of_run(20261123);
    SimDisk disk({.seed = seed});
    {
        SimBench bench(disk, seed, 1);
        bench.options = growing();
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            append(*bench.log, 1, 0, 1000);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
    }
    for (const uint64_t more : {0u, 200'000u}) {
        disk.set_capacity(disk.bytes_used() + more);
        const uint64_t before = end_of_files(disk, growing());
        SimBench bench(disk, seed, 1);
        bench.options = growing();
        ASSERT_TRUE(bench.open(Lsn{4096}));
        bench.run([&] {
            Log& log = *bench.log;
            UndoCredit credit;
            uint64_t owed = 0;
            for (; owed < 1000 && log.reserve_undo(credit, 2032, 2032); ++owed)
                append(log, 1, owed, 2000);
            EXPECT_GT(owed, 10u);
            EXPECT_LT(owed, 1000u);
            for (uint64_t i = 0; i < owed; ++i) {
                log.use_undo(credit, 2032);
                append(log, 1, i, 2000);
            }
            log.release_undo(credit);
            const Result<void> done = log.wait_durable(log.tail());
            EXPECT_TRUE(done) << done.error().text();
        });
        const uint64_t after = end_of_files(disk, growing());
        EXPECT_EQ(after > before, more > 0);
        EXPECT_LE(after, before + more);
    }
}

// Stores made before files grew have whole segments; nothing is made or lengthened for them.
TEST(LogGrow, WholeSegmentsAreAdoptedAsTheyAre) {
    SimDisk disk({.seed = 4});
    LogOptions whole = growing();
    whole.first_bytes = whole.segment_bytes;
    {
        SimBench bench(disk, 4, 1);
        bench.options = whole;
        ASSERT_TRUE(bench.create());
    }
    uint64_t changes = 0;
    disk.observe([&](const SimEvent& event) {
        changes += event.kind == SimEvent::renamed && event.bytes > 0;
    });
    SimBench bench(disk, 4, 1);
    bench.options = growing();
    ASSERT_TRUE(bench.open(Lsn{4096}));
    bench.run([&] {
        UndoCredit credit;
        fill(*bench.log, 2 << 20, credit);
    });
    disk.observe(nullptr);
    EXPECT_EQ(changes, 0u);
    EXPECT_EQ(end_of_files(disk, growing()), whole.segment_bytes);
}

}  // namespace lockstep::txn::test::log_grow_test
