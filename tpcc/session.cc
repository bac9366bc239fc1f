// session.cc - find or load the database, run, check, report.
#include "tpcc/session.h"

#include <fmt/format.h>

#include <filesystem>

#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "tools/base/say.h"
#include "tools/base/text_file.h"
#include "tpcc/ack.h"
#include "tpcc/csv_report.h"
#include "tpcc/delivery_log.h"
#include "tpcc/dump.h"
#include "tpcc/html_report.h"
#include "tpcc/json_report.h"
#include "tpcc/load_space.h"
#include "tpcc/loader.h"
#include "tpcc/run_record.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

// The live line, or a line of its own for each point without a terminal.
class ProgressLine {
public:
    explicit ProgressLine(const RunSettings& run) : run_(run) {}

    void show(const RunProgress& progress) {
        // What ends behind the measured interval has no line: it is neither warm-up nor run.
        const SeriesPoint* point = progress.newest;
        if (point && !point->measured && point->begin >= run_.warmup) return;
        if (on_terminal()) {
            show_line(text(progress));
        } else if (progress.newest_is_new) {
            say("{}\n", text(progress));
            flush_output();
        }
    }

private:
    // "running 6 of 30 s": the warm-up has a count of its own.
    std::string phase(Nanos elapsed, bool warming) const {
        if (warming)
            return fmt::format("warming up {:.0f} of {:.0f} s", seconds(elapsed),
                               seconds(run_.warmup));
        const double running = seconds(elapsed - run_.warmup);
        if (run_.transactions != 0) return fmt::format("running {:.0f} s", running);
        return fmt::format("running {:.0f} of {:.0f} s", running, seconds(run_.duration));
    }
    std::string text(const RunProgress& progress) const {
        if (!progress.newest)
            return fmt::format("{}: {} transactions",
                               phase(progress.elapsed, progress.elapsed < run_.warmup),
                               progress.completed);
        const SeriesPoint& point = *progress.newest;
        // A line of its own speaks of the interval that has just ended.
        const Nanos at = progress.newest_is_new ? point.end : progress.elapsed;
        const bool warming = progress.newest_is_new ? !point.measured : at < run_.warmup;
        const std::string begin = phase(at, warming);
        return fmt::format(
            "{}: {} tx/s, {} New-Orders a minute, p50 {:.2f} p99 {:.2f} ms, {} repeated{}", begin,
            rate_text(point.per_second(point.all.count)),
            rate_text(60 * point.per_second(point.types[0].count)),
            static_cast<double>(point.all.p50) / 1e6, static_cast<double>(point.all.p99) / 1e6,
            point.aborts_sum(),
            point.aborts_sum() > 0 ? " (" + aborts_text(point.aborts) + ")" : "");
    }

    const RunSettings& run_;
};

// Objects in the store, but no tables of this program: they belong to another one.
Result<void> refuse_foreign(Store& store) {
    if (store.list().empty()) return {};
    return fail(ErrorCode::already_exists,
                "the store holds objects of another program, and no TPC-C tables; choose an empty "
                "or new directory with --path");
}

}  // namespace

int Session::work() {
    Results results;
    results.settings = settings;
    results.options = store.options();
    auto db = find_database(results);
    if (!db) {
        print_error(path, db.error());
        return kExitError;
    }
    results.scale = db->scale;
    results.load_seed = db->seed;
    results.after = results.before = store.stats();
    if (settings.action == Action::dump) {
        const auto dumped = [&] {
            Watch watch(nullptr, interrupt, path_if_temporary());
            return dump_tables(*db, settings.dump_directory);
        }();
        if (dumped) say("tables written to {}\n", settings.dump_directory);
        else print_error(settings.dump_directory, dumped.error());
        return dumped ? 0 : kExitError;
    }
    const auto ran = settings.action == Action::run ? run(*db, results) : Result<void>();
    if (!ran) print_error(path, ran.error());
    // Written already now: an interrupt during the check ends the process.
    if (results.run) write_outputs(results);
    const Result<bool> checked = check(*db, results);
    if (!checked.has_value()) {
        results.check_failure = checked.error().text();
        print_error(path + ": the conditions could not be checked", checked.error());
    }
    bool written = write_outputs(results);
    if (results.run && !settings.picture_file.empty())
        written = draw_picture(results, settings.picture_file) && written;
    if (!ran || !checked.has_value() || !written) return kExitError;
    const bool sound_online = std::ranges::all_of(
        results.online_checks, [](const OnlineCheck& each) { return each.report.ok(); });
    if (!*checked || !sound_online) return kExitBroken;
    return results.run && results.run->ending == Ending::interrupted ? kExitInterrupted : 0;
}

Result<Database> Session::find_database(Results& results) {
    if (!has_tables(store)) {
        if (settings.action != Action::run)
            return fail(ErrorCode::no_such_object,
                        "the store holds no TPC-C tables; a run without --check-only and --dump "
                        "loads them");
        TRY(refuse_foreign(store));
        return load_database(results);
    }
    auto found = open_database(store);
    if (!found && (found.error().code == ErrorCode::no_such_record ||
                   found.error().code == ErrorCode::no_such_object))
        return fail(found.error().code,
                    "the load of this database was cut off; delete the directory, or choose "
                    "another one with --path, and load again");
    Database db = TRY(std::move(found));
    if (settings.warehouses && *settings.warehouses != db.scale.warehouses) {
        Unexpected refused = fail(ErrorCode::bad_option, "--warehouses");
        set_error_detail(
            refused.error(),
            fmt::format("the database has {}, and --warehouses asks for {}; leave "
                        "--warehouses out, or choose another directory with --path",
                        count_text(db.scale.warehouses, "warehouse"), *settings.warehouses));
        return refused;
    }
    say("reopened {}: {}\n", path, count_text(db.scale.warehouses, "warehouse"));
    return db;
}

Result<Database> Session::load_database(Results& results) {
    TRY(require_load_space(path, settings.warehouse_count(), results.options.log_bytes));
    LoadSettings load_settings;
    load_settings.scale.warehouses = settings.warehouse_count();
    load_settings.seed = settings.seed.value_or(1);
    load_settings.load_time =
        settings.run.executor.clock_offset + static_cast<Time>(MonotonicClock().now());
    LoadProgress progress;
    const Nanos start = MonotonicClock().now();
    Database db = TRY([&] {
        Watch watch(&progress, interrupt, path_if_temporary());
        return load(store, load_settings, progress);
    }());
    results.load_nanos = MonotonicClock().now() - start;
    say("loaded {}, {} rows, in {:.2f} s\n",
        count_text(load_settings.scale.warehouses, "warehouse"), progress.rows.load(),
        seconds(results.load_nanos));
    return db;
}

// Of each run: inputs of its own.
Result<void> Session::begin(Database& db, Results& results) {
    const Time began =
        settings.run.executor.clock_offset + static_cast<Time>(MonotonicClock().now());
    const RunRecord record = TRY(begin_run(db, settings.seed, began));
    results.settings.run.seed = record.seed;
    results.run_number = record.number;
    results.began = began;
    say("run {} of this database, --seed {}\n", uint32_t{record.number}, uint64_t{record.seed});
    flush_output();
    return {};
}

std::unique_ptr<RunReport> Session::measure(Database& db, const RunSettings& how) {
    ProgressLine line(how);
    auto report = measure_terminals(db, how, [&](const RunProgress& progress) {
        line.show(progress);
        return !interrupt.take();
    });
    show_line("");
    return report;
}

// Keeps the run of the knee, or one that was not complete.
Result<void> Session::ramp(Database& db, Results& results) {
    RunSettings& how = results.settings.run;
    double kept = how.rate.per_second;
    results.ramp = {.bound = static_cast<Nanos>(settings.ramp_ms * 1e6), .first = kept};
    for (;;) {
        const std::optional<double> next = results.ramp.next();
        if (!next) break;
        const double rate = *next;
        if (!results.ramp.steps.empty()) TRY(begin(db, results));
        how.rate.per_second = rate;
        auto report = measure(db, how);
        const bool complete = report->ending == Ending::complete;
        const RampStep& step = results.ramp.add(*report, rate);
        print_ramp_step(step);
        if (step.holds || !complete || !results.run) {
            results.run = std::move(report);
            kept = rate;
        }
        if (!complete) break;
    }
    how.rate.per_second = kept;
    return {};
}

Result<void> Session::run(Database& db, Results& results) {
    Settings& now = results.settings;
    TRY(begin(db, results));
    std::optional<DeliveryLog> deliveries;
    if (!settings.delivery_file.empty()) {
        deliveries =
            TRY(DeliveryLog::create(settings.delivery_file, settings.run.executor.clock_offset));
        now.run.on_deliveries = [&](std::span<const DeliveryResult> finished) {
            return deliveries->write(finished);
        };
    }
    OnlineAudit audit(db, settings.audit_every, [](const OnlineCheck& each) {
        show_line("");
        print_online_check(each);
    });
    if (settings.audit_every != 0) audit.start();
    if (settings.ramp_ms > 0) TRY(ramp(db, results));
    else results.run = measure(db, now.run);
    const Result<void> audited = settings.audit_every != 0 ? audit.stop() : Result<void>();
    results.online_checks = audit.checks();
    if (settings.audit_every != 0 && audited && results.online_checks.empty())
        say("--audit-every: the run ended before the first check\n");
    results.before = results.run->before;
    results.after = results.run->after;
    results.steps = results.run->steps;
    now.run.on_deliveries = nullptr;
    results.verdict = judge(results);
    print_run(results);
    // An interrupt during the check ends the process, and a file's last block with it.
    flush_output();
    if (results.run->ending == Ending::failed) return std::unexpected(results.run->failure);
    return audited;
}

Result<bool> Session::check(Database& db, Results& results) {
    Watch watch(nullptr, interrupt, path_if_temporary());
    results.consistency = TRY(check_consistency(db));
    print_consistency(results.consistency);
    if (settings.ack_check_file.empty()) return results.consistency.ok();
    const AckReport acks = TRY(check_acks(db, settings.ack_check_file));
    for (const std::string& fault : acks.faults) say("LOST    {}\n", fault);
    say("acknowledged: {} New-Orders, {} Payments, {} Deliveries; lost: {}\n", acks.new_orders,
        acks.payments, acks.deliveries, acks.faults.size());
    return results.consistency.ok() && acks.faults.empty();
}

// Each output is tried, whatever happens to the others.
bool Session::write_outputs(const Results& results) {
    bool all = true;
    const auto tell = [&](const std::string& what, const Result<void>& written) {
        if (!written) print_error(what, written.error());
        all = all && written.has_value();
    };
    if (!settings.json_file.empty())
        tell("--json " + settings.json_file, write_json(results, settings.json_file));
    if (!results.run) return all;
    if (!settings.html_file.empty())
        tell("--html " + settings.html_file, write_html(results, settings.html_file));
    if (!settings.csv_directory.empty())
        tell("--csv " + settings.csv_directory, write_csv(results, settings.csv_directory));
    return all;
}

void print_error(const std::string& subject, const Error& error) {
    say_error("lockstep-tpcc: {}: {}\n", subject, error.text());
}

bool can_write_outputs(const Settings& settings) {
    for (const std::string* file : {&settings.json_file, &settings.html_file,
                                    &settings.delivery_file, &settings.picture_file}) {
        const auto writable = require_writable(*file, "file of results");
        if (writable) continue;
        say_error("lockstep-tpcc: {}\n", writable.error().text());
        return false;
    }
    if (settings.csv_directory.empty()) return true;
    std::error_code error;
    std::filesystem::create_directories(settings.csv_directory, error);
    if (!error) return true;
    say_error("lockstep-tpcc: {} cannot be made: {}\n", settings.csv_directory, error.message());
    return false;
}

}  // namespace lockstep::tpcc
