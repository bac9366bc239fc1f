// pool.cc - random fetches when the pool holds a tenth of the data, beside what the device itself gives at the same depth.
#include <fmt/core.h>

#include "sm/engine.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/io.h"
#include "tools/bench/bench.h"

namespace lockstep::bench {
namespace {

uint64_t resident_bytes() {
    unsigned long pages = 0;
    if (FILE* f = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(f, "%*u %lu", &pages) != 1) pages = 0;
        std::fclose(f);
    }
    return pages * 4096;
}

// Reads of 8 KB at random places of the data file, past our pool: the same queue and depth, nothing of the engine above it.
Result<double> device_reads(Store& store, const std::string& file, uint64_t pages, uint32_t threads, double seconds) {
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(seconds * 1e9);
    const threads::FileId id = TRY(store.engine().disk->open(file, threads::Disk::kDirect));
    std::vector<Handle<uint64_t>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<uint64_t> {
            Rng rng(t + 1);
            const threads::AlignedBuffer buffer = TRY(threads::make_aligned_buffer(kPageBytes));
            uint64_t reads = 0;
            for (; clock.now() < end; ++reads)
                TRY(threads::io_read(id, rng.below(pages) * kPageBytes, buffer.get(), kPageBytes, "benchmark"));
            return reads;
        }));
    uint64_t reads = 0;
    for (auto& handle : running) reads += TRY(handle.join());
    store.engine().disk->close(id);
    return static_cast<double>(reads) / (static_cast<double>(clock.now() - begin) / 1e9);
}

}  // namespace

Result<void> bench_pool(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 2ull << 30;
    const uint32_t threads = settings.threads != 0 ? settings.threads : 64;
    const uint64_t pool = bytes / 10;
    const uint64_t base = resident_bytes();
    Store store = TRY(Store::open(settings.directory + "/pool", {.pool_bytes = pool, .log_bytes = 16ull << 30}));
    const uint64_t rows = rows_for(bytes);
    const Index index = TRY(load_rows(store, rows));
    TRY(store.checkpoint());
    const MonotonicClock clock;
    const StoreStats before = store.stats();
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(settings.seconds * 1e9);
    std::vector<Handle<uint64_t>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<uint64_t> {
            Rng rng(1000 + t);
            std::byte buffer[kRowBytes];
            uint64_t fetches = 0;
            while (clock.now() < end) {
                Txn txn = TRY(store.begin({.durability = Durability::lazy}));
                for (int k = 0; k < 10; ++k, ++fetches) TRY(index.get(txn, Key().u64(rng.below(rows)), buffer));
                TRY(txn.commit());
            }
            return fetches;
        }));
    uint64_t fetches = 0;
    for (auto& handle : running) fetches += TRY(handle.join());
    const double seconds = static_cast<double>(clock.now() - begin) / 1e9;
    const StoreStats after = store.stats();
    const double reads = static_cast<double>(after.page_reads - before.page_reads) / seconds;
    report.figure("fetches", static_cast<double>(fetches) / seconds, "1/s");
    report.figure("page reads", reads, "1/s");
    const double raw = TRY(device_reads(store, settings.directory + "/pool/data", after.pages_total, threads, settings.seconds));
    report.figure("device alone, same depth", raw, "reads/s");
    report.figure("share of the device", 100 * reads / raw, "%");
    const auto promised = static_cast<double>(after.memory_pool + after.memory_locks + after.memory_log + after.memory_stacks);
    report.figure("memory beyond the process's own", static_cast<double>(resident_bytes() - base) / 1048576.0, "MB");
    report.figure("configured memory (pool, locks, log, stacks)", promised / 1048576.0, "MB");
    return store.close();
}

}  // namespace lockstep::bench
