// commits.cc - durable commits: what group commit makes of many user threads, and what durability
// costs TPC-C.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "tools/bench/bench.h"
#include "tools/bench/paired.h"
#include "tools/bench/raw_disk.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

// `threads` user threads commit one-record transactions until the time is over.
Result<void> commit_with(Store& store, Index index, uint32_t threads, const Settings& settings,
                         Report& report) {
    const StoreStats before = store.stats();
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(settings.seconds * 1e9);
    std::vector<Handle<uint64_t>> running;
    for (uint32_t t = 0; t < threads; ++t)
        running.push_back(store.start([&, t]() -> Result<uint64_t> {
            uint64_t commits = 0;
            std::string value(kRowBytes, 'c');
            while (clock.now() < end) {
                Txn txn = TRY(store.begin());
                value[commits % kRowBytes] ^= 1;
                TRY(index.update(txn, Key().u64(t), value));
                TRY(txn.commit());
                ++commits;
            }
            return commits;
        }));
    uint64_t commits = 0;
    for (auto& handle : running) commits += TRY(handle.join());
    const double seconds = static_cast<double>(clock.now() - begin) / 1e9;
    const StoreStats after = store.stats();
    report.measurement(fmt::format("durable commits, {} user threads", threads),
                       static_cast<double>(commits) / seconds, "1/s");
    report.measurement(
        "  syncs per commit",
        static_cast<double>(after.log_syncs - before.log_syncs) / static_cast<double>(commits), "");
    return {};
}

struct Commits {
    // CPU seconds a second; CPU us and log syncs a commit; sums over the slices.
    double busy = 0, cpu = 0, syncs = 0;
    decltype(tpcc::TypeStats::latency) new_order;
};

// TPC-C with `terminals` a warehouse, lazy and durable commits in turn on one database, in slices
// short enough for the host's mood to last.
Result<void> durable_against_lazy(Store& store, tpcc::Database& db, uint32_t terminals,
                                  const Settings& settings, Report& report) {
    constexpr int kRounds = 15;
    tpcc::RunSettings run;
    run.terminals = terminals;
    run.warmup = kSecond / 20;
    run.duration = static_cast<Nanos>(settings.seconds / 5 * 1e9);
    Paired rates(2);
    const auto sums = std::make_unique<Commits[]>(2);
    for (int round = 0; round <= kRounds; ++round) {
        // As in a store that has run for a while, segments of the log are used again.
        if (round % 4 == 0) TRY(store.checkpoint());
        for (const bool durable : {false, true}) {
            run.executor.durability = durable ? Durability::durable : Durability::lazy;
            ++run.seed;
            const double probe = probe_core();
            const StoreStats before = store.stats();
            const Nanos wall = MonotonicClock().now(), cpu = cpu_time();
            const auto done = TRY(tpcc::run_terminals(db, run, {}));
            const double cpu_used = static_cast<double>(cpu_time() - cpu),
                         elapsed = static_cast<double>(MonotonicClock().now() - wall);
            const StoreStats after = store.stats();
            if (round == 0) continue;  // the pool fills
            rates.add(durable, done->tx_per_s(), std::max(probe, probe_core()));
            const double commits = static_cast<double>(after.commits - before.commits);
            Commits& sum = sums[durable];
            sum.busy += cpu_used / elapsed / kRounds;
            sum.cpu += cpu_used / 1e3 / commits / kRounds;
            sum.syncs +=
                static_cast<double>(after.log_syncs - before.log_syncs) / commits / kRounds;
            sum.new_order.merge(
                done->stats.types[static_cast<size_t>(tpcc::TxnType::new_order)].latency);
        }
    }
    for (const bool durable : {false, true}) {
        const Commits& sum = sums[durable];
        const std::string name =
            fmt::format("TPC-C, {} terminals, {}", terminals * db.scale.warehouses,
                        durable ? "durable" : "lazy");
        rates.print(report, durable, name, "tx/s", false, terminals == 16 ? ">= 0.85" : "");
        report.note(fmt::format(
            "CPU: {:.1f} us a commit, busy {:.0f} % of the time; New-Order p50 {} us, p99 {} us, "
            "p99.9 {} us",
            sum.cpu, 100 * sum.busy, sum.new_order.percentile(0.5) / 1000,
            sum.new_order.percentile(0.99) / 1000, sum.new_order.percentile(0.999) / 1000));
    }
    report.measurement("  log syncs per commit", sums[1].syncs, "", "<= 0.1");
    return {};
}

// A log's segments are renamed when they are used again: any of them.
Result<std::string> some_segment(const std::string& directory) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error))
        if (entry.path().filename().string().starts_with("log.0")) return entry.path().string();
    return fail(ErrorCode::bad_path, "log segment");
}

// The two ways to a durable log write, in turn, on the segment of a log that is at rest.
Result<void> ways_to_flush(Store& store, const Settings& settings, Report& report) {
    TRY(store.close());
    const std::string segment = TRY(some_segment(settings.directory + "/commits"));
    for (const uint64_t bytes : {16ull << 10, 112ull << 10}) {
        std::vector<double> took[2];
        for (int round = 0; round < 5; ++round)
            for (const bool durable_write : {false, true})
                took[durable_write].push_back(
                    TRY(raw_flush(segment, bytes, durable_write, settings.seconds / 20)));
        for (auto& t : took) std::sort(t.begin(), t.end());
        report.measurement(fmt::format("flush of {} KB, write and linked sync", bytes >> 10),
                           took[0][2], "us");
        report.measurement(fmt::format("flush of {} KB, durable write", bytes >> 10), took[1][2],
                           "us");
    }
    return {};
}

Result<void> tpcc_commits(const Settings& settings, Report& report) {
    constexpr uint32_t kWarehouses = 4;
    Store store = TRY(
        Store::open(settings.directory + "/tpcc",
                    {.pool_bytes = (kWarehouses * 160ull + 1024) << 20, .log_bytes = 16ull << 30}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = kWarehouses}}, progress));
    for (const uint32_t terminals : {16u, 10u})
        TRY(durable_against_lazy(store, db, terminals, settings, report));
    return store.close();
}

}  // namespace

Result<void> bench_commits(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/commits"));
    const Index index = TRY(load_rows(store, 1000));
    for (const uint32_t threads : {1u, 8u, 64u})
        TRY(commit_with(store, index, threads, settings, report));
    TRY(ways_to_flush(store, settings, report));
    return tpcc_commits(settings, report);
}

}  // namespace lockstep::bench
