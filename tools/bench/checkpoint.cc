// checkpoint.cc - the stage's order for write-back, and what a checkpoint does to the slowest
// New-Orders.
#include <fmt/core.h>

#include <algorithm>

#include "sm/api/engine_of.h"
#include "sm/recovery/recovery.h"
#include "threads/io/aligned_buffer.h"
#include "threads/worker/io_wait.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kPagesAtOnce = 64;

// Writes the pages in the order given, a batch at a time as a checkpoint does, then syncs. Pages a
// second.
Result<double> write_back(threads::FileId file, const std::vector<uint64_t>& pages,
                          std::byte* memory, threads::IoMode mode) {
    threads::set_io_mode(mode);
    auto requests = std::make_unique<threads::IoRequest[]>(kPagesAtOnce);
    const Nanos begin = threads::now();
    for (size_t at = 0; at < pages.size(); at += kPagesAtOnce) {
        const size_t n = std::min<size_t>(kPagesAtOnce, pages.size() - at);
        for (size_t i = 0; i < n; ++i) {
            threads::IoRequest& r = requests[i] = {};
            r.kind = threads::IoKind::write;
            r.io_class = threads::IoClass::write_back;
            r.file = file;
            r.offset = pages[at + i] * kPageBytes;
            r.iov[0] = {memory + i * kPageBytes, kPageBytes};
            r.iov_count = 1;
            threads::io_start(r);
        }
        for (size_t i = 0; i < n; ++i) {
            threads::io_wait(requests[i], threads::ParkReason::io);
            if (requests[i].result < 0)
                return fail_os(ErrorCode::io_error, static_cast<int>(-requests[i].result),
                               "write-back");
        }
    }
    TRY(threads::io_sync(file, "write-back"));
    const double seconds = static_cast<double>(threads::now() - begin) / 1e9;
    threads::set_io_mode(threads::IoMode::staged);
    return static_cast<double>(pages.size()) / seconds;
}

// A file of which three pages in ten are dirty, in clusters, as a working set leaves them; written
// back in the order of their numbers through the stage, and in the order in which they got dirty
// with the stage's sorting and joining off.
Result<void> sorted_against_unsorted(const Settings& settings, Report& report) {
    const uint64_t file_pages = (settings.bytes != 0 ? settings.bytes : 1ull << 30) / kPageBytes;
    Store store = TRY(Store::open(settings.directory + "/write-back"));
    threads::Disk& disk = *sm::engine_of(store).disk;
    const threads::FileId file = TRY(disk.open(settings.directory + "/write-back/scratch",
                                               threads::Disk::kCreate | threads::Disk::kDirect));
    TRY(disk.allocate(file, file_pages * kPageBytes));
    std::vector<double> sorted_rates, unsorted_rates, ratios;
    TRY(on_user_thread(store, [&]() -> Result<void> {
        const threads::AlignedBuffer memory =
            TRY(threads::make_aligned_buffer(kPagesAtOnce * kPageBytes));
        Rng rng(1);
        std::vector<uint64_t> sorted;
        for (uint64_t page = 0; page < file_pages; ++page) {
            // A quarter of the clusters has most of the changes.
            const bool hot = page / 16 % 4 == 0;
            if (rng.below(100) < (hot ? 80u : 13u)) sorted.push_back(page);
        }
        std::vector<uint64_t> unsorted = sorted;
        for (size_t i = unsorted.size(); i > 1; --i)
            std::swap(unsorted[i - 1], unsorted[rng.below(i)]);
        for (int pair = 0; pair < 6; ++pair) {
            const double a =
                TRY(write_back(file, unsorted, memory.get(), threads::IoMode::unsorted));
            const double b = TRY(write_back(file, sorted, memory.get(), threads::IoMode::staged));
            // Gives the file its blocks.
            if (pair == 0) continue;
            unsorted_rates.push_back(a);
            sorted_rates.push_back(b);
            ratios.push_back(b / a);
        }
        return {};
    }));
    disk.close(file);
    report.measurement("write-back, unsorted", median(unsorted_rates), "pages/s");
    report.measurement("write-back, sorted and joined", median(sorted_rates), "pages/s");
    report.measurement("  gain, median of pairs", median(ratios), "times", ">= 1.3");
    return store.close();
}

struct Phase {
    // New-Order's p99.9 in us; transactions a second.
    double slowest = 0, rate = 0;
    uint64_t pages = 0;
};

// One interval of TPC-C, with checkpoints one after another in the background if asked for.
Result<Phase> phase(Store& store, tpcc::Database& db, const tpcc::RunSettings& run,
                    bool checkpoints) {
    std::atomic<bool> stop{false};
    const uint64_t before = store.stats().page_writes;
    std::optional<Handle<void>> running;
    if (checkpoints)
        running = store.start([&]() -> Result<void> {
            while (!stop.load()) TRY(sm::engine_of(store).checkpointer->run(false));
            return {};
        });
    const auto done = tpcc::run_terminals(db, run, {});
    stop.store(true);
    if (running) TRY(running->join());
    if (!done) return std::unexpected(done.error());
    const auto& latency =
        (*done)->stats.types[static_cast<size_t>(tpcc::TxnType::new_order)].latency;
    return Phase{static_cast<double>(latency.percentile(0.999)) / 1000, (*done)->tx_per_s(),
                 store.stats().page_writes - before};
}

Result<void> slowest_new_orders(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 4;
    Store store = TRY(
        Store::open(settings.directory + "/tpcc", {.pool_bytes = (warehouses * 160ull + 512) << 20,
                                                   .log_bytes = 16ull << 30,
                                                   .checkpoint_log_bytes = 512ull << 20}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    sm::engine_of(store).checkpointer->stop();  // from here on only those below
    TRY(store.checkpoint());
    tpcc::RunSettings run;
    run.warmup = kSecond / 4;
    run.duration = static_cast<Nanos>(settings.seconds * 1e9);
    for (const Durability durability : {Durability::lazy, Durability::durable}) {
        run.executor.durability = durability;
        std::vector<double> without, with, ratios, slower;
        uint64_t pages = 0;
        for (int pair = 0; pair < 5; ++pair) {
            const Phase a = TRY(phase(store, db, run, false));
            ++run.seed;
            const Phase b = TRY(phase(store, db, run, true));
            ++run.seed;
            without.push_back(a.slowest);
            with.push_back(b.slowest);
            ratios.push_back(b.slowest / a.slowest);
            slower.push_back(100 * b.rate / a.rate);
            pages += b.pages;
        }
        report.note(fmt::format("{} commits, {} warehouses, {} pages written by checkpoints",
                                durability == Durability::lazy ? "lazy" : "durable", warehouses,
                                pages));
        report.measurement("New-Order p99.9 without a checkpoint", median(without), "us");
        report.measurement("New-Order p99.9 during checkpoints", median(with), "us");
        report.measurement("  ratio, median of pairs", median(ratios), "times", "<= 2");
        report.measurement("  throughput during checkpoints", median(slower), "%");
    }
    return store.close();
}

}  // namespace

Result<void> bench_checkpoint(const Settings& settings, Report& report) {
    TRY(sorted_against_unsorted(settings, report));
    return slowest_new_orders(settings, report);
}

}  // namespace lockstep::bench
