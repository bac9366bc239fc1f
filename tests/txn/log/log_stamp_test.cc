// labels: sim
// log_stamp_test.cc - damage in the durable log is told from a torn tail by later
// commit records, also when log.mark is an old one.
#include <functional>
#include <map>
#include <set>

#include "tests/txn/log/log_sim_util.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"

namespace lockstep::txn::test::log_stamp_test {

using threads::SimDisk;
using threads::SimFault;

// A record with a stamp. Its end.
uint64_t append_stamped(Log& log, uint64_t txn, TxnLogKind kind, uint32_t payload = 0) {
    const LogSpace space = log.reserve(sizeof(LogRecordHeader) + payload);
    *space.header() = {.bytes = 0,
                       .checksum = 0,
                       .prev = 0,
                       .txn = txn,
                       .kind = static_cast<uint16_t>(kind),
                       .flags = 0,
                       .parts = 0,
                       .object = log.durable_stamp(space.lsn)};
    if (payload != 0) fill_payload(space.payload(), payload, txn, 0);
    log.publish(space);
    return space.lsn.value + space.bytes;
}
// As a transaction's commit record.
uint64_t append_commit(Log& log, uint64_t txn) {
    return append_stamped(log, txn, TxnLogKind::commit);
}

// What a power cut does to a mark whose last writes no sync has covered.
void put_mark_back(SimDisk& disk, uint64_t durable_end) {
    const auto file = disk.open("/store/log.mark", 0);
    ASSERT_TRUE(file);
    auto mark = DurableEnd::load(disk, "/store/log.mark");
    ASSERT_TRUE(mark && *mark);
    for (int slot = 0; slot < 2; ++slot) {
        ++(**mark).sequence;
        (**mark).durable_end = durable_end;
        ASSERT_TRUE((**mark).store(disk, *file));
    }
    disk.close(*file);
}

void flip(SimDisk& disk, uint64_t lsn, uint32_t bit) {
    const LogFiles files(disk, "/store", sim_options().segment_bytes);
    const auto file = disk.open(files.segment_path(files.number_of(lsn)), 0);
    ASSERT_TRUE(file);
    char byte;
    ASSERT_TRUE(disk.read_now(*file, lsn % files.segment_bytes(), &byte, 1));
    byte = static_cast<char>(byte ^ 1 << bit);
    ASSERT_TRUE(disk.write_now(*file, lsn % files.segment_bytes(), &byte, 1));
    disk.close(*file);
}

struct Written {
    uint64_t first = 0;  // LSN of the first record
    // The last durable end that a later commit knew of.
    uint64_t stamped = 0;
    uint64_t acknowledged = 0;
    uint64_t tail = 0;
};

// Transactions of one record each, every one of them waited for.
void write_log(SimDisk& disk, uint64_t seed, Written& w, int transactions = 12,
               const std::function<void(SimBench&)>& at_rest = {}) {
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.create());
    w.first = bench.log->tail().value;
    bench.run([&] {
        Rng rng(seed);
        for (int n = 0; n < transactions; ++n) {
            append(*bench.log, 1 + static_cast<uint64_t>(n), static_cast<uint64_t>(n),
                   static_cast<uint32_t>(8 + rng.below(9000)));
            const uint64_t before = bench.log->durable().value;
            const uint64_t end = append_commit(*bench.log, 1 + static_cast<uint64_t>(n));
            ASSERT_TRUE(bench.log->wait_durable(Lsn{end}));
            w.stamped = before;
            w.acknowledged = end;
        }
        if (at_rest) at_rest(bench);
    });
    w.tail = bench.log->tail().value;
}

TEST(LogStamp, DamageBehindAnOldMarkIsNotTakenForATornTail) {
    for (uint64_t seed = seed_of_run(20261121), last = seed + 60; seed < last; ++seed) {
        SimDisk disk({.seed = seed});
        Written w;
        write_log(disk, seed, w);
        ASSERT_GT(w.stamped, w.first);
        put_mark_back(disk, w.first);
        Rng rng(seed * 3 + 1);
        const uint64_t lsn = w.first + rng.below(w.stamped - w.first);
        flip(disk, lsn, static_cast<uint32_t>(rng.below(8)));
        SimBench bench(disk, seed, 1);
        const auto opened = bench.open(Lsn{w.first});
        ASSERT_FALSE(opened) << "seed " << seed << ": damage at " << lsn << " was cut off";
        EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
        EXPECT_LE(opened.error().a, lsn);
        EXPECT_GE(opened.error().b, w.stamped);
    }
}

// Nothing tells it from a flush that was cut off: this is how far the log can speak for itself.
TEST(LogStamp, DamageInTheLastFlushBehindAnOldMarkIsATornTail) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    Written w;
    write_log(disk, seed, w);
    put_mark_back(disk, w.first);
    flip(disk, w.acknowledged - 8, 1);
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.open(Lsn{w.first}));
    EXPECT_LT(bench.log->tail().value, w.acknowledged);
}

// Once the log has been at rest for a while the mark tells its end, and a power cut cannot take
// that back: nothing is left that could be damaged unnoticed, the last flush included.
TEST(LogStamp, ARestingLogIsMarkedForGood) {
    for (uint64_t seed = seed_of_run(20261121), last = seed + 40; seed < last; ++seed) {
        SimDisk disk({.seed = seed});
        Written w;
        std::vector<std::unique_ptr<SimDisk>> images;
        Rng rng(seed * 5 + 3);
        write_log(disk, seed, w, 1 + static_cast<int>(rng.below(12)), [&](SimBench& bench) {
            threads::sleep_until(bench.clock.now() + 3 * kMarkInterval);
            for (const threads::SimCrash crash : threads::kSimCrashes)
                images.push_back(disk.image(rng.next(), crash));
        });
        for (auto& image : images) {
            const uint64_t lsn = w.first + rng.below(w.acknowledged - w.first);
            flip(*image, lsn, static_cast<uint32_t>(rng.below(8)));
            SimBench bench(*image, seed, 1);
            const auto opened = bench.open(Lsn{w.first});
            ASSERT_FALSE(opened) << "seed " << seed << ": damage at " << lsn << " was cut off";
            EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
            EXPECT_EQ(opened.error().b, w.acknowledged);
        }
    }
}

// One mark for many flushes, and no more than the interval and a write between what is durable and
// what is marked.
TEST(LogStamp, TheMarkFollowsABusyLogAtItsInterval) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    SimBench bench(disk, seed, 1);
    ASSERT_TRUE(bench.create());
    std::map<uint64_t, Nanos> durable_at;  // when an LSN was first seen durable
    std::set<uint64_t> marks;
    bench.run([&] {
        for (uint64_t n = 0; n < 600; ++n) {
            append(*bench.log, 1 + n, n, 100);
            ASSERT_TRUE(bench.log->wait_durable(Lsn{append_commit(*bench.log, 1 + n)}));
            durable_at.emplace(bench.log->durable().value, bench.clock.now());
            const auto mark = recorded_durable_end(disk, "/store");
            ASSERT_TRUE(mark);
            marks.insert(mark->value);
            const auto next = durable_at.upper_bound(mark->value);
            if (next == durable_at.end()) continue;
            EXPECT_LT(bench.clock.now() - next->second, 3 * kMarkInterval) << "commit " << n;
        }
    });
    const Nanos took = bench.clock.now();
    EXPECT_GT(took, 5 * kMarkInterval);
    EXPECT_GT(marks.size(), took / kMarkInterval / 3);
    EXPECT_LT(marks.size(), bench.log->stats().flushes / 4);
}

// Appends records that are no commits up to `lsn`.
void fill_to(Log& log, uint64_t lsn) {
    constexpr uint64_t kHead = sizeof(LogRecordHeader), kMost = 100'000;
    for (uint64_t n = 0; log.tail().value < lsn; ++n) {
        const uint64_t left = lsn - log.tail().value;
        const uint64_t bytes = left <= kMost ? left : std::min(kMost, left - 2 * kHead);
        append(log, 1, n, static_cast<uint32_t>(bytes - kHead));
    }
    ASSERT_EQ(log.tail().value, lsn);
}

constexpr uint64_t kPiece = 256 << 10, kSegment = 1 << 20, kHead = sizeof(LogRecordHeader);
constexpr uint64_t kDamaged = 8192;

void enlarge(SimBench& bench) {
    bench.options.segment_bytes = kSegment;
    bench.options.capacity_bytes = 8 << 20;
}

// The log is damaged, and behind that a single record has a stamp. It begins at `place`.
void expect_stamp_seen(uint64_t place, TxnLogKind kind, uint32_t payload) {
    const uint64_t seed = seed_of_run(20261124);
    SimDisk disk({.seed = seed});
    {
        SimBench bench(disk, seed, 1);
        enlarge(bench);
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            fill_to(*bench.log, kDamaged);
            fill_to(*bench.log, place);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            ASSERT_EQ(append_stamped(*bench.log, 1, kind, payload), place + kHead + payload);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
    }
    put_mark_back(disk, 4096);
    const auto file = disk.open("/store/log.00000000", 0);
    ASSERT_TRUE(file) << file.error().text();
    const uint64_t garbage = 1;
    ASSERT_TRUE(disk.write_now(*file, kDamaged, &garbage, sizeof garbage));
    disk.close(*file);
    SimBench bench(disk, seed, 1);
    enlarge(bench);
    const auto opened = bench.open(Lsn{4096});
    ASSERT_FALSE(opened) << "the stamp at " << place << " was not seen";
    EXPECT_EQ(opened.error().code, ErrorCode::corrupt_log);
    EXPECT_EQ(opened.error().a, kDamaged);
    EXPECT_EQ(opened.error().b, place);
}

// open() reads what is behind the apparent end in pieces of 256 KB, up to the end of a segment and
// from the next one. The stamp that tells of the damage lies anywhere at their borders.
TEST(LogStamp, StampsAtTheBordersOfReadPiecesAreSeen) {
    std::vector<uint64_t> places;
    for (uint64_t back = 0; back <= kHead + 8; back += 8) {
        places.push_back(kDamaged + kPiece - back);
        // The second piece begins 24 bytes before the end of the first.
        places.push_back(kDamaged + 2 * kPiece - 24 - back);
    }
    places.push_back(kSegment - kHead);  // the last bytes of a segment, the first of the next
    places.push_back(kSegment);
    for (const uint64_t place : places) expect_stamp_seen(place, TxnLogKind::commit, 0);
}

// A prepare record may reach into the next piece or file.
TEST(LogStamp, StampsOfPrepareRecordsAreSeen) {
    for (const uint32_t payload : {40u, 4000u, 200'000u})
        for (const uint64_t place :
             {2 * kDamaged, kDamaged + kPiece - 200, kDamaged + kPiece - kHead, kSegment - 200})
            expect_stamp_seen(place, TxnLogKind::prepare, payload);
}

// A recycled segment is full of old prepare records. Those behind the log's end look as if they had
// stamps. An open reads the log a few times, and not once more for each of them.
TEST(LogStamp, OldPrepareRecordsAreNotReadOneByOne) {
    const uint64_t seed = seed_of_run(20261128);
    SimDisk disk({.seed = seed});
    Lsn kept{};
    {
        SimBench bench(disk, seed, 1);
        enlarge(bench);
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            Log& log = *bench.log;
            const auto prepare_up_to = [&](uint64_t lsn) {
                for (uint64_t n = 1; log.tail().value < lsn; ++n) {
                    append_stamped(log, n, TxnLogKind::prepare, 200);
                    if (n % 64 == 0) {
                        ASSERT_TRUE(log.wait_durable(log.tail()));
                    }
                }
                ASSERT_TRUE(log.wait_durable(log.tail()));
            };
            prepare_up_to(4 * kSegment);
            kept = log.tail();
            log.truncate_before(kept);
            threads::sleep_until(threads::now() + 100 * kMillisecond);
            prepare_up_to(5 * kSegment + kSegment / 4);
            threads::sleep_until(threads::now() + 100 * kMillisecond);
        });
    }
    ASSERT_FALSE(disk.exists("/store/log.00000000"));
    uint64_t bytes = 0;
    disk.observe([&](const threads::SimEvent& event) {
        if (event.io == threads::IoKind::read && event.kind == threads::SimEvent::completed)
            bytes += event.bytes;
    });
    SimBench bench(disk, seed, 1);
    enlarge(bench);
    ASSERT_TRUE(bench.open(kept));
    disk.observe(nullptr);
    EXPECT_LE(bytes, 64 * kSegment);
}

// The last durable commit comes at any moment of a slow write of the mark. Its end is marked soon
// after that write has ended, although no thread waits for durability any more.
TEST(LogStamp, TheMarkFollowsWhatWasPromisedDuringItsWrite) {
    for (uint64_t commits = 100; commits < 200; commits += 7) {
        SCOPED_TRACE(commits);
        const uint64_t seed = seed_of_run(20261127);
        SimDisk disk({.seed = seed, .latency_min = 200 * kMicrosecond});
        disk.faults().only_paths_with(SimFault::slow, "log.mark");
        SimBench bench(disk, seed, 1);
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            Log& log = *bench.log;
            const auto commit = [&](uint64_t n) {
                ASSERT_TRUE(log.wait_durable(Lsn{append_commit(log, n)}));
            };
            // A write of the mark takes 20 ms from now on, more than its interval.
            disk.faults().set_odds(SimFault::slow, 1);
            for (uint64_t n = 0; n < commits; ++n) commit(n);
            const Nanos promised = bench.clock.now();
            const Lsn end = log.durable();
            Nanos marked = 0;
            while (marked == 0 && bench.clock.now() < promised + kSecond) {
                append(log, 1, 0, 100);  // the log is not idle
                threads::sleep_until(threads::now() + kMillisecond);
                const auto mark = recorded_durable_end(disk, "/store");
                ASSERT_TRUE(mark);
                if (*mark >= end) marked = bench.clock.now();
            }
            ASSERT_NE(marked, 0u);
            // The write in flight, an interval, and the write that follows.
            EXPECT_LE(marked - promised, 2 * 20 * kMillisecond + 2 * kMarkInterval);
        });
    }
}

// Power cuts at every event, with the mark as old as can be: no torn tail is taken for damage.
TEST(LogStamp, TornTailsAreNotTakenForDamage) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    Written w;
    std::vector<std::pair<std::unique_ptr<SimDisk>, uint64_t>> images;
    Rng crash(seed + 9);
    disk.observe([&](const threads::SimEvent&) {
        if (w.acknowledged == 0) return;
        for (int i = 0; i < 4; ++i)
            images.emplace_back(
                disk.image(crash.next(),
                           threads::kSimCrashes[crash.below(std::size(threads::kSimCrashes))]),
                w.acknowledged);
    });
    write_log(disk, seed, w, 30);
    disk.observe(nullptr);
    EXPECT_GT(images.size(), 300u);
    for (auto& [image, acknowledged] : images) {
        put_mark_back(*image, w.first);
        SimBench bench(*image, seed, 1);
        const auto opened = bench.open(Lsn{w.first});
        ASSERT_TRUE(opened) << opened.error().text();
        EXPECT_GE(bench.log->tail().value, acknowledged);
    }
}

}  // namespace lockstep::txn::test::log_stamp_test
