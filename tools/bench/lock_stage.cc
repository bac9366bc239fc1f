// lock_stage.cc - what the order of blocked lock requests does: one hot row, and TPC-C Payment on
// few warehouses.
//
// Concepts   Each policy has a store of its own; the policies run in turn, A B A B, and results are
//            medians over the pairs. Hot row: terminals think, then run a short or a long
//            transaction, half of each at random. The short one has one operation left when it asks
//            for the hot row, the long one ten. An operation takes a fixed time that is waited, not
//            computed (as for a page that is read), so the lock is held across waits and a busy
//            machine disturbs little.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kTerminals = 8;
constexpr uint32_t kLongOperations = 10;
constexpr Nanos kOperation = 200 * kMicrosecond;
constexpr Nanos kThink = 6 * kMillisecond;  // mean

struct Responses {
    double sum[2] = {}, count[2] = {};  // microseconds; short, long
    double seconds = 0;
    double mean_short() const { return sum[0] / count[0]; }
    double mean_long() const { return sum[1] / count[1]; }
    double mean() const { return (sum[0] + sum[1]) / (count[0] + count[1]); }
    double rate() const { return (count[0] + count[1]) / seconds; }
};

// The hot row is record 0; operation i of a terminal works on a record of its own.
Result<void> hot_transaction(Store& store, Index index, uint32_t terminal, bool is_long) {
    const uint32_t operations = is_long ? kLongOperations : 1;
    return store.run(
        [&](Txn& txn) -> Result<void> {
            std::string value(kRowBytes, 'h');
            for (uint32_t i = 0; i < operations; ++i) {
                TRY(index.update(txn, Key().u64(i == 0 ? 0 : 1 + terminal * kLongOperations + i),
                                 value));
                sleep_for(kOperation);
            }
            return {};
        },
        {.durability = Durability::lazy, .operations = operations});
}

Result<Responses> run_hot(Store& store, Index index, double seconds, uint64_t seed) {
    Responses all;
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(seconds * 1e9);
    std::vector<Handle<Responses>> running;
    for (uint32_t t = 0; t < kTerminals; ++t)
        running.push_back(store.start(
            [&, t]() -> Result<Responses> {
                Responses mine;
                Rng rng(seed * 1000 + t);
                while (now() < end) {
                    const double u = (static_cast<double>(rng.next() >> 11) + 1) * 0x1.0p-53;
                    sleep_for(static_cast<Nanos>(-std::log(u) * static_cast<double>(kThink)));
                    const bool is_long = rng.chance(0.5);
                    const Nanos start = now();
                    TRY(hot_transaction(store, index, t, is_long));
                    mine.sum[is_long] += static_cast<double>(now() - start) / 1000;
                    mine.count[is_long] += 1;
                }
                return mine;
            },
            0));
    for (auto& handle : running) {
        const Responses mine = TRY(handle.join());
        for (int k : {0, 1}) {
            all.sum[k] += mine.sum[k];
            all.count[k] += mine.count[k];
        }
    }
    all.seconds = static_cast<double>(clock.now() - begin) / 1e9;
    return all;
}

Result<Store> open_with(const Settings& settings, const std::string& name, LockPolicy policy,
                        Options options = {}) {
    options.lock_stage.policy = policy;
    return Store::open(settings.directory + "/" + name, options);
}

void print_stage(Report& report, const char* name, const StageStats& s) {
    report.note(fmt::format(
        "{}: {} waited {:.0f} us (p99 {:.0f}) behind {:.2f} others, {:.2f} granted together; {} "
        "overtaken, one {} times",
        name, s.entered, s.wait.mean() / 1000, static_cast<double>(s.wait.percentile(0.99)) / 1000,
        s.length.mean(), s.batch.mean(), s.bypasses, s.bypassed_max));
}

// Little's law over the measured time.
double waiting_on_average(const StageStats& s, double seconds) {
    return static_cast<double>(s.wait.sum) / 1e9 / seconds;
}

// One policy: its own store, and what its runs gave.
struct PaymentRuns {
    const char* name;
    LockPolicy policy;
    std::optional<Store> store = {};
    tpcc::Database db = {};
    std::vector<double> rates = {}, waits_us = {}, p99_us = {};
};

Result<void> open_payment(const Settings& settings, PaymentRuns& runs, const std::string& place,
                          const Options& options, uint32_t warehouses) {
    runs.store.emplace(TRY(open_with(settings, place + runs.name, runs.policy, options)));
    tpcc::LoadProgress progress;
    runs.db = TRY(tpcc::load(*runs.store, {.scale = {.warehouses = warehouses}}, progress));
    return {};
}

Result<void> run_payment(PaymentRuns& runs, const tpcc::RunSettings& run) {
    const auto report = TRY(tpcc::run_terminals(runs.db, run, {}));
    const auto& type = report->stats.types[static_cast<size_t>(tpcc::TxnType::payment)];
    runs.rates.push_back(report->tx_per_s());
    runs.waits_us.push_back(type.lock_wait.mean() / 1000);
    runs.p99_us.push_back(static_cast<double>(type.lock_wait.percentile(0.99)) / 1000);
    return {};
}

void print_payment(Report& report, PaymentRuns& runs, const PaymentRuns& fifo) {
    report.measurement(fmt::format("  {}: throughput", runs.name), median(runs.rates), "tx/s");
    report.measurement(fmt::format("  {}: lock wait, mean", runs.name), median(runs.waits_us),
                       "us");
    report.measurement(fmt::format("  {}: lock wait, p99", runs.name), median(runs.p99_us), "us");
    if (runs.store) print_stage(report, "  stage", runs.store->stats().lock_stage);
    if (&runs == &fifo) return;
    std::vector<double> ratios;
    for (size_t i = 0; i < runs.rates.size(); ++i) ratios.push_back(runs.rates[i] / fifo.rates[i]);
    report.measurement(fmt::format("  throughput, {} / fifo, pairs", runs.name), median(ratios),
                       "x");
}

// One configuration: the policies in turn.
Result<void> payment_pairs(const Settings& settings, Report& report, uint32_t warehouses,
                           uint32_t workers, StepsMode steps) {
    Options options{.workers = workers,
                    .pool_bytes = (warehouses * 160ull + 256) << 20,
                    .log_bytes = 8ull << 30};
    options.steps.mode = steps;
    PaymentRuns all[] = {{"fifo", LockPolicy::fifo},
                         {"short-first", LockPolicy::short_first},
                         {"local-first", LockPolicy::local_first}};
    const std::string place = fmt::format("{}w{}k{}", warehouses, workers, static_cast<int>(steps));
    for (PaymentRuns& runs : all) TRY(open_payment(settings, runs, place, options, warehouses));
    tpcc::RunSettings run;
    run.mix = tpcc::Mix::payment;
    run.warmup = kSecond / 10;
    run.duration = static_cast<Nanos>(settings.seconds * 1e9 / 4);
    for (int round = 0; round < 7; ++round, ++run.seed)
        for (PaymentRuns& runs : all) TRY(run_payment(runs, run));
    report.note(fmt::format("Payment, {} warehouses, {} workers, STEPS {}", warehouses, workers,
                            steps == StepsMode::on ? "on" : "off"));
    for (PaymentRuns& runs : all) {
        print_payment(report, runs, all[0]);
        TRY(runs.store->close());
    }
    return {};
}

}  // namespace

Result<void> bench_lock_stage(const Settings& settings, Report& report) {
    Store fifo = TRY(open_with(settings, "fifo", LockPolicy::fifo)),
          quick = TRY(open_with(settings, "short", LockPolicy::short_first));
    const Index fifo_rows = TRY(load_rows(fifo, 1000)), quick_rows = TRY(load_rows(quick, 1000));
    constexpr int kPairs = 7;
    std::vector<double> of_short, of_long, overall, rates, short_fifo, short_quick;
    const StageStats before = fifo.stats().lock_stage;
    double fifo_seconds = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
        const auto seed = static_cast<uint64_t>(pair) + 1;
        const Responses a = TRY(run_hot(fifo, fifo_rows, settings.seconds, seed)),
                        b = TRY(run_hot(quick, quick_rows, settings.seconds, seed));
        fifo_seconds += a.seconds;
        short_fifo.push_back(a.mean_short());
        short_quick.push_back(b.mean_short());
        of_short.push_back(b.mean_short() / a.mean_short());
        of_long.push_back(b.mean_long() / a.mean_long());
        overall.push_back(b.mean() / a.mean());
        rates.push_back(b.rate() / a.rate());
    }
    const StageStats f = fifo.stats().lock_stage.since(before), q = quick.stats().lock_stage;
    report.measurement("waiting for the hot row on average, fifo",
                       waiting_on_average(f, fifo_seconds), "", ">= 2");
    report.measurement("short transactions' mean response, fifo", median(short_fifo), "us");
    report.measurement("short transactions' mean response, short-first", median(short_quick), "us");
    report.measurement("  short-first / fifo, median of pairs", median(of_short), "x", "<= 0.70");
    report.measurement("long transactions, short-first / fifo", median(of_long), "x");
    report.measurement("all transactions, short-first / fifo", median(overall), "x", "< 1");
    report.measurement("throughput, short-first / fifo", median(rates), "x", ">= 1");
    report.measurement("most often overtaken", static_cast<double>(q.bypassed_max), "times",
                       fmt::format("<= {}", LockStageOptions{}.bypass_max));
    print_stage(report, "fifo", f);
    print_stage(report, "short-first", q);
    TRY(fifo.close());
    return quick.close();
}

Result<void> bench_lock_payment(const Settings& settings, Report& report) {
    for (const uint32_t warehouses : {1u, 2u}) {
        if (settings.warehouses != 0 && settings.warehouses != warehouses) continue;
        TRY(payment_pairs(settings, report, warehouses, 1, StepsMode::on));
        TRY(payment_pairs(settings, report, warehouses, 2, StepsMode::off));
    }
    return {};
}

}  // namespace lockstep::bench
