// report.cc - results for people.
#include "tpcc/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tools/base/build_info.h"
#include "tools/base/say.h"
#include "tpcc/json_report.h"
#include "tpcc/least_run.h"
#include "tpcc/scripts.h"
#include "tpcc/teams.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

// Waits of transactions, mean and p99; prints nothing if there were no waits.
void print_waits(const WorkerStats& stats) {
    uint64_t longest = 0;
    for (const TypeStats& type : stats.types)
        longest =
            std::max({longest, type.lock_wait.max(), type.page_wait.max(), type.log_wait.max()});
    if (longest == 0) return;
    say("\n{:<12} {:>20} {:>20} {:>20}\n", "waits, us", "locks mean/p99", "pages mean/p99",
        "log mean/p99");
    const auto text = [](const auto& wait) {
        return fmt::format("{:.1f} / {:.1f}", wait.mean() / 1000, micros(wait.percentile(0.99)));
    };
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const TypeStats& type = stats.types[t];
        if (type.latency.count() == 0) continue;
        say("{:<12} {:>20} {:>20} {:>20}\n", kTxnNames[t], text(type.lock_wait),
            text(type.page_wait), text(type.log_wait));
    }
}

void print_stage(const char* name, const StageStats& s) {
    if (s.entered == 0) return;
    say("{}: {} waited {:.1f} us (p99 {:.1f}), behind {:.1f} others, {:.2f} served together; {} "
        "overtaken, one of them {} times\n",
        name, s.entered, s.wait.mean() / 1000, micros(s.wait.percentile(0.99)), s.length.mean(),
        s.batch.mean(), s.bypasses, s.bypassed_max);
}

// Runs a program from PATH. Returns its exit status, or 127. `quiet` discards its stderr.
int run_command(std::vector<const char*> arguments, bool quiet) {
    arguments.push_back(nullptr);
    flush_output();
    const pid_t child = fork();
    if (child == 0) {
        if (quiet) dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execvp(arguments[0], const_cast<char* const*>(arguments.data()));
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 127;
    return WEXITSTATUS(status);
}

// The system's Python often has matplotlib when the first Python in PATH does not.
const char* python_with_matplotlib() {
    for (const char* python : {"python3", "/usr/bin/python3"})
        if (run_command({python, "-c", "import matplotlib"}, true) == 0) return python;
    return "python3";  // plot.py then reports what is missing
}

template <class Check>
void print_first_faults(const Check& check) {
    for (const std::string& fault : check.faults) say("          {}\n", fault);
    if (check.violations > check.faults.size())
        say("          ... {} violations in all\n", check.violations);
}

void print_faults(const ConsistencyReport& report, bool all) {
    for (const Condition& c : report.conditions) {
        if (!all && c.ok()) continue;
        say("  {:>2}  {}  {}\n", c.id, c.ok() ? "holds " : "BROKEN", condition_text(c.id));
        print_first_faults(c);
    }
    for (const StockCheck& c : report.stock) {
        if (!all && c.ok()) continue;
        say("      {}  {}\n", c.ok() ? "holds " : "BROKEN", stock_column_text(c.column));
        print_first_faults(c);
    }
    for (const std::string& fault : report.index_faults) say("      BROKEN  {}\n", fault);
    flush_output();
}

void print_offered(const Results& r) {
    const RunReport& run = *r.run;
    const double wanted = r.settings.run.rate.per_second;
    const Offered& offered = run.offered;
    say("offered {} a second ({}): {} due, {} of them not started by the end\n", rate_text(wanted),
        r.settings.arrivals_name, offered.due, offered.backlog);
    if (offered.backlog_of_warmup > 0)
        say("the warm-up left {} of its {} not started by the end\n", offered.backlog_of_warmup,
            offered.due_in_warmup);
    const auto& lateness = run.stats.lateness;
    if (lateness.count() > 0)
        say("started late by {:.1f} us (mean), {:.1f} us (p99)\n", lateness.mean() / 1000,
            micros(lateness.percentile(0.99)));
    // Each terminal may have one that is about to start.
    const uint64_t terminals = uint64_t{r.settings.run.terminals} * r.scale.warehouses;
    if (offered.backlog + offered.backlog_of_warmup > terminals)
        say("This run did not keep the offered rate: the response times contain the backlog.\n");
}

// When checkpoints ended, since the begin of the measured interval, to one point of the series.
std::vector<Nanos> checkpoint_times(const RunReport& run, Nanos warmup) {
    std::vector<Nanos> times;
    for (const SeriesPoint& p : run.series.points())
        if (p.measured) times.insert(times.end(), p.checkpoints, p.end - warmup);
    return times;
}

}  // namespace

std::string aborts_text(const uint64_t (&aborts)[kAbortCauses]) {
    std::string text;
    for (size_t cause = 0; cause < kAbortCauses; ++cause)
        if (aborts[cause])
            text +=
                fmt::format("{}{} {}", text.empty() ? "" : ", ", aborts[cause], kAbortNames[cause]);
    return text.empty() ? "-" : text;
}

std::string ending_text(const Results& r) {
    const RunReport& run = *r.run;
    if (run.ending == Ending::complete) return "";
    const std::string of =
        r.settings.run.transactions
            ? fmt::format("{} of {} transactions", run.stats.completed.load(),
                          r.settings.run.transactions)
            : fmt::format("{:.1f} of {:.1f} s", seconds(run.ran),
                          seconds(r.settings.run.warmup + r.settings.run.duration));
    const std::string why = run.ending == Ending::interrupted
                                ? std::string("interrupted")
                                : "stopped by an error: " + run.failure.text();
    return fmt::format("The run was {}, after {}. What follows was measured until then.\n", why,
                       of);
}

std::string headline(const RunReport& run) {
    const double measured = seconds(run.measured);
    if (!run.enough()) return too_short_text(measured, static_cast<double>(run.completed()));
    return fmt::format("{} transactions a second, {} NOPM, measured for {:.2f} s",
                       rate_text(run.tx_per_s()), rate_text(run.new_orders_per_minute()), measured);
}

std::string cpu_text(const Results& r) {
    const CpuUse& cpu = r.run->cpu;
    const double used = seconds(cpu.ran) / seconds(r.run->measured);
    const std::string got =
        fmt::format("CPU: {:.2f} of {} processors", used, machine_info().processors);
    if (!cpu.waited) return got + "; the kernel does not tell how long threads waited for one";
    const double share = cpu.wait_share().value_or(0);
    return fmt::format(
        "{}; threads waited for one {:.2f} s, {:.1f}% of the time in which they "
        "could run{}",
        got, seconds(*cpu.waited), 100 * share,
        share > kWaitShareMost ? ": the machine was too busy for a good result" : "");
}

Verdict judge(const Results& r) {
    const RunReport& run = *r.run;
    VerdictFacts facts;
    for (size_t t = 0; t < kTxnTypes; ++t) {
        facts.counts[t] = run.stats.types[t].latency.count();
        facts.percentile_90[t] = run.stats.types[t].latency.percentile(0.9);
    }
    facts.deliveries_queued = run.stats.delivery_interactive.count();
    facts.delivery_interactive_90 = run.stats.delivery_interactive.percentile(0.9);
    facts.inputs = run.stats.inputs;
    facts.new_orders_rolled_back = run.stats.types[0].rolled_back;
    facts.deliveries_with_skips = run.stats.deliveries_with_skips;
    facts.warehouses = r.scale.warehouses;
    facts.terminals = r.settings.run.terminals;
    facts.think = r.settings.run.think;
    facts.measured = run.measured;
    facts.checkpoints = checkpoint_times(run, r.settings.run.warmup);
    const ExecutorSettings& executor = r.settings.run.executor;
    facts.durable = executor.durability == Durability::durable;
    facts.serializable = executor.isolation == Isolation::serializable;
    facts.complete = run.ending == Ending::complete;
    return judge(facts);
}

void print_ramp_step(const RampStep& step) {
    say("offered {}: {} tx/s, New-Order p50 {:.2f} p99 {:.2f} ms{}: {}\n", rate_text(step.rate),
        rate_text(step.tx_per_s), static_cast<double>(step.p50) / 1e6,
        static_cast<double>(step.p99) / 1e6,
        step.backlog > 0 ? fmt::format(", {} of {} not begun", step.backlog, step.due) : "",
        step.holds ? "holds" : "does not hold");
    flush_output();
}

std::string ramp_text(const Ramp& ramp) {
    const double bound = static_cast<double>(ramp.bound) / 1e6;
    if (ramp.knee() == 0)
        return fmt::format(
            "Already {} transactions a second are too many for a New-Order p99 of "
            "{:g} ms; begin with a smaller --rate.",
            rate_text(ramp.first), bound);
    return fmt::format("Up to {} transactions a second, the p99 of New-Order is within {:g} ms.",
                       rate_text(ramp.knee()), bound);
}

void print_run(const Results& r) {
    const RunReport& run = *r.run;
    say("\n{}", ending_text(r));
    if (run.measured == 0) {
        say("Nothing was measured: the run ended in the warm-up.\n");
        return;
    }
    if (r.ramp.bound > 0) say("{}\n", ramp_text(r.ramp));
    say("{}\n{}\n", headline(run), cpu_text(r));
    if (r.settings.run.rate.per_second > 0) print_offered(r);
    say("{}, {} each, {}, {}, {} commits, pool {}, {}\n\n",
        count_text(r.scale.warehouses, "warehouse"),
        count_text(r.settings.run.terminals, "terminal"), count_text(r.settings.workers, "worker"),
        r.settings.isolation_name, r.settings.durability_name, format_size(r.options.pool_bytes),
        r.after.io_backend);
    say("{:<12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10}  {}\n", "response, us", "count", "p50", "p90",
        "p99", "p99.9", "max", "repeated");
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const TypeStats& type = run.stats.types[t];
        const auto& latency = type.latency;
        if (latency.count() == 0) continue;
        say("{:<12} {:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.1f}  {}\n", kTxnNames[t],
            latency.count(), micros(latency.percentile(0.5)), micros(latency.percentile(0.9)),
            micros(latency.percentile(0.99)), micros(latency.percentile(0.999)),
            micros(latency.max()), aborts_text(type.aborts));
    }
    print_waits(run.stats);
    const StoreStats &a = r.before, &b = r.after;
    say("\n{} New-Orders rolled back as demanded; {} districts had nothing to deliver\n",
        run.stats.types[static_cast<size_t>(TxnType::new_order)].rolled_back,
        run.stats.districts_skipped);
    const auto& queued = run.stats.delivery_interactive;
    if (queued.count() > 0)
        say("{} Deliveries queued within {:.1f} us (p90), {:.1f} us (p99)\n", queued.count(),
            micros(queued.percentile(0.9)), micros(queued.percentile(0.99)));
    say("log {} in {} syncs; pages read {}, written {}; checkpoints {}; lock waits {}, deadlocks "
        "{}\n",
        format_size(b.log_bytes - a.log_bytes), b.log_syncs - a.log_syncs,
        b.page_reads - a.page_reads, b.page_writes - a.page_writes, b.checkpoints - a.checkpoints,
        b.lock_waits - a.lock_waits, b.deadlocks - a.deadlocks);
    const threads::IoStats io = b.io.since(a.io);
    if (io.packets() > 0)
        say("I/O {} requests in {} batches (mean {:.1f}), {} merged, {} joined, {} submissions, "
            "depth {:.1f}\n",
            io.packets(), io.batches, io.stage.batch.mean(), io.merged(), io.joined(),
            io.submissions, io.depth.mean());
    print_stage("admission stage", b.admission_stage.since(a.admission_stage));
    print_stage("lock stage", b.lock_stage.since(a.lock_stage));
    if (!r.steps.teams.empty()) say("\n{}\n", fmt::join(teams_table(r.steps), "\n"));
    say("\n{}\n", fmt::join(verdict_lines(r.verdict), "\n"));
}

void print_consistency(const ConsistencyReport& report) {
    say("\nConsistency conditions (clause 3.3.2), {} rows in {:.2f} s\n", report.rows,
        seconds(report.nanos));
    print_faults(report, true);
}

void print_online_check(const OnlineCheck& check) {
    const auto holds = [](const auto& c) { return c.ok(); };
    say("at {:.1f} s: {} of {} conditions hold in a snapshot, the stock {}; {} rows in "
        "{:.2f} s\n",
        seconds(check.began), std::ranges::count_if(check.report.conditions, holds), kConditions,
        std::ranges::all_of(check.report.stock, holds) ? "agrees with the order lines"
                                                       : "is BROKEN",
        check.report.rows, seconds(check.report.nanos));
    print_faults(check.report, false);
}

bool draw_picture(const Results& results, const std::string& file) {
    const std::string data = file + ".json.tmp";
    if (const auto written = write_json(results, data); !written) {
        say_error("lockstep-tpcc: --picture: {}\n", written.error().text());
        return false;
    }
    const auto script = script_path("tpcc/plot.py");
    const int status =
        run_command({python_with_matplotlib(), script.c_str(), data.c_str(), file.c_str()}, false);
    std::filesystem::remove(data);
    if (status == 0) return true;
    say_error("lockstep-tpcc: --picture: {} did not draw {}\n", script.string(), file);
    return false;
}

}  // namespace lockstep::tpcc
