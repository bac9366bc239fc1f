// reports.cc - reports over TPC-C: shared passes against single ones and against cursors, cold
// scans, staggered scans with a small pool, and the mix beside reports. All results are ratios.
//
// Concepts   Costs are CPU time of the process and variants alternate, so that other processes on
//            the machine disturb the ratios less. A report here is of the kind of CH-benCHmark's
//            Q1: sums of ORDER_LINE by the number of the line.
#include <lockstep/report.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "threads/base/try.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr const char* kLines = "order_line";
const ScanOptions kQuery1 = {
    .columns = {"ol_number", "ol_amount", "ol_quantity", "ol_delivery_d", "ol_i_id"}};

struct Sums {
    std::array<int64_t, 256> amount{}, quantity{}, rows{};
    bool operator==(const Sums&) const = default;
    void add(uint8_t number, int64_t of_amount, uint8_t of_quantity) {
        amount[number] += of_amount;
        quantity[number] += of_quantity;
        ++rows[number];
    }
};

Result<Sums> sum_blocks(lockstep::Scan scan) {
    Sums sums;
    TRY(scan.each([&](const Block& block) -> Result<bool> {
        const auto number = block.numbers<uint8_t>(0);
        const auto amount = block.numbers<int64_t>(1);
        const auto quantity = block.numbers<uint8_t>(2);
        for (size_t i = 0; i < number.size(); ++i) sums.add(number[i], amount[i], quantity[i]);
        return true;
    }));
    return sums;
}

// The same by a cursor. Its key ends with the number of the line.
Result<Sums> sum_records(Store& store, Isolation isolation) {
    const Index lines = TRY(store.index(kLines));
    return store.run(
        [&](Txn& txn) -> Result<Sums> {
            Sums sums;
            Cursor cursor = lines.scan(txn);
            while (TRY(cursor.next())) {
                int64_t amount;
                std::memcpy(&amount, cursor.value().data() + 8, sizeof amount);
                sums.add(static_cast<uint8_t>(cursor.key().back()), amount,
                         static_cast<uint8_t>(cursor.value()[24]));
            }
            return sums;
        },
        {.isolation = isolation, .read_only = true});
}

struct Cost {
    double cpu = 0, wall = 0;
    uint64_t pages = 0;  // read
};
// Of functions that run at once, each on a user thread; the i-th begins `apart` * i later. All must
// give the same sums.
template <class One>
Result<Cost> cost_of(Store& store, size_t count, Nanos apart, One one) {
    const Nanos cpu = cpu_time(), wall = MonotonicClock().now();
    const uint64_t pages = store.stats().page_reads;
    std::vector<Handle<Sums>> running;
    for (size_t i = 0; i < count; ++i)
        running.push_back(store.start([&, i]() -> Result<Sums> {
            if (i > 0 && apart > 0) sleep_for(apart * i);
            return one();
        }));
    std::optional<Sums> first;
    for (auto& handle : running) {
        const Sums sums = TRY(handle.join());
        if (!first) first = sums;
        if (sums != *first) return fail(ErrorCode::corrupt_page, "sums that differ");
    }
    return Cost{static_cast<double>(cpu_time() - cpu),
                static_cast<double>(MonotonicClock().now() - wall),
                store.stats().page_reads - pages};
}

Result<Cost> by_reports(Store& store, size_t count, Nanos apart = 0) {
    lockstep::Report report = TRY(store.report());
    return cost_of(store, count, apart,
                   [&]() -> Result<Sums> { return sum_blocks(TRY(report.scan(kLines, kQuery1))); });
}
Result<Cost> by_cursors(Store& store, size_t count, Isolation isolation, Nanos apart = 0) {
    return cost_of(store, count, apart, [&] { return sum_records(store, isolation); });
}

Result<void> shared_passes(Store& store, int rounds, Report& out) {
    std::vector<double> eight, many, cursors, cursor;
    for (int round = 0; round < rounds; ++round) {
        const double one = TRY(by_reports(store, 1)).cpu;
        const double k8 = TRY(by_reports(store, 8)).cpu, k32 = TRY(by_reports(store, 32)).cpu;
        const double c1 = TRY(by_cursors(store, 1, Isolation::snapshot)).cpu;
        const double c8 = TRY(by_cursors(store, 8, Isolation::snapshot)).cpu;
        eight.push_back(k8 / one);
        many.push_back(k32 / one);
        cursors.push_back(k8 / c8);
        cursor.push_back(one / c1);
    }
    out.measurement("8 reports at once : one, CPU", median(eight), "", "<= 2");
    out.measurement("32 reports at once : one, CPU", median(many), "", "<= 5");
    out.measurement("a pass for 8 reports : 8 cursors, CPU", median(cursors), "", "<= 0.125");
    out.measurement("one report : one cursor, CPU", median(cursor), "", "<= 0.5");
    return {};
}

Options small_pool(const Settings& settings, uint64_t bytes) {
    return {.create = false, .workers = settings.workers, .pool_bytes = bytes};
}

// Each scan in a store that was just opened.
Result<void> cold_scans(const Settings& settings, const std::string& path, uint64_t bytes,
                        int rounds, Report& out) {
    std::vector<double> snapshots, reports;
    for (int round = 0; round < rounds; ++round) {
        double wall[3];
        for (int n = 0; n < 3; ++n) {
            const int what = round % 2 == 0 ? n : 2 - n;
            Store store = TRY(Store::open(path, small_pool(settings, bytes)));
            const Cost cost =
                what == 2
                    ? TRY(by_reports(store, 1))
                    : TRY(by_cursors(store, 1,
                                     what == 0 ? Isolation::read_committed : Isolation::snapshot));
            wall[what] = cost.wall;
            TRY(store.close());
        }
        snapshots.push_back(wall[1] / wall[0]);
        reports.push_back(wall[2] / wall[0]);
    }
    out.measurement("cold scan, snapshot : read_committed, time", median(snapshots), "", "<= 1.05");
    out.measurement("cold scan, report : read_committed, time", median(reports), "", "<= 1.05");
    return {};
}

// Four scans, each a quarter of a scan's time behind the one before.
Result<void> staggered_scans(const Settings& settings, const std::string& path, uint64_t bytes,
                             Report& out) {
    Store store = TRY(Store::open(path, small_pool(settings, bytes)));
    const Cost one = TRY(by_reports(store, 1));
    const Nanos apart = static_cast<Nanos>(one.wall / 4);
    const Cost passes = TRY(by_reports(store, 4, apart));
    const Cost cursor = TRY(by_cursors(store, 1, Isolation::snapshot));
    const Cost cursors =
        TRY(by_cursors(store, 4, Isolation::snapshot, static_cast<Nanos>(cursor.wall / 4)));
    const auto table = static_cast<double>(one.pages);
    out.measurement("4 staggered reports, pool of 25%: tables read",
                    static_cast<double>(passes.pages) / table, "", "<= 1.3");
    out.measurement("  4 staggered cursors, the same", static_cast<double>(cursors.pages) / table,
                    "");
    return store.close();
}

// What runs beside the mix.
enum Beside : size_t { kAlone, kIdleSnapshot, kEndless, kEachSecond, kBesides };
constexpr size_t kScans = 8;

struct MixRates {
    double commits = 0, p99 = 0, rate_of_cpu = 0, share = 0;
};

// One report with eight scans, whose functions run where its blocks are made.
Result<void> eight_scans(Store& store) {
    lockstep::Report report = TRY(store.report());
    std::vector<std::future<Result<Sums>>> sums;
    for (size_t i = 0; i < kScans; ++i)
        sums.push_back(std::async(std::launch::async, [&]() -> Result<Sums> {
            return sum_blocks(TRY(report.scan(kLines, kQuery1)));
        }));
    Result<void> all;
    for (auto& one : sums)
        if (const Result<Sums> sum = one.get(); !sum) all = std::unexpected(sum.error());
    return all;
}

// Until `stop`.
Result<void> repeat_reports(Store& store, Beside what, const std::atomic<bool>& stop) {
    const MonotonicClock clock;
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    if (what == kIdleSnapshot) {
        const lockstep::Report held = TRY(store.report());
        while (!stop.load()) pause();
        return {};
    }
    while (!stop.load()) {
        const Nanos next = clock.now() + kSecond;
        TRY(eight_scans(store));
        while (what == kEachSecond && !stop.load() && clock.now() < next) pause();
    }
    return {};
}

Result<MixRates> run_beside(tpcc::Database& db, Beside what, double seconds) {
    std::atomic<bool> stop{false};
    std::future<Result<void>> reading;
    if (what != kAlone)
        reading =
            std::async(std::launch::async, [&] { return repeat_reports(*db.store, what, stop); });
    tpcc::RunSettings run;
    run.warmup = kSecond / 5;
    run.duration = static_cast<Nanos>(seconds * static_cast<double>(kSecond));
    const Nanos cpu = cpu_time(), wall = MonotonicClock().now(),
                busy = db.store->report_stats().busy_nanos;
    const auto report = tpcc::run_terminals(db, run, {});
    const auto used = static_cast<double>(cpu_time() - cpu);
    const auto took = static_cast<double>(MonotonicClock().now() - wall);
    const auto scanned = static_cast<double>(db.store->report_stats().busy_nanos - busy);
    stop.store(true);
    MixRates rates;
    if (what != kAlone) TRY(reading.get());
    if (!report) return std::unexpected(report.error());
    rates.commits = (*report)->tx_per_s();
    rates.rate_of_cpu = rates.commits * static_cast<double>(run.warmup + run.duration) / used;
    rates.share = scanned / took;
    const auto& latency =
        (*report)->stats.types[static_cast<size_t>(tpcc::TxnType::new_order)].latency;
    rates.p99 = static_cast<double>(latency.percentile(0.99));
    return rates;
}

Result<std::vector<std::array<MixRates, kBesides>>> run_rounds(tpcc::Database& db, int rounds,
                                                               double seconds) {
    std::vector<std::array<MixRates, kBesides>> out;
    for (int round = 0; round <= rounds; ++round) {
        std::array<MixRates, kBesides> all;
        for (size_t n = 0; n < kBesides; ++n) {
            const size_t what = round % 2 == 0 ? n : kBesides - 1 - n;
            all[what] = TRY(run_beside(db, static_cast<Beside>(what), seconds));
        }
        if (round > 0) out.push_back(all);  // the first warms up
    }
    return out;
}

Result<void> mix_beside(const Settings& settings, const std::string& path, uint32_t scan_workers,
                        int rounds, Report& out) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 2;
    Store store = TRY(Store::open(path, {.create = false,
                                         .workers = 1,
                                         .pool_bytes = (warehouses * 160ull + 1024) << 20,
                                         .log_bytes = 8ull << 30,
                                         .version_bytes = 1ull << 30,
                                         .scan_share = 0.25,
                                         .scan_workers = scan_workers}));
    tpcc::Database db = TRY(tpcc::open_database(store));
    const auto all = TRY(run_rounds(db, rounds, settings.seconds / 2));
    const auto ratio = [&](Beside what, Beside base, double MixRates::*field) {
        std::vector<double> ratios;
        for (const auto& round : all) ratios.push_back(round[what].*field / round[base].*field);
        return median(ratios);
    };
    const char* const where = scan_workers != 0 ? "a scan worker" : "scan_share 0.25";
    const auto add = [&](const char* name, double value, const char* goal) {
        out.measurement(fmt::format("mix, {}: {}", where, name), value, "", goal);
    };
    add("idle report : alone", ratio(kIdleSnapshot, kAlone, &MixRates::commits), ">= 0.95");
    if (scan_workers != 0) {
        add("8 endless reports : idle report", ratio(kEndless, kIdleSnapshot, &MixRates::commits),
            ">= 0.95");
        add("8 endless reports : alone", ratio(kEndless, kAlone, &MixRates::commits), ">= 0.85");
        add("8 reports a second : alone", ratio(kEachSecond, kAlone, &MixRates::commits),
            ">= 0.95");
        add("  New-Order p99, the same", ratio(kEachSecond, kAlone, &MixRates::p99), "<= 1.2");
        return store.close();
    }
    std::vector<double> shares;
    for (const auto& round : all) shares.push_back(round[kEndless].share);
    add("8 endless reports : alone, a CPU second", ratio(kEndless, kAlone, &MixRates::rate_of_cpu),
        ">= 0.7");
    add("  share of the passes in the time of the worker", median(shares), "0.20 .. 0.30");
    return store.close();
}

}  // namespace

Result<void> bench_reports(const Settings& settings, Report& report) {
    constexpr int kRounds = 5;
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 2;
    const std::string path = settings.directory + "/reports";
    Store store = TRY(Store::open(path, {.workers = settings.workers,
                                         .pool_bytes = (warehouses * 160ull + 1024) << 20,
                                         .log_bytes = 8ull << 30}));
    tpcc::LoadProgress progress;
    TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    TRY(store.checkpoint());    // what the load has left would be written meanwhile
    TRY(by_reports(store, 1));  // warms up
    TRY(shared_passes(store, 3 * kRounds, report));  // a few milliseconds each
    TRY(store.close());
    // ORDER_LINE has some 23 MB a warehouse.
    const uint64_t quarter = std::max<uint64_t>((warehouses * 23ull << 20) / 4, 4 << 20);
    TRY(cold_scans(settings, path, quarter, kRounds, report));
    TRY(staggered_scans(settings, path, quarter, report));
    for (const uint32_t scan_workers : {1u, 0u})
        TRY(mix_beside(settings, path, scan_workers, kRounds, report));
    return {};
}

}  // namespace lockstep::bench
