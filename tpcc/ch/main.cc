// main.cc - `lockstep-ch`: queries of CH-benCHmark over the live tables of a running TPC-C mix.
//
// Concepts   The program loads the tables, compares the answers of all queries with a plain
//            evaluation by cursors, runs the mix alone, then beside streams of queries, compares
//            again, and checks the conditions of TPC-C. A stream is a user thread that repeats the
//            queries in random order, each in a report of its own, which may share its state with
//            others (--max-age).
//            *Freshness* is how long ago, and how many commits ago, the state of a report was first
//            seen when the report begins.
//            Exit status: 0; 1 if an answer or a condition is wrong; 2 for errors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include <lockstep/sync.h>
#include "threads/base/try.h"
#include "tools/base/build_info.h"
#include "tools/base/option_checks.h"
#include "tools/base/option_names.h"
#include "tools/base/parse_failure.h"
#include "tools/base/say.h"
#include "tools/base/standard_files.h"
#include "tools/base/text_file.h"
#include "tpcc/ch/queries.h"
#include "tpcc/ch/tables.h"
#include "tpcc/consistency.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"
#include "tpcc/time_of_day.h"

namespace lockstep::tpcc::ch {
namespace {

constexpr size_t kQueries = kQueryNames.size();

struct Settings {
    std::string path, json;
    uint32_t warehouses = 1, workers = 2, streams = 4;
    double seconds = 10, max_age = 1;
    uint64_t seed = 1;
    AnswerOptions answer;
};

const Names<ScanPolicy> kPolicyNames = {
    {"automatic", ScanPolicy::automatic}, {"normal", ScanPolicy::normal},
    {"attach", ScanPolicy::attach},       {"elevator", ScanPolicy::elevator},
    {"relevance", ScanPolicy::relevance}, {"full", ScanPolicy::full}};

const Names<Sharing> kSharingNames = {
    {"none", Sharing::none}, {"pipeline", Sharing::pipeline}, {"cycle", Sharing::cycle}};

Nanos nanos(double seconds) { return static_cast<Nanos>(seconds * 1e9); }

// What the streams did. Plain numbers under `mutex`.
struct Work {
    Mutex mutex;
    std::array<uint64_t, kQueries> done{};
    std::array<double, kQueries> seconds{};
    // State of the store -> when it was first seen: time and commits.
    std::map<Lsn, std::pair<Nanos, uint64_t>> states;
    double age_ms = 0, age_ms_max = 0, age_commits = 0;
    uint64_t reports = 0;
};

class Streams {
public:
    Streams(Database& db, const Settings& settings) : db_(db), settings_(settings) {}

    Result<void> begin() {
        for (uint32_t i = 0; i < settings_.streams; ++i)
            handles_.push_back(db_.store->start([this, i]() -> Result<void> { return stream(i); }));
        return {};
    }
    Result<void> end() {
        stop_.store(true);
        for (auto& handle : handles_) TRY(handle.join());
        return {};
    }
    const Work& work() const { return work_; }

private:
    Result<void> stream(uint64_t number) {
        Rng rng = Rng(settings_.seed).fork(1000 + number);
        while (!stop_.load()) {
            const auto query = static_cast<QueryId>(rng.below(kQueries));
            const Constants by = draw(query, db_, rng);
            const Nanos began = clock_.now();
            Report report = TRY(db_.store->report({.max_age = nanos(settings_.max_age)}));
            note_state(report.sees(), began);
            TRY(answer(query, by, report, settings_.answer));
            const std::lock_guard lock(work_.mutex);
            ++work_.done[static_cast<size_t>(query)];
            work_.seconds[static_cast<size_t>(query)] +=
                static_cast<double>(clock_.now() - began) / 1e9;
        }
        return {};
    }

    void note_state(Lsn sees, Nanos now) {
        const uint64_t commits = db_.store->stats().commits;
        const std::lock_guard lock(work_.mutex);
        const auto [state, fresh] = work_.states.try_emplace(sees, now, commits);
        const double age = static_cast<double>(std::max<Nanos>(now - state->second.first, 0)) / 1e6;
        work_.age_ms += age;
        work_.age_ms_max = std::max(work_.age_ms_max, age);
        work_.age_commits += static_cast<double>(commits - std::min(commits, state->second.second));
        ++work_.reports;
    }

    Database& db_;
    const Settings& settings_;
    const MonotonicClock clock_;
    std::atomic<bool> stop_{false};
    std::vector<Handle<void>> handles_;
    Work work_;
};

// Compares each query with its plain evaluation, while nothing changes the tables. The number of
// wrong answers.
Result<uint32_t> compare_answers(Database& db, const Settings& settings, const char* when) {
    uint32_t wrong = 0;
    Rng rng(settings.seed);
    for (size_t i = 0; i < kQueries; ++i) {
        const auto query = static_cast<QueryId>(i);
        const Constants by = draw(query, db, rng);
        Report report = TRY(db.store->report());
        const Answer ours = TRY(answer(query, by, report, settings.answer));
        Answer expected;
        TRY(db.store->run(
            [&](Txn& txn) -> Result<void> {
                expected = TRY(naive_answer(query, by, db, txn));
                return {};
            },
            {.isolation = Isolation::snapshot, .read_only = true}));
        if (ours == expected) continue;
        ++wrong;
        say_error("lockstep-ch: {}: {} gives {} rows, cursors {}, or other sums\n", when,
                  kQueryNames[i], ours.size(), expected.size());
    }
    say("answers {}: {} of {} equal those of cursors\n", when, kQueries - wrong, kQueries);
    return wrong;
}

double p99_ms(const RunReport& run) {
    const auto& type = run.stats.types[static_cast<size_t>(TxnType::new_order)];
    return static_cast<double>(type.latency.percentile(0.99)) / 1e6;
}

using Json = nlohmann::ordered_json;

Json print_results(const RunReport& alone, const RunReport& beside, const Work& work,
                   const ReportStats& before, const ReportStats& after, double seconds) {
    Json json;
    const auto figure = [&](const char* name, double value, const char* unit) {
        say("{:<34} {:>12.2f} {}\n", name, value, unit);
        json[name] = value;
    };
    figure("New-Orders a minute, alone", alone.new_orders_per_minute(), "");
    figure("New-Orders a minute, beside", beside.new_orders_per_minute(), "");
    figure("kept share", beside.tx_per_s() / std::max(alone.tx_per_s(), 1e-9), "");
    figure("New-Order p99, alone", p99_ms(alone), "ms");
    figure("New-Order p99, beside", p99_ms(beside), "ms");
    uint64_t queries = 0;
    for (size_t i = 0; i < kQueries; ++i) {
        queries += work.done[i];
        const std::string name = fmt::format("{}, mean of {}", kQueryNames[i], work.done[i]);
        figure(name.c_str(),
               1e3 * work.seconds[i] / std::max<double>(1, static_cast<double>(work.done[i])),
               "ms");
    }
    figure("queries an hour", static_cast<double>(queries) / seconds * 3600, "");
    const auto reports = std::max<double>(1, static_cast<double>(work.reports));
    figure("freshness", work.age_ms / reports, "ms");
    figure("freshness, worst", work.age_ms_max, "ms");
    figure("freshness, commits", work.age_commits / reports, "");
    const auto made = static_cast<double>(after.made - before.made);
    figure("sharing factor",
           (made + static_cast<double>(after.shared - before.shared)) / std::max(made, 1.0),
           "scans a chunk made");
    figure("chunks made", made, "");
    figure("chunks made again", static_cast<double>(after.made_again - before.made_again), "");
    figure("operators", static_cast<double>(after.answers.operators), "");
    figure("operators shared", static_cast<double>(after.answers.shared), "");
    figure("sharing misses", static_cast<double>(after.answers.sharing_misses), "");
    figure("reports that ran as one", static_cast<double>(after.answers.together), "");
    figure("states of the store", static_cast<double>(after.states - before.states), "");
    return json;
}

Result<Database> open_tables(Store& store, const Settings& settings) {
    if (!has_tables(store)) {
        LoadProgress progress;
        TRY(load(store,
                 {.scale = {.warehouses = settings.warehouses},
                  .seed = settings.seed,
                  .load_time = clock_offset() + static_cast<Time>(MonotonicClock().now())},
                 progress));
    }
    TRY(load_tables(store, settings.seed));
    return open_database(store);
}

// True: all answers and conditions are right.
Result<bool> work_on(Store& store, const Settings& settings) {
    Database db = TRY(open_tables(store, settings));
    uint32_t wrong = TRY(compare_answers(db, settings, "after the load"));
    RunSettings run;
    run.seed = settings.seed;
    run.executor.clock_offset = clock_offset();
    run.warmup = nanos(std::min(1.0, settings.seconds / 4));
    run.duration = nanos(settings.seconds);
    const auto alone = TRY(run_terminals(db, run, {}));
    const ReportStats before = store.report_stats();
    Streams streams(db, settings);
    const MonotonicClock clock;
    const Nanos began = clock.now();
    TRY(streams.begin());
    run.seed += 1;
    const auto beside = run_terminals(db, run, {});
    TRY(streams.end());
    if (!beside) return std::unexpected(beside.error());
    const double seconds = static_cast<double>(clock.now() - began) / 1e9;
    Json json =
        print_results(*alone, **beside, streams.work(), before, store.report_stats(), seconds);
    wrong += TRY(compare_answers(db, settings, "after the run"));
    const ConsistencyReport audit = TRY(check_consistency(db));
    say("conditions of TPC-C: {}\n", audit.ok() ? "all hold" : "BROKEN");
    json["wrong answers"] = wrong;
    json["conditions hold"] = audit.ok();
    if (!settings.json.empty()) TRY(write_text_file(settings.json, json.dump(2) + "\n", "--json"));
    return wrong == 0 && audit.ok();
}

int run(int argc, char** argv) {
    CLI::App app{"Queries of CH-benCHmark beside a TPC-C mix, on one store."};
    app.name("lockstep-ch");
    app.failure_message(parse_failure);
    show_one_name(app);
    app.set_version_flag("--version", version_text("lockstep-ch"));
    Settings settings;
    app.add_option("--path", settings.path, "Directory of the store: new, or of an earlier run")
        ->required();
    app.add_option("--json", settings.json, "Write the results to this file");
    app.add_option("-w,--warehouses", settings.warehouses, "Warehouses to load")
        ->check(CLI::Range(1u, kWarehousesMax))
        ->capture_default_str();
    app.add_option("--workers", settings.workers, "Kernel threads of the store")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    app.add_option("--streams", settings.streams, "Streams of queries")
        ->check(CLI::Range(0u, 1000u))
        ->capture_default_str();
    app.add_option("--seconds", settings.seconds, "Length of each of the two runs")
        ->check(number_in(0.1, 1e6))
        ->capture_default_str();
    app.add_option("--max-age", settings.max_age, "How old a report's state may be, in seconds")
        ->check(number_in(0, 1e6))
        ->capture_default_str();
    app.add_option("--policy", settings.answer.policy, "How passes choose (default: automatic)")
        ->transform(chosen_from(kPolicyNames));
    app.add_option("--sharing", settings.answer.sharing, "What reports share (default: pipeline)")
        ->transform(chosen_from(kSharingNames));
    app.add_option("--seed", settings.seed, "Seed of all that is drawn")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    auto store =
        Store::open(settings.path, {.workers = settings.workers,
                                    .pool_bytes = (settings.warehouses * 160ull + 256) << 20,
                                    .log_bytes = 4ull << 30,
                                    .version_bytes = 1ull << 30,
                                    // The plain evaluation by cursors computes for long.
                                    .slice_warning = std::nullopt});
    if (!store) {
        say_error("lockstep-ch: {}: {}\n", settings.path, store.error().text());
        return 2;
    }
    const Result<bool> right = work_on(*store, settings);
    if (!right.has_value()) say_error("lockstep-ch: {}\n", right.error().text());
    const auto closed = store->close();
    if (!closed) say_error("lockstep-ch: {}: {}\n", settings.path, closed.error().text());
    if (!right.has_value() || !closed) return 2;
    return *right ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::tpcc::ch

int main(int argc, char** argv) {
    lockstep::hold_standard_files();
    return lockstep::run_flushed("lockstep-ch", 2,
                                 [&] { return lockstep::tpcc::ch::run(argc, argv); });
}
