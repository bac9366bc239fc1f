// labels: sim
// log_ring_test.cc - a ring that is full to the last byte, while its flush is in flight: what the
// flusher still needs is not overwritten.
#include <cstring>
#include <filesystem>

#include "tests/txn/log/log_sim_util.h"
#include "txn/log/log_ring.h"

namespace lockstep::txn::test::log_ring_test {

using threads::SimDisk;

// Reads the log from its begin, as a restart does. The number of records.
uint64_t read_back(threads::Disk& disk, const LogOptions& options) {
    LogReader reader(disk, options);
    LogRecordView record;
    uint64_t n = 0;
    for (;;) {
        const auto more = reader.next(record);
        EXPECT_TRUE(more.has_value()) << more.error().text();
        if (!more.has_value() || !*more) return n;
        EXPECT_EQ(check_record(record), n) << "record at " << record.lsn.value;
        ++n;
    }
}

// Appends `bytes` of log in records of `payload` bytes; `pause` runs after each. Then reads them
// back, before and after the log was opened again.
void fill_ring(uint64_t seed, uint32_t payload, uint64_t bytes, void (*pause)(Rng&)) {
    SimDisk disk({.seed = seed});
    uint64_t count = 0, tail = 0;
    LogOptions options;
    {
        SimBench bench(disk, seed, 1);
        bench.options.segment_bytes = 4 << 20;
        bench.options.capacity_bytes = 16 << 20;
        options = bench.options;
        ASSERT_TRUE(bench.create());
        bench.run([&] {
            Rng rng(seed);
            while (bench.log->tail().value < bytes) {
                append(*bench.log, 1, count++, payload);
                pause(rng);
            }
            ASSERT_TRUE(bench.log->wait_durable(bench.log->tail()));
        });
        EXPECT_GT(bench.log->stats().ring_full_waits, 0u);
        tail = bench.log->tail().value;
    }
    EXPECT_EQ(read_back(disk, options), count);
    SimBench bench(disk, seed, 1);
    bench.options = options;
    const auto opened = bench.open(Lsn{4096});
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_EQ(bench.log->tail().value, tail);
}

size_t open_files() {
    const auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(LogRing, KeepsNoFileOpen) {
    const size_t before = open_files();
    const auto ring = LogRing::make(1 << 20);
    ASSERT_TRUE(ring) << ring.error().text();
    EXPECT_EQ(open_files(), before);
    std::memset(ring->at((1 << 20) - 8), 'x', 16);
    EXPECT_EQ(ring->at(0)[7], std::byte{'x'});
}

// Small records end anywhere in a block, so the first block of most flushes is half written, and
// the ring becomes full to its last bytes.
TEST(LogRing, AFullRingKeepsTheBlockThatIsWrittenAgain) {
    const uint64_t seed = seed_of_run(20261124);
    for (const uint32_t payload : {24u, 200u, 1000u})
        fill_ring(seed, payload, 6 << 20, [](Rng&) {});
}

// Appenders go on while a flush is in flight, up to the limit.
TEST(LogRing, AFlushInFlightKeepsItsBytes) {
    const uint64_t seed = seed_of_run(20261124);
    for (const uint32_t payload : {200u, 5000u, 60000u})
        fill_ring(seed, payload, 10 << 20, [](Rng& rng) {
            if (rng.chance(0.2)) threads::yield();
            if (rng.chance(0.005)) threads::sleep_until(threads::now() + 30 * kMicrosecond);
        });
}

}  // namespace lockstep::txn::test::log_ring_test
