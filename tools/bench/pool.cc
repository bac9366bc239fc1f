// pool.cc - random fetches when the pool holds a tenth of the data, in turn with the bare device
// and with the stage switched off.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "sm/engine/engine.h"
#include "threads/worker/io_wait.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tools/bench/raw_disk.h"

namespace lockstep::bench {
namespace {

// Short ones: the device is shared, and its mood changes within seconds.
constexpr int kRounds = 12;

// Memory of this process in the machine. The proportional size, because the log's ring is mapped
// twice: the plain one counts it twice.
uint64_t resident_bytes() {
    std::ifstream in("/proc/self/smaps_rollup");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("Pss:")) return std::strtoull(line.c_str() + 4, nullptr, 10) * 1024;
    return 0;
}

Result<void> set_mode(Store& store, threads::IoMode mode) {
    for (uint32_t w = 0; w < store.options().workers; ++w)
        TRY(store
                .start(
                    [mode]() -> Result<void> {
                        threads::set_io_mode(mode);
                        return {};
                    },
                    static_cast<int>(w))
                .join());
    return {};
}

struct Rates {
    double fetches = 0, reads = 0;  // a second
    threads::IoStats io;
};

// `threads` user threads fetch random rows, ten to a transaction.
Result<Rates> fetch_for(Store& store, Index index, uint64_t rows, uint32_t threads, double seconds,
                        uint64_t seed) {
    const MonotonicClock clock;
    const StoreStats before = store.stats();
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(seconds * 1e9);
    std::vector<Handle<uint64_t>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<uint64_t> {
            Rng rng(seed * 1000 + t);
            std::byte buffer[kRowBytes];
            uint64_t fetches = 0;
            while (clock.now() < end) {
                Txn txn = TRY(store.begin({.durability = Durability::lazy}));
                for (int k = 0; k < 10 && clock.now() < end; ++k, ++fetches)
                    TRY(index.get(txn, Key().u64(rng.below(rows)), buffer));
                TRY(txn.commit());
            }
            return fetches;
        }));
    uint64_t fetches = 0;
    for (auto& handle : running) fetches += TRY(handle.join());
    const double took = static_cast<double>(clock.now() - begin) / 1e9;
    const StoreStats after = store.stats();
    return Rates{static_cast<double>(fetches) / took,
                 static_cast<double>(after.page_reads - before.page_reads) / took,
                 after.io.since(before.io)};
}

void report_stage(Report& report, const std::vector<Rates>& staged) {
    double pages = 0, calls = 0, batches = 0, depth = 0, depths = 0;
    for (const Rates& r : staged) {
        pages += static_cast<double>(
            r.io.classes[static_cast<size_t>(threads::IoClass::demand_read)].packets);
        calls += static_cast<double>(r.io.submissions);
        batches += static_cast<double>(r.io.batches);
        depth += static_cast<double>(r.io.depth.sum);
        depths += static_cast<double>(r.io.depth.count);
    }
    report.measurement("submission system calls per page", calls / pages, "", "<= 0.2");
    report.measurement("pages per batch", pages / batches, "");
    report.measurement("mean depth on the device", depth / depths, "requests", "> 16");
}

}  // namespace

Result<void> bench_pool(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 2ull << 30;
    const uint32_t threads = settings.threads != 0 ? settings.threads : 64;
    const uint64_t pool = bytes / 10;
    const uint64_t base = resident_bytes();
    Store store = TRY(
        Store::open(settings.directory + "/pool", {.pool_bytes = pool, .log_bytes = 16ull << 30}));
    const uint64_t rows = rows_for(bytes);
    const Index index = TRY(load_rows(store, rows));
    TRY(store.checkpoint());
    const uint64_t pages = store.stats().pages_total;
    std::vector<Rates> staged;
    std::vector<double> device, share, gain, alone;
    for (uint64_t round = 1; round <= kRounds; ++round) {
        const double raw_before = TRY(raw_reads(settings.directory + "/pool/data", pages, threads,
                                                settings.seconds / 8, round));
        staged.push_back(TRY(fetch_for(store, index, rows, threads, settings.seconds / 4, round)));
        const double raw =
            (raw_before + TRY(raw_reads(settings.directory + "/pool/data", pages, threads,
                                        settings.seconds / 8, 100 + round))) /
            2;
        TRY(set_mode(store, threads::IoMode::one_by_one));
        const Rates one =
            TRY(fetch_for(store, index, rows, threads, settings.seconds / 8, 200 + round));
        TRY(set_mode(store, threads::IoMode::staged));
        device.push_back(raw);
        share.push_back(100 * staged.back().reads / raw);
        alone.push_back(one.reads);
        gain.push_back(staged.back().reads / one.reads);
    }
    std::vector<double> fetches, reads;
    for (const Rates& r : staged) {
        fetches.push_back(r.fetches);
        reads.push_back(r.reads);
    }
    report.measurement("fetches", median(fetches), "1/s");
    report.measurement("page reads", median(reads), "1/s");
    report.measurement(fmt::format("bare device, depth {}", threads), median(device), "reads/s");
    report.measurement("share of the device", median(share), "%", ">= 90");
    report.note(fmt::format("rounds {:.1f} .. {:.1f} %",
                            *std::min_element(share.begin(), share.end()),
                            *std::max_element(share.begin(), share.end())));
    report.measurement("one request, one submission, wait", median(alone), "reads/s");
    report.measurement("  gain of the stage", median(gain), "times", ">= 3");
    report_stage(report, staged);
    const StoreStats after = store.stats();
    const auto promised = static_cast<double>(after.memory_pool + after.memory_locks +
                                              after.memory_log + after.memory_stacks);
    const auto taken = static_cast<double>(resident_bytes() - base);
    report.measurement("resident memory beyond the program's own", taken / 1048576.0, "MB");
    report.measurement("configured memory (pool, locks, log, stacks)", promised / 1048576.0, "MB");
    report.measurement("  resident over configured", 100 * (taken / promised - 1), "%", "<= 5");
    return store.close();
}

}  // namespace lockstep::bench
