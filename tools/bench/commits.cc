// commits.cc - durable commits: what group commit makes of many user threads, and what durability costs TPC-C.
#include <fmt/core.h>

#include <algorithm>

#include "tools/bench/bench.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

// `threads` user threads commit one-record transactions until the time is over.
Result<void> commit_with(Store& store, Index index, uint32_t threads, const Settings& settings, Report& report) {
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
    report.figure(fmt::format("durable commits, {} user threads", threads), static_cast<double>(commits) / seconds, "1/s");
    report.figure("  syncs per commit", static_cast<double>(after.log_syncs - before.log_syncs) / static_cast<double>(commits), "");
    return {};
}

// TPC-C with 64 terminals, durable and lazy commits in turn on one database.
Result<void> tpcc_durable_against_lazy(const Settings& settings, Report& report) {
    constexpr uint32_t kWarehouses = 4, kTerminals = 16;
    Store store = TRY(Store::open(settings.directory + "/tpcc", {.pool_bytes = (kWarehouses * 160ull + 512) << 20, .log_bytes = 16ull << 30}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = kWarehouses}}, progress));
    tpcc::RunSettings run;
    run.terminals = kTerminals;
    run.warmup = kSecond / 4;
    run.duration = static_cast<Nanos>(settings.seconds * 1e9);
    std::vector<double> rates[2], ratios, syncs;
    for (int pair = 0; pair < 5; ++pair) {
        for (const bool durable : {false, true}) {
            run.executor.durability = durable ? Durability::durable : Durability::lazy;
            const StoreStats before = store.stats();
            rates[durable].push_back(TRY(tpcc::run_terminals(db, run, {}))->tx_per_s());
            const StoreStats after = store.stats();
            ++run.seed;
            if (durable) syncs.push_back(static_cast<double>(after.log_syncs - before.log_syncs) / static_cast<double>(after.commits - before.commits));
        }
        ratios.push_back(100 * rates[1].back() / rates[0].back());
    }
    for (auto* v : {&rates[0], &rates[1], &ratios, &syncs}) std::sort(v->begin(), v->end());
    report.figure("TPC-C, 64 terminals, lazy commits", rates[0][2], "tx/s");
    report.figure("TPC-C, 64 terminals, durable commits", rates[1][2], "tx/s");
    report.figure("  durable / lazy, median of pairs", ratios[2], "%", ">= 85");
    report.note(fmt::format("pairs between {:.0f} and {:.0f} %", ratios.front(), ratios.back()));
    report.figure("  log syncs per commit", syncs[2], "", "<= 0.1");
    return store.close();
}

}  // namespace

Result<void> bench_commits(const Settings& settings, Report& report) {
    Store store = TRY(Store::open(settings.directory + "/commits"));
    const Index index = TRY(load_rows(store, 1000));
    for (const uint32_t threads : {1u, 8u, 64u}) TRY(commit_with(store, index, threads, settings, report));
    TRY(store.close());
    return tpcc_durable_against_lazy(settings, report);
}

}  // namespace lockstep::bench
