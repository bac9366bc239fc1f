// report.cc - results for people and for scripts.
#include "tpcc/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tpcc/scripts.h"
#include "tpcc/teams.h"

namespace lockstep::tpcc {

namespace {

using Json = nlohmann::ordered_json;

double micros(uint64_t nanos) { return static_cast<double>(nanos) / 1000; }
double seconds(Nanos nanos) { return static_cast<double>(nanos) / static_cast<double>(kSecond); }

template <unsigned kBits>
Json wait_json(const Histogram<kBits>& wait) {
    return {{"mean_us", wait.mean() / 1000},
            {"p99_us", micros(wait.percentile(0.99))},
            {"max_us", micros(wait.max())}};
}

Json type_json(const TypeStats& type) {
    Json j;
    j["count"] = type.latency.count();
    j["rolled_back"] = type.rolled_back;
    j["mean_us"] = type.latency.mean() / 1000;
    j["p50_us"] = micros(type.latency.percentile(0.50));
    j["p90_us"] = micros(type.latency.percentile(0.90));
    j["p99_us"] = micros(type.latency.percentile(0.99));
    j["p999_us"] = micros(type.latency.percentile(0.999));
    j["max_us"] = micros(type.latency.max());
    j["lock_wait"] = wait_json(type.lock_wait);
    j["page_wait"] = wait_json(type.page_wait);
    j["log_wait"] = wait_json(type.log_wait);
    for (size_t cause = 0; cause < kAbortCauses; ++cause)
        j["retries"][kAbortNames[cause]] = type.aborts[cause];
    return j;
}

// Aborts by cause, summed over the types, and the rollbacks that the specification demands.
Json aborts_json(const WorkerStats& stats) {
    Json j;
    uint64_t demanded = 0;
    for (const TypeStats& type : stats.types) demanded += type.rolled_back;
    j["demanded"] = demanded;
    for (size_t cause = 0; cause < kAbortCauses; ++cause) {
        uint64_t sum = 0;
        for (const TypeStats& type : stats.types) sum += type.aborts[cause];
        j[kAbortNames[cause]] = sum;
    }
    return j;
}

Json conditions_json(const ConsistencyReport& report) {
    Json list = Json::array();
    for (const Condition& c : report.conditions) {
        Json j = {{"id", c.id}, {"ok", c.ok()}, {"text", condition_text(c.id)}};
        if (!c.ok()) {
            j["violations"] = c.violations;
            j["faults"] = c.faults;
        }
        list.push_back(j);
    }
    return list;
}

Json stock_json(const ConsistencyReport& report) {
    Json list = Json::array();
    for (const StockCheck& c : report.stock) {
        Json j = {{"ok", c.ok()}, {"text", stock_column_text(c.column)}};
        if (!c.ok()) {
            j["violations"] = c.violations;
            j["faults"] = c.faults;
        }
        list.push_back(j);
    }
    return list;
}

Json settings_json(const Results& r) {
    const Settings& s = *r.settings;
    return {{"path", s.path},
            {"warehouses", r.scale.warehouses},
            {"workers", s.workers},
            {"terminals_per_warehouse", s.run.terminals},
            {"terminals_as_threads", s.run.terminals_as_threads},
            {"txn", s.mix_name},
            {"calls", s.calls_name},
            {"durability", s.durability_name},
            {"isolation", s.isolation_name},
            {"reads", s.reads_name},
            {"steps", s.steps_name},
            {"lock_policy", s.lock_policy_name},
            {"lock_bypass_max", s.lock_bypass_max},
            {"ctx_points", s.ctx_points_name},
            {"team_max", s.steps.team_max},
            {"team_policy", s.team_policy_name},
            {"team_gate", s.team_gate_name},
            {"seed", s.run.seed},
            {"load_seed", r.load_seed},
            {"transactions", s.run.transactions},
            {"duration_s", s.run.transactions ? 0 : seconds(s.run.duration)},
            {"warmup_s", seconds(s.run.warmup)},
            {"think", s.run.think},
            {"pool_bytes", r.options.pool_bytes},
            {"log_bytes", r.options.log_bytes},
            {"metrics", s.metrics.has_value()},
            {"control", s.control},
            {"io", r.after.io_backend},
            {"log_durability", r.after.log_durability}};
}

// Statistics of a stage; times in microseconds.
Json stage_json(const StageStats& s) {
    const auto sizes = [](const StageHistogram& h) {
        return Json{{"mean", h.mean()}, {"p99", h.percentile(0.99)}, {"max", h.max}};
    };
    return {{"entered", s.entered},
            {"finished", s.finished},
            {"cancelled", s.cancelled},
            {"bypasses", s.bypasses},
            {"bypassed_max", s.bypassed_max},
            {"suspended", s.suspended},
            {"wait",
             {{"mean_us", s.wait.mean() / 1000},
              {"p99_us", micros(s.wait.percentile(0.99))},
              {"max_us", micros(s.wait.max)}}},
            {"length", sizes(s.length)},
            {"batch", sizes(s.batch)}};
}

Json io_json(const threads::IoStats& io) {
    Json j = {{"stage", stage_json(io.stage)},
              {"batches", io.batches},
              {"submissions", io.submissions},
              {"depth_mean", io.depth.mean()}};
    for (size_t c = 0; c < threads::kIoClasses; ++c) {
        const threads::IoClassStats& s = io.classes[c];
        j[threads::kIoClassNames[c]] = {{"requests", s.packets},
                                        {"bytes", s.bytes},
                                        {"merged", s.merged},
                                        {"joined", s.joined},
                                        {"transfers", s.transfers}};
    }
    return j;
}

Json store_json(const StoreStats& a, const StoreStats& b) {
    return {{"commits", b.commits - a.commits},
            {"lock_waits", b.lock_waits - a.lock_waits},
            {"admission_stage", stage_json(b.admission_stage.since(a.admission_stage))},
            {"lock_stage", stage_json(b.lock_stage.since(a.lock_stage))},
            {"deadlocks", b.deadlocks - a.deadlocks},
            {"escalations", b.escalations - a.escalations},
            {"log_bytes", b.log_bytes - a.log_bytes},
            {"log_syncs", b.log_syncs - a.log_syncs},
            {"page_reads", b.page_reads - a.page_reads},
            {"page_writes", b.page_writes - a.page_writes},
            {"reads_ahead", b.reads_ahead - a.reads_ahead},
            {"read_waiters", b.read_waiters - a.read_waiters},
            {"io", io_json(b.io.since(a.io))},
            {"checkpoints", b.checkpoints - a.checkpoints},
            {"switches", b.switches - a.switches},
            {"memory_bytes", b.memory_pool + b.memory_locks + b.memory_log + b.memory_stacks}};
}

Json timeline_json(const Timeline& timeline) {
    Json list = Json::array();
    double t = 0;
    for (const Timeline::Slot& slot : timeline.slots()) {
        list.push_back({{"t_s", t},
                        {"tx_per_s", static_cast<double>(slot.count()) / seconds(timeline.width())},
                        {"p50_us", micros(slot.percentile(0.5))},
                        {"p99_us", micros(slot.percentile(0.99))}});
        t += seconds(timeline.width());
    }
    return list;
}

Json all_json(const Results& r) {
    Json j;
    j["settings"] = settings_json(r);
    j["load_s"] = seconds(r.load_nanos);
    if (r.run) {
        j["measured_s"] = seconds(r.run->measured);
        j["tx_per_s"] = r.run->tx_per_s();
        j["tpmC"] = r.run->tpm_c();
        for (size_t t = 0; t < kTxnTypes; ++t)
            j["transactions"][kTxnNames[t]] = type_json(r.run->stats.types[t]);
        j["aborts"] = aborts_json(r.run->stats);
        j["deliveries_skipped"] = r.run->stats.deliveries_skipped;
        j["store"] = store_json(r.before, r.after);
        if (!r.steps.teams.empty()) j["teams"] = teams_json(r.steps);
        j["timeline"] = timeline_json(r.run->stats.timeline);
    }
    j["conditions"] = conditions_json(r.consistency);
    j["stock"] = stock_json(r.consistency);
    j["index_faults"] = r.consistency.index_faults;
    j["check_s"] = seconds(r.consistency.nanos);
    for (const OnlineCheck& check : r.online_checks)
        j["online_checks"].push_back({{"began_s", seconds(check.began)},
                                      {"check_s", seconds(check.report.nanos)},
                                      {"rows", check.report.rows},
                                      {"conditions", conditions_json(check.report)},
                                      {"stock", stock_json(check.report)},
                                      {"index_faults", check.report.index_faults}});
    return j;
}

std::string aborts_text(const TypeStats& type) {
    std::string text;
    for (size_t cause = 0; cause < kAbortCauses; ++cause)
        if (type.aborts[cause])
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", type.aborts[cause],
                                kAbortNames[cause]);
    return text.empty() ? "-" : text;
}

// Waits of transactions, mean and p99; prints nothing if there were no waits.
void print_waits(const WorkerStats& stats) {
    uint64_t longest = 0;
    for (const TypeStats& type : stats.types)
        longest =
            std::max({longest, type.lock_wait.max(), type.page_wait.max(), type.log_wait.max()});
    if (longest == 0) return;
    fmt::print("\n{:<12} {:>20} {:>20} {:>20}\n", "waits, us", "locks mean/p99", "pages mean/p99",
               "log mean/p99");
    const auto text = [](const auto& wait) {
        return fmt::format("{:.1f} / {:.1f}", wait.mean() / 1000, micros(wait.percentile(0.99)));
    };
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const TypeStats& type = stats.types[t];
        if (type.latency.count() == 0) continue;
        fmt::print("{:<12} {:>20} {:>20} {:>20}\n", kTxnNames[t], text(type.lock_wait),
                   text(type.page_wait), text(type.log_wait));
    }
}

void print_stage(const char* name, const StageStats& s) {
    if (s.entered == 0) return;
    fmt::print(
        "{}: {} waited {:.1f} us (p99 {:.1f}), behind {:.1f} others, {:.2f} served together; {} "
        "overtaken, one of them {} times\n",
        name, s.entered, s.wait.mean() / 1000, micros(s.wait.percentile(0.99)), s.length.mean(),
        s.batch.mean(), s.bypasses, s.bypassed_max);
}

// Runs a program from PATH. Returns its exit status, or 127. `quiet` discards its stderr.
int run_command(std::vector<const char*> arguments, bool quiet) {
    arguments.push_back(nullptr);
    std::fflush(stdout);
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
    for (const std::string& fault : check.faults) fmt::print("          {}\n", fault);
    if (check.violations > check.faults.size())
        fmt::print("          ... {} violations in all\n", check.violations);
}

void print_faults(const ConsistencyReport& report, bool all) {
    for (const Condition& c : report.conditions) {
        if (!all && c.ok()) continue;
        fmt::print("  {:>2}  {}  {}\n", c.id, c.ok() ? "holds " : "BROKEN", condition_text(c.id));
        print_first_faults(c);
    }
    for (const StockCheck& c : report.stock) {
        if (!all && c.ok()) continue;
        fmt::print("      {}  {}\n", c.ok() ? "holds " : "BROKEN", stock_column_text(c.column));
        print_first_faults(c);
    }
    for (const std::string& fault : report.index_faults) fmt::print("      BROKEN  {}\n", fault);
    std::fflush(stdout);
}

}  // namespace

void print_run(const Results& r) {
    const RunReport& run = *r.run;
    fmt::print("\n{:.0f} transactions a second, {:.0f} tpmC, measured for {:.2f} s\n",
               run.tx_per_s(), run.tpm_c(), seconds(run.measured));
    fmt::print("{} warehouses, {} terminals each, {} worker{}, {}, {} commits, pool {}, {}\n\n",
               r.scale.warehouses, r.settings->run.terminals, r.settings->workers,
               r.settings->workers == 1 ? "" : "s", r.settings->isolation_name,
               r.settings->durability_name, format_size(r.options.pool_bytes), r.after.io_backend);
    fmt::print("{:<12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10}  {}\n", "response, us", "count", "p50",
               "p90", "p99", "p99.9", "max", "repeated");
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const TypeStats& type = run.stats.types[t];
        const auto& latency = type.latency;
        if (latency.count() == 0) continue;
        fmt::print("{:<12} {:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.1f}  {}\n",
                   kTxnNames[t], latency.count(), micros(latency.percentile(0.5)),
                   micros(latency.percentile(0.9)), micros(latency.percentile(0.99)),
                   micros(latency.percentile(0.999)), micros(latency.max()), aborts_text(type));
    }
    print_waits(run.stats);
    const StoreStats &a = r.before, &b = r.after;
    fmt::print("\n{} New-Orders rolled back as demanded; {} districts had nothing to deliver\n",
               run.stats.types[static_cast<size_t>(TxnType::new_order)].rolled_back,
               run.stats.deliveries_skipped);
    fmt::print(
        "log {} in {} syncs; pages read {}, written {}; checkpoints {}; lock waits {}, deadlocks "
        "{}\n",
        format_size(b.log_bytes - a.log_bytes), b.log_syncs - a.log_syncs,
        b.page_reads - a.page_reads, b.page_writes - a.page_writes, b.checkpoints - a.checkpoints,
        b.lock_waits - a.lock_waits, b.deadlocks - a.deadlocks);
    const threads::IoStats io = b.io.since(a.io);
    if (io.packets() > 0)
        fmt::print(
            "I/O {} requests in {} batches (mean {:.1f}), {} merged, {} joined, {} submissions, "
            "depth {:.1f}\n",
            io.packets(), io.batches, io.stage.batch.mean(), io.merged(), io.joined(),
            io.submissions, io.depth.mean());
    print_stage("admission stage", b.admission_stage.since(a.admission_stage));
    print_stage("lock stage", b.lock_stage.since(a.lock_stage));
    if (!r.steps.teams.empty()) fmt::print("\n{}\n", fmt::join(teams_table(r.steps), "\n"));
}

void print_consistency(const ConsistencyReport& report) {
    fmt::print("\nConsistency conditions (clause 3.3.2), {} rows in {:.2f} s\n", report.rows,
               seconds(report.nanos));
    print_faults(report, true);
}

void print_online_check(const OnlineCheck& check) {
    const auto holds = [](const auto& c) { return c.ok(); };
    fmt::print(
        "at {:.1f} s: {} of {} conditions hold in a snapshot, the stock {}; {} rows in "
        "{:.2f} s\n",
        seconds(check.began), std::ranges::count_if(check.report.conditions, holds), kConditions,
        std::ranges::all_of(check.report.stock, holds) ? "agrees with the order lines"
                                                       : "is BROKEN",
        check.report.rows, seconds(check.report.nanos));
    print_faults(check.report, false);
}

Result<void> write_json(const Results& results, const std::string& file) {
    std::ofstream out(file);
    out << all_json(results).dump(2) << '\n';
    out.close();
    if (!out) return fail_os(ErrorCode::bad_path, errno, "--json");
    return {};
}

bool draw_picture(const Results& results, const std::string& file) {
    const std::string data = file + ".json.tmp";
    if (const auto written = write_json(results, data); !written) {
        fmt::print(stderr, "lockstep-tpcc: --picture: {}\n", written.error().text());
        return false;
    }
    const auto script = script_path("tpcc/plot.py");
    const int status =
        run_command({python_with_matplotlib(), script.c_str(), data.c_str(), file.c_str()}, false);
    std::filesystem::remove(data);
    if (status == 0) return true;
    fmt::print(stderr, "lockstep-tpcc: --picture: {} did not draw {}\n", script.string(), file);
    return false;
}

Result<void> write_delivery_log(const RunReport& run, const std::string& file) {
    std::ofstream out(file);
    out << "queued_ns,finished_ns,warehouse,carrier,order_of_district_1,2,3,4,5,6,7,8,9,10\n";
    for (const DeliveryResult& result : run.deliveries) {
        out << result.request.queued << ',' << result.finished << ',' << result.request.input.w
            << ',' << static_cast<unsigned>(result.request.input.carrier_id);
        for (const uint32_t o : result.output.o_id) out << ',' << o;
        out << '\n';
    }
    out.close();
    if (!out) return fail_os(ErrorCode::bad_path, errno, "--delivery-log");
    return {};
}

}  // namespace lockstep::tpcc
