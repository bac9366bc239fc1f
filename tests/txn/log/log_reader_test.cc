// labels: unit
// log_reader_test.cc - sequential reading: chunks, segment ends, stops, and any bytes at all.
#include "tests/txn/log/log_sim_util.h"

namespace lockstep::txn::test::log_reader_test {

using threads::SimDisk;

// A log of `bytes` or more on a simulated disk; the LSNs of its records.
std::vector<Lsn> make_log(SimDisk& disk, uint64_t bytes, uint64_t seed) {
    std::vector<Lsn> lsns;
    SimBench bench(disk, seed);
    EXPECT_TRUE(bench.create());
    Rng rng(seed);
    bench.run([&] {
        for (uint64_t n = 0; bench.log->tail().value < bytes; ++n) {
            const uint32_t payload =
                rng.chance(0.05)
                    ? kLogRecordMax - 32
                    : static_cast<uint32_t>(8 + rng.below(rng.chance(0.2) ? 30000 : 300));
            lsns.push_back(append(*bench.log, 1, n, payload));
        }
    });
    return lsns;
}

TEST(LogReader, ReadsOverChunksAndSegmentsAndFromAnywhere) {
    const uint64_t seed = seed_of_run(20261121);
    SimDisk disk({.seed = seed});
    const std::vector<Lsn> lsns = make_log(disk, 5 << 20, seed);
    LogReader reader(disk, sim_options());
    LogRecordView record;
    uint64_t n = 0;
    for (; *reader.next(record); ++n) {
        ASSERT_EQ(record.lsn, lsns[n]);
        ASSERT_EQ(check_record(record), n);
    }
    EXPECT_EQ(n, lsns.size());
    EXPECT_FALSE(*reader.next(record));  // stays where it is
    Rng rng(seed);
    for (int i = 0; i < 200; ++i) {
        uint64_t at = rng.below(lsns.size());
        reader.seek(lsns[at]);
        EXPECT_EQ(reader.position(), lsns[at]);
        for (int k = 0; k < 3 && at < lsns.size(); ++k, ++at) {
            ASSERT_TRUE(*reader.next(record));
            ASSERT_EQ(check_record(record), at);
        }
    }
}

TEST(LogReader, FindsNothingWhereNoRecordBegins) {
    SimDisk disk({.seed = 1});
    const std::vector<Lsn> lsns = make_log(disk, 200000, 1);
    LogReader reader(disk, sim_options());
    LogRecordView record;
    for (uint64_t wrong : {uint64_t{0}, lsns[3].value + 8, lsns[3].value + 1, lsns[3].value - 4,
                           uint64_t{1} << 40, UINT64_MAX - 7, uint64_t{64 << 10} * 50}) {
        reader.seek(Lsn{wrong});
        const auto found = reader.next(record);
        ASSERT_TRUE(found.has_value()) << wrong;
        EXPECT_FALSE(*found) << wrong;
        EXPECT_EQ(reader.position().value, wrong);
    }
}

// A record moved to another place does not validate there: leftovers of recycled segments are
// nothing.
TEST(LogReader, RecordsAreTiedToTheirPlace) {
    SimDisk disk({.seed = 1});
    const std::vector<Lsn> lsns = make_log(disk, 100000, 1);
    ASSERT_TRUE(disk.rename("/store/log.00000000", "/store/log.00000009"));
    LogReader reader(disk, sim_options());
    LogRecordView record;
    for (const Lsn lsn : lsns) {
        reader.seek(lsn + 9 * sim_options().segment_bytes);
        EXPECT_FALSE(*reader.next(record));
    }
}

// Any bytes at all: an end, an error or a whole record, within bounds.
TEST(LogReader, SurvivesAnyBytes) {
    const uint64_t seed = seed_of_run(20261121);
    Rng rng(seed);
    SimDisk original({.seed = seed});
    const std::vector<Lsn> lsns = make_log(original, 300000, seed);
    for (int round = 0; round < 100; ++round) {
        auto disk = original.image(1, threads::SimCrash::keep_all);
        for (int hits = 0; hits < 20; ++hits) {
            char path[32];
            std::snprintf(path, sizeof path, "/store/log.%08u",
                          static_cast<unsigned>(rng.below(5)));
            const threads::FileId file = *disk->open(path, 0);
            uint64_t junk[4] = {rng.next(), rng.below(1 << 20), rng.below(64), UINT64_MAX};
            ASSERT_TRUE(disk->write_now(file, rng.below(8192) * 8, junk, 8 * (1 + rng.below(4))));
            disk->close(file);
        }
        LogReader reader(*disk, sim_options());
        LogRecordView record;
        for (uint64_t lsn = 4096; lsn < 300000; lsn += 8 * (1 + rng.below(100))) {
            reader.seek(Lsn{lsn});
            const auto more = reader.next(record);
            ASSERT_TRUE(more.has_value());
            if (*more) check_record(record);
        }
        SimBench bench(*disk, seed);
        const auto opened = bench.open(Lsn{4096});
        EXPECT_TRUE(opened || opened.error().code == ErrorCode::corrupt_log);
    }
}

}  // namespace lockstep::txn::test::log_reader_test
