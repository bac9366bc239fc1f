// json_report.cc - the results for scripts.
#include "tpcc/json_report.h"

#include <nlohmann/json.hpp>

#include "tools/base/build_info.h"
#include "tools/base/text_file.h"
#include "tpcc/delivery_log.h"
#include "tpcc/teams.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEndingNames[] = {"complete", "interrupted", "failed"};

// null: there was none.
template <unsigned kBits>
Json wait_json(const Histogram<kBits>& wait) {
    if (wait.count() == 0) return nullptr;
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
    const Settings& s = r.settings;
    return {{"command_line", s.command_line},
            {"path", s.path},
            {"warehouses", r.scale.warehouses},
            {"workers", s.workers},
            {"terminals_per_warehouse", s.run.terminals},
            {"terminals_as_threads", s.run.terminals_as_threads},
            {"txn", s.mix_name},
            {"rate", s.run.rate.per_second},
            {"arrivals", s.arrivals_name},
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
            {"team_window", s.steps.window_records},
            {"seed", s.run.seed},
            {"run_number", r.run_number},
            {"load_seed", r.load_seed},
            {"transactions", s.run.transactions},
            {"duration_s", s.run.transactions ? 0 : seconds(s.run.duration)},
            {"warmup_s", seconds(s.run.warmup)},
            {"interval_s", seconds(s.run.interval)},
            {"audit_every_s", seconds(s.audit_every)},
            {"think", s.run.think},
            {"pool_bytes", r.options.pool_bytes},
            {"log_bytes", r.options.log_bytes},
            {"metrics", s.metrics.has_value()},
            {"control", s.control},
            {"archive", s.archive},
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

Json latency_json(const PointLatency& p, double per_second) {
    return {{"count", p.count},        {"tx_per_s", per_second},  {"p50_us", micros(p.p50)},
            {"p90_us", micros(p.p90)}, {"p99_us", micros(p.p99)}, {"p999_us", micros(p.p999)},
            {"max_us", micros(p.max)}};
}

Json series_json(const Series& series) {
    Json list = Json::array();
    for (const SeriesPoint& p : series.points()) {
        Json j = {{"t_s", seconds(p.begin)},
                  {"length_s", seconds(p.end - p.begin)},
                  {"measured", p.measured},
                  {"all", latency_json(p.all, p.per_second(p.all.count))}};
        for (size_t t = 0; t < kTxnTypes; ++t)
            j["types"][kTxnNames[t]] = latency_json(p.types[t], p.per_second(p.types[t].count));
        j["waits_s"] = {{"lock", seconds(p.waits.lock)},
                        {"page", seconds(p.waits.page)},
                        {"log", seconds(p.waits.log)}};
        for (size_t c = 0; c < kAbortCauses; ++c) j["retries"][kAbortNames[c]] = p.aborts[c];
        j["checkpoints"] = p.checkpoints;
        j["log_bytes"] = p.log_bytes;
        j["pages_read"] = p.pages_read;
        j["pages_written"] = p.pages_written;
        list.push_back(std::move(j));
    }
    return list;
}

// Pairs of the greatest time that a bucket counts, in microseconds, and its count. Empty buckets
// are left out.
Json histogram_json(const Histogram<6>& histogram) {
    Json buckets = Json::array();
    histogram.for_each([&](uint64_t greatest, uint64_t count) {
        buckets.push_back(Json::array({micros(greatest), count}));
    });
    return buckets;
}

// Until the queue had the request of a Delivery.
Json interactive_json(const Histogram<6>& queued) {
    return {{"count", queued.count()},
            {"mean_us", queued.mean() / 1000},
            {"p90_us", micros(queued.percentile(0.9))},
            {"p99_us", micros(queued.percentile(0.99))},
            {"max_us", micros(queued.max())},
            {"histogram_us", histogram_json(queued)}};
}

Json inputs_json(const InputCounts& inputs) {
    return {{"order_lines", inputs.order_lines},
            {"order_lines_remote", inputs.order_lines_remote},
            {"payments_remote", inputs.payments_remote},
            {"payments_by_name", inputs.payments_by_name},
            {"order_status_by_name", inputs.order_status_by_name}};
}

Json offered_json(const Results& r) {
    const RunReport& run = *r.run;
    return {{"tx_per_s", r.settings.run.rate.per_second},
            {"arrivals", r.settings.arrivals_name},
            {"due", run.offered.due},
            {"started", run.offered.due - run.offered.backlog},
            {"backlog", run.offered.backlog},
            {"due_in_warmup", run.offered.due_in_warmup},
            {"backlog_of_warmup", run.offered.backlog_of_warmup},
            {"completed", run.completed()},
            {"late_starts", run.stats.lateness.count()},
            {"late_start_us", wait_json(run.stats.lateness)}};
}

Json ramp_json(const Ramp& ramp) {
    Json steps = Json::array();
    for (const RampStep& step : ramp.steps)
        steps.push_back({{"rate", step.rate},
                         {"tx_per_s", step.tx_per_s},
                         {"new_order_p50_ms", static_cast<double>(step.p50) / 1e6},
                         {"new_order_p99_ms", static_cast<double>(step.p99) / 1e6},
                         {"due", step.due},
                         {"backlog", step.backlog},
                         {"holds", step.holds}});
    return {{"bound_ms", static_cast<double>(ramp.bound) / 1e6},
            {"knee", ramp.knee()},
            {"steps", std::move(steps)}};
}

// null: the kernel does not tell.
Json cpu_json(const CpuUse& cpu) {
    Json j = {{"ran_s", seconds(cpu.ran)}, {"waited_s", nullptr}, {"wait_share", nullptr}};
    if (cpu.waited) j["waited_s"] = seconds(*cpu.waited);
    if (const auto share = cpu.wait_share()) j["wait_share"] = *share;
    return j;
}

Json all_json(const Results& r) {
    Json j;
    j["settings"] = settings_json(r);
    j["build"] = build_json();
    j["machine"] = machine_json();
    j["load_s"] = seconds(r.load_nanos);
    if (r.run) {
        j["ended"] = kEndingNames[static_cast<size_t>(r.run->ending)];
        if (r.run->ending == Ending::failed) j["failure"] = r.run->failure.text();
        j["began"] = time_of_day(r.began);
        j["ran_s"] = seconds(r.run->ran);
        j["measured_s"] = seconds(r.run->measured);
        j["tx_per_s"] = r.run->tx_per_s();
        j["nopm"] = r.run->new_orders_per_minute();
        j["enough"] = r.run->enough();
        j["cpu"] = cpu_json(r.run->cpu);
        if (r.ramp.bound > 0) j["ramp"] = ramp_json(r.ramp);
        if (r.settings.run.rate.per_second > 0) j["offered"] = offered_json(r);
        for (size_t t = 0; t < kTxnTypes; ++t)
            j["transactions"][kTxnNames[t]] = type_json(r.run->stats.types[t]);
        j["aborts"] = aborts_json(r.run->stats);
        j["districts_skipped"] = r.run->stats.districts_skipped;
        j["deliveries_with_skips"] = r.run->stats.deliveries_with_skips;
        j["inputs"] = inputs_json(r.run->stats.inputs);
        j["verdict"] = verdict_json(r.verdict);
        j["store"] = store_json(r.before, r.after);
        if (!r.steps.teams.empty()) j["teams"] = teams_json(r.steps);
        j["series"] = series_json(r.run->series);
        for (size_t t = 0; t < kTxnTypes; ++t)
            j["histograms_us"][kTxnNames[t]] = histogram_json(r.run->stats.types[t].latency);
        j["delivery_interactive"] = interactive_json(r.run->stats.delivery_interactive);
    }
    j["conditions"] = conditions_json(r.consistency);
    j["stock"] = stock_json(r.consistency);
    j["index_faults"] = r.consistency.index_faults;
    if (!r.check_failure.empty()) j["check_failure"] = r.check_failure;
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

}  // namespace

Result<void> write_json(const Results& results, const std::string& file) {
    // Paths may be any bytes: those that are no UTF-8 become U+FFFD.
    return write_text_file(
        file, all_json(results).dump(2, ' ', false, Json::error_handler_t::replace) + "\n",
        "--json");
}

}  // namespace lockstep::tpcc
