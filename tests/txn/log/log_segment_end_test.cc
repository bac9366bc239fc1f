// labels: sim
// log_segment_end_test.cc - a flush ends at a segment's end in the middle of a record, and power
// fails before the rest of that record is durable.
#include <vector>

#include "tests/txn/log/log_sim_util.h"
#include "txn/log/log_files.h"

namespace lockstep::txn::test::log_segment_end_test {

using threads::SimCrash;
using threads::SimDisk;

constexpr uint64_t kSegment = 64 << 10;

uint64_t append_commit(Log& log, uint64_t txn) {
    const LogSpace space = log.reserve(sizeof(LogRecordHeader));
    *space.header() = {.bytes = 0,
                       .checksum = 0,
                       .prev = 0,
                       .txn = txn,
                       .kind = static_cast<uint16_t>(TxnLogKind::commit),
                       .flags = 0,
                       .parts = 0,
                       .object = log.durable_stamp(space.lsn)};
    log.publish(space);
    return space.lsn.value + space.bytes;
}

// The numbers of all records that a restart would read.
std::vector<uint64_t> numbers(threads::Disk& disk, const LogOptions& options = sim_options()) {
    LogReader reader(disk, options);
    LogRecordView record;
    std::vector<uint64_t> found;
    while (*reader.next(record)) found.push_back(check_record(record));
    return found;
}

// A record crosses into the next segment and ends with a block. Its second half is lost; the record
// behind it is not. The next run appends a record of the same length in its place, which makes the
// old record follow a valid one.
TEST(LogSegmentEnd, RecordsBehindALostOneStayLost) {
    const uint64_t seed = seed_of_run(20261124);
    SimDisk disk({.seed = seed});
    constexpr uint32_t kBefore = 1000, kHead = sizeof(LogRecordHeader);
    constexpr uint32_t kCrossing = kBefore + kLogBlock - kHead;
    uint64_t crossing = 0, behind = 0;
    std::vector<std::unique_ptr<SimDisk>> images;
    {
        SimBench bench(disk, seed, 1);
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            const uint64_t first = bench.log->tail().value;
            append(*bench.log, 1, 0, static_cast<uint32_t>(kSegment - kBefore - first) - kHead);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            crossing = append(*bench.log, 2, 1, kCrossing).value;
            behind = append(*bench.log, 3, 2, 600).value;
            disk.observe([&](const threads::SimEvent& event) {
                if (event.kind != threads::SimEvent::submitted || event.bytes != 2 * kLogBlock)
                    return;
                for (uint64_t i = 0; i < 200; ++i)
                    images.push_back(disk.image(seed + i, SimCrash::random_sectors));
            });
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            disk.observe(nullptr);
        });
    }
    ASSERT_EQ(crossing, kSegment - kBefore);
    ASSERT_EQ(behind, kSegment + kLogBlock);
    ASSERT_FALSE(images.empty());
    uint64_t half_lost = 0;
    for (auto& image : images) {
        LogReader reader(*image, sim_options());
        reader.seek(Lsn{behind});
        LogRecordView record;
        if (!*reader.next(record) || numbers(*image) != std::vector<uint64_t>{0}) continue;
        ++half_lost;
        {
            SimBench bench(*image, seed, 1);
            const auto opened = bench.open(Lsn{4096});
            ASSERT_TRUE(opened) << opened.error().text();
            ASSERT_EQ(bench.log->tail().value, crossing);
            bench.run([&] {
                append(*bench.log, 4, 3, kCrossing);
                ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            });
        }
        ASSERT_EQ(numbers(*image), (std::vector<uint64_t>{0, 3}));
    }
    EXPECT_GT(half_lost, 5u);
}

// The same far behind the log's end: a flush that was cut off had 400 KB, of which the first bytes
// are lost and the last ones are not. The next run writes as much as was lost, up to a block's end.
TEST(LogSegmentEnd, TheWholeReachOfALostFlushIsCleared) {
    const uint64_t seed = seed_of_run(20261124);
    SimDisk disk({.seed = seed});
    constexpr uint32_t kPayload = 50'000, kRecords = 8;
    LogOptions options = sim_options();
    options.segment_bytes = options.ring_bytes = 1 << 20;
    uint64_t lost = 0, behind = 0;
    const auto append_all = [&](Log& log, uint64_t txn, uint64_t number) {
        for (uint32_t n = 0; n < kRecords; ++n) append(log, txn, number + n, kPayload);
        const auto left = static_cast<uint32_t>(kLogBlock - log.tail().value % kLogBlock);
        append(log, txn, number + kRecords, left + kLogBlock - sizeof(LogRecordHeader));
    };
    std::vector<std::unique_ptr<SimDisk>> images;
    {
        SimBench bench(disk, seed, 1);
        bench.options = options;
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            append(*bench.log, 1, 0, 100);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            lost = bench.log->tail().value;
            append_all(*bench.log, 2, 1);
            behind = append(*bench.log, 3, 100, 600).value;
            disk.observe([&](const threads::SimEvent& event) {
                if (event.kind != threads::SimEvent::submitted || event.bytes < kPayload) return;
                for (uint64_t i = 0; i < 40; ++i)
                    images.push_back(disk.image(seed + i, SimCrash::random_sectors));
            });
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
            disk.observe(nullptr);
        });
    }
    ASSERT_GT(behind - lost, 400'000u);
    uint64_t first_lost = 0;
    for (auto& image : images) {
        LogReader reader(*image, options);
        reader.seek(Lsn{behind});
        LogRecordView record;
        if (!*reader.next(record) || numbers(*image, options) != std::vector<uint64_t>{0}) continue;
        ++first_lost;
        std::vector<uint64_t> expected{0};
        {
            SimBench bench(*image, seed, 1);
            bench.options = options;
            ASSERT_TRUE(bench.open(Lsn{4096}));
            ASSERT_EQ(bench.log->tail().value, lost);
            bench.run([&] {
                append_all(*bench.log, 4, 200);
                for (uint32_t n = 0; n <= kRecords; ++n) expected.push_back(200 + n);
                ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
                ASSERT_EQ(bench.log->tail().value, behind);
            });
        }
        ASSERT_EQ(numbers(*image, options), expected);
    }
    EXPECT_GT(first_lost, 2u);
}

// The flush limit cuts a flush inside a record, and power fails during the next flush: its first
// block is lost, so that record is lost too. The next run fills the space up to where an old record
// begins. The remains lie a record further behind the log's end than one flush is long.
TEST(LogSegmentEnd, RecordsBehindAFlushOfFullLengthStayLost) {
    const uint64_t seed = seed_of_run(20261124);
    constexpr uint32_t kBig = kLogRecordMax, kHead = sizeof(LogRecordHeader);
    constexpr uint64_t kFlush = 4 << 20, kCut = 8192 + kFlush;
    SimDisk disk({.seed = seed});
    LogOptions options = sim_options();
    options.segment_bytes = options.ring_bytes = 16 << 20;
    options.capacity_bytes = 64 << 20;
    std::unique_ptr<SimDisk> image;
    uint64_t cut_record = 0, behind = 0;
    {
        SimBench bench(disk, seed, 1);
        bench.options = options;
        ASSERT_TRUE(bench.create());
        Log& log = *bench.log;
        bench.run([&] {
            append(log, 1, 0, 4096 - kHead);
            ASSERT_TRUE(log.wait_durable(log.tail()));
            append(log, 1, 1, 16384 - kHead);
            for (uint64_t n = 2; n < 17; ++n) append(log, 1, n, kBig - kHead);
            cut_record = append(log, 1, 17, kBig - kHead).value;
            for (uint64_t n = 18; n < 33; ++n) append(log, 1, n, kBig - kHead);
            behind = log.tail().value;
            for (uint64_t n = 33; log.tail().value < kCut + kFlush; ++n)
                append(log, 1, n, 4096 - kHead);
            int flushes = 0;
            disk.observe([&](const threads::SimEvent& event) {
                if (event.kind != threads::SimEvent::submitted || event.bytes < kFlush / 2) return;
                if (++flushes == 2) image = disk.image(seed, SimCrash::keep_all);
            });
            ASSERT_TRUE(log.wait_durable(log.tail()));
            disk.observe(nullptr);
        });
    }
    ASSERT_TRUE(image);
    ASSERT_LT(cut_record, kCut);
    ASSERT_GT(cut_record + kBig, kCut);
    ASSERT_EQ(behind, cut_record + kFlush);
    const auto file = image->open("/store/log.00000000", 0);
    ASSERT_TRUE(file);
    const std::vector<std::byte> lost(kLogBlock);
    ASSERT_TRUE(image->write_now(*file, kCut, lost.data(), lost.size()));
    image->close(*file);
    std::vector<uint64_t> expected = numbers(*image, options);
    ASSERT_EQ(expected.size(), 17u);
    {
        SimBench bench(*image, seed, 1);
        bench.options = options;
        ASSERT_TRUE(bench.open(Lsn{4096}));
        ASSERT_EQ(bench.log->tail().value, cut_record);
        bench.run([&] {
            for (uint64_t n = 100; n < 116; ++n) {
                append(*bench.log, 9, n, kBig - kHead);
                expected.push_back(n);
            }
            ASSERT_EQ(bench.log->tail().value, behind);
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
    }
    EXPECT_EQ(numbers(*image, options), expected);
}

// Committers on two workers whose records cross many segments' ends. Whatever a power cut leaves,
// the part of a record that was durable is neither taken for damage nor for the record.
TEST(LogSegmentEnd, ADurableHalfIsATornTail) {
    for (uint64_t seed = seed_of_run(20261124), last = seed + 3; seed < last; ++seed) {
        SimDisk disk({.seed = seed});
        uint64_t acknowledged = 0;
        std::vector<std::pair<std::unique_ptr<SimDisk>, uint64_t>> images;
        Rng crash(seed);
        {
            SimBench bench(disk, seed);
            ASSERT_TRUE(bench.create());
            disk.observe([&](const threads::SimEvent& event) {
                // What was written last before the cut is the end of a segment, or follows it.
                const uint64_t at = bench.log ? bench.log->durable().value % kSegment : 1;
                if (event.kind == threads::SimEvent::renamed || (at != 0 && crash.chance(0.8)))
                    return;
                for (int i = 0; i < 3; ++i)
                    images.emplace_back(
                        disk.image(
                            crash.next(),
                            threads::kSimCrashes[crash.below(std::size(threads::kSimCrashes))]),
                        acknowledged);
            });
            for (uint32_t t = 0; t < 4; ++t)
                bench.spawn(t, [&, t] {
                    Rng rng(seed * 7 + t);
                    for (uint64_t n = 0; n < 25; ++n) {
                        append(*bench.log, t + 1, n, static_cast<uint32_t>(8 + rng.below(30'000)));
                        if (rng.chance(0.3)) threads::yield();
                        const uint64_t end = append_commit(*bench.log, t + 1);
                        if (rng.chance(0.3)) continue;
                        ASSERT_TRUE(bench.log->wait_durable(Lsn{end}));
                        acknowledged = std::max(acknowledged, end);
                    }
                });
            bench.finish();
            disk.observe(nullptr);
        }
        EXPECT_GT(images.size(), 100u);
        for (auto& [image, known] : images) {
            SimBench bench(*image, seed, 1);
            const auto opened = bench.open(Lsn{4096});
            ASSERT_TRUE(opened) << "seed " << seed << ": " << opened.error().text();
            EXPECT_GE(bench.log->tail().value, known);
        }
    }
}

}  // namespace lockstep::txn::test::log_segment_end_test
