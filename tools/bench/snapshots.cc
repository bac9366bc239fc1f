// snapshots.cc - TPC-C beside a reader that reads all tables again and again: as a snapshot, at
// read_committed, and without a reader; and the rate of such scans in a store at rest.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/consistency.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

enum Reader : size_t { kNone, kIdle, kReadCommitted, kSnapshot, kReaders };
constexpr const char* kNames[kReaders] = {"no reader", "an idle snapshot",
                                          "reader at read_committed", "snapshot reader"};

struct ReaderRates {
    double commits = 0, p99 = 0, rows = 0;
    double kept = 0;  // bytes of versions for each commit
};

// Reads all tables until `stop`; the number of rows.
Result<uint64_t> read_all(tpcc::Database& db, Isolation isolation, const std::atomic<bool>& stop) {
    uint64_t rows = 0;
    while (!stop.load()) rows += TRY(tpcc::check_consistency(db, isolation)).rows;
    return rows;
}

// Keeps one snapshot open until `stop`; the bytes of versions that this needed for each commit.
Result<uint64_t> hold_snapshot(Store& store, const std::atomic<bool>& stop) {
    Txn txn = TRY(store.begin({.isolation = Isolation::snapshot, .durability = Durability::lazy}));
    const StoreStats before = store.stats();
    while (!stop.load()) sleep_for(kMillisecond);
    const StoreStats after = store.stats();
    TRY(txn.commit());
    const uint64_t commits = std::max<uint64_t>(after.commits - before.commits, 1);
    return (after.version_bytes - std::min(before.version_bytes, after.version_bytes)) / commits;
}

Result<ReaderRates> run_beside(tpcc::Database& db, Reader reader, double seconds) {
    std::atomic<bool> stop{false};
    Handle<uint64_t> reading;
    const Nanos began = MonotonicClock().now();
    if (reader != kNone)
        reading = db.store->start([&, reader]() -> Result<uint64_t> {
            if (reader == kIdle) return hold_snapshot(*db.store, stop);
            return read_all(
                db, reader == kSnapshot ? Isolation::snapshot : Isolation::read_committed, stop);
        });
    tpcc::RunSettings run;
    run.warmup = kSecond / 5;
    run.duration = static_cast<Nanos>(seconds * static_cast<double>(kSecond));
    const auto report = tpcc::run_terminals(db, run, {});
    stop.store(true);
    ReaderRates rates;
    if (reader != kNone) {
        const auto read = static_cast<double>(TRY(reading.join()));
        // It has read during the warm-up, too.
        const auto took = static_cast<double>(MonotonicClock().now() - began);
        (reader == kIdle ? rates.kept : rates.rows) =
            reader == kIdle ? read : read / took * kSecond;
    }
    if (!report) return std::unexpected(report.error());
    rates.commits = (*report)->tx_per_s();
    rates.p99 = static_cast<double>((*report)
                                        ->stats.types[static_cast<size_t>(tpcc::TxnType::new_order)]
                                        .latency.percentile(0.99)) /
                1e3;
    return rates;
}

// Rows a second of one pass over all tables, nothing else running.
Result<double> scan_rate(tpcc::Database& db, Isolation isolation) {
    const tpcc::ConsistencyReport report = TRY(tpcc::check_consistency(db, isolation));
    return static_cast<double>(report.rows) / static_cast<double>(report.nanos) * 1e9;
}

}  // namespace

Result<void> bench_snapshots(const Settings& settings, Report& report) {
    constexpr int kRounds = 7;
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 4;
    Store store = TRY(Store::open(settings.directory + "/snapshots",
                                  {.workers = settings.workers,
                                   .pool_bytes = (warehouses * 160ull + 4096) << 20,
                                   .log_bytes = 32ull << 30,
                                   .version_bytes = 4ull << 30}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    std::vector<double> at_rest[2];
    for (int round = 0; round < kRounds; ++round)
        for (const bool snapshot : {round % 2 == 0, round % 2 != 0})
            at_rest[snapshot].push_back(
                TRY(scan_rate(db, snapshot ? Isolation::snapshot : Isolation::read_committed)));
    std::vector<double> commits[kReaders], p99[kReaders], rows[kReaders], kept, ratio, ratio_none,
        ratio_idle, ratio_p99;
    for (int round = 0; round <= kRounds; ++round) {
        ReaderRates rates[kReaders];
        for (size_t n = 0; n < kReaders; ++n) {
            const size_t reader = round % 2 == 0 ? n : kReaders - 1 - n;
            rates[reader] = TRY(run_beside(db, static_cast<Reader>(reader), settings.seconds / 2));
        }
        if (round == 0) continue;  // warms up
        for (size_t n = 0; n < kReaders; ++n) {
            commits[n].push_back(rates[n].commits);
            p99[n].push_back(rates[n].p99);
            rows[n].push_back(rates[n].rows);
        }
        kept.push_back(rates[kIdle].kept);
        ratio.push_back(rates[kSnapshot].commits / rates[kReadCommitted].commits);
        ratio_p99.push_back(rates[kSnapshot].p99 / rates[kReadCommitted].p99);
        ratio_idle.push_back(rates[kIdle].commits / rates[kNone].commits);
        ratio_none.push_back(rates[kSnapshot].commits / rates[kNone].commits);
    }
    for (size_t n = 0; n < kReaders; ++n) {
        report.measurement(fmt::format("mix, {} warehouses, {}", warehouses, kNames[n]),
                           median(commits[n]), "tx/s");
        report.measurement("  New-Order p99", median(p99[n]), "us");
        if (n == kIdle) report.measurement("  versions kept for a commit", median(kept), "bytes");
        if (n > kIdle) report.measurement("  rows read", median(rows[n]), "1/s");
    }
    report.measurement("beside a snapshot : beside read_committed, median of pairs", median(ratio),
                       "", ">= 0.9");
    report.measurement("  New-Order p99, the same", median(ratio_p99), "", "<= 1");
    report.measurement("beside an idle snapshot : alone, median of pairs", median(ratio_idle), "",
                       ">= 0.88");
    report.measurement("beside a snapshot : alone, median of pairs", median(ratio_none), "");
    report.measurement("rows of a scan at rest, read_committed", median(at_rest[0]), "1/s");
    report.measurement("rows of a scan at rest, snapshot", median(at_rest[1]), "1/s");
    report.measurement("the same : read_committed", median(at_rest[1]) / median(at_rest[0]), "",
                       ">= 1");
    return store.close();
}

}  // namespace lockstep::bench
