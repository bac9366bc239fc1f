// html_report.cc - the page of a run.
#include "tpcc/html_report.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/base/build_info.h"
#include "tools/base/say.h"
#include "tools/base/text_file.h"
#include "tpcc/delivery_log.h"
#include "tpcc/svg.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

constexpr const char* kStyle = R"(<style>
:root { --ink:#1d2430; --soft:#5b6472; --grid:#dfe3e8; --back:#fff; --shade:#eef1f5;
  --c0:#0072b2; --c1:#d55e00; --c2:#009e73; --c3:#cc79a7; --c4:#b8860b; --bad:#b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ee; --soft:#a2abb8; --grid:#343b46;
  --back:#161a20; --shade:#222833; --c0:#56b4e9; --c1:#ff8a3d; --c2:#3ccf9f; --c3:#e59ac3;
  --c4:#e3b341; --bad:#ff8a80; } }
body { font:15px/1.45 system-ui,sans-serif; color:var(--ink); background:var(--back);
  max-width:900px; margin:24px auto; padding:0 20px; }
h1 { font-size:24px; margin:0 0 4px; } h2 { font-size:18px; margin:32px 0 4px; }
p { margin:4px 0 8px; } .soft { color:var(--soft); } .warn { color:var(--bad); font-weight:600; }
.keys { display:flex; flex-wrap:wrap; gap:12px 32px; margin:16px 0; }
.keys b { display:block; font-size:22px; } .keys span { color:var(--soft); font-size:13px; }
svg { display:block; width:100%; height:auto; } svg text { font-size:12px; fill:var(--soft); }
text.right { text-anchor:end; } text.middle { text-anchor:middle; }
.grid { stroke:var(--grid); } .shade { fill:var(--shade); }
.mark { stroke:var(--soft); stroke-dasharray:3 3; }
polyline { fill:none; stroke-width:1.8; stroke-linejoin:round; }
.line0 { stroke:var(--c0); } .line1 { stroke:var(--c1); } .line2 { stroke:var(--c2); }
.line3 { stroke:var(--c3); } .line4 { stroke:var(--c4); }
.bar0 { fill:var(--c0); } .bar1 { fill:var(--c1); } .bar2 { fill:var(--c2); }
.bar3 { fill:var(--grid); }
.legend { font-size:13px; } .legend span { margin-right:14px; white-space:nowrap; }
.legend i { display:inline-block; width:14px; height:4px; margin-right:5px;
  vertical-align:middle; }
i.line0, i.bar0 { background:var(--c0); } i.line1, i.bar1 { background:var(--c1); }
i.line2, i.bar2 { background:var(--c2); } i.line3 { background:var(--c3); }
i.line4 { background:var(--c4); } i.bar3 { background:var(--grid); }
table { border-collapse:collapse; width:100%; font-size:13px; }
td, th { text-align:left; padding:3px 10px 3px 0; border-bottom:1px solid var(--grid);
  vertical-align:top; overflow-wrap:anywhere; } td.n, th.n { text-align:right; }
.out { color:var(--bad); }
</style>
)";

// Points of the series for a picture: at most 400, neighbours merged, the last one left out if it
// is much shorter than the others. A merged point has the worst percentiles of its parts.
std::vector<SeriesPoint> drawn_points(const Series& series, Nanos interval) {
    std::vector<SeriesPoint> points = series.points();
    if (points.size() > 1 && points.back().end - points.back().begin < interval / 2)
        points.pop_back();
    const size_t together = points.size() / 400 + 1;
    std::vector<SeriesPoint> drawn;
    for (size_t i = 0; i < points.size(); ++i) {
        if (i % together == 0) {
            drawn.push_back(points[i]);
            continue;
        }
        SeriesPoint& to = drawn.back();
        const auto merge = [](PointLatency& a, const PointLatency& b) {
            a = {a.count + b.count,      std::max(a.p50, b.p50),   std::max(a.p90, b.p90),
                 std::max(a.p99, b.p99), std::max(a.p999, b.p999), std::max(a.max, b.max)};
        };
        to.end = points[i].end;
        merge(to.all, points[i].all);
        for (size_t t = 0; t < kTxnTypes; ++t) merge(to.types[t], points[i].types[t]);
        to.checkpoints += points[i].checkpoints;
    }
    return drawn;
}

class Page {
public:
    explicit Page(const Results& results)
        : r_(results),
          run_(*results.run),
          points_(drawn_points(results.run->series, results.settings.run.interval)) {}

    std::string text() {
        text_ =
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>TPC-C run</title>\n";
        text_ += kStyle;
        text_ += "</head><body>\n";
        head();
        if (r_.ramp.bound > 0) ramp();
        throughput();
        latency();
        distribution();
        waits();
        verdict();
        conditions();
        online_checks();
        origin();
        return text_ + "</body></html>\n";
    }

private:
    void heading(const char* title, const std::string& sentence) {
        text_ += fmt::format("<h2>{}</h2>\n<p class=\"soft\">{}</p>\n", title, escaped(sentence));
    }
    void key(const std::string& value, const std::string& name) {
        text_ +=
            fmt::format("<div><b>{}</b><span>{}</span></div>\n", escaped(value), escaped(name));
    }
    void cells(std::initializer_list<std::string> values, const char* kind = "td") {
        text_ += "<tr>";
        for (const std::string& value : values)
            text_ += fmt::format("<{0}>{1}</{0}>", kind, escaped(value));
        text_ += "</tr>\n";
    }

    void head() {
        text_ += run_.enough()
                     ? fmt::format("<h1>TPC-C: {} transactions a second</h1>\n",
                                   rate_text(run_.tx_per_s()))
                     : fmt::format("<h1>TPC-C: a short run</h1>\n<p class=\"warn\">{}</p>\n",
                                   escaped(headline(run_)));
        text_ += fmt::format(
            "<p class=\"soft\">{}, {} each, {}, {} commits, {}; "
            "{:.1f} s measured after {:.1f} s of warm-up; began {}</p>\n",
            count_text(r_.scale.warehouses, "warehouse"),
            count_text(r_.settings.run.terminals, "terminal"),
            count_text(r_.settings.workers, "worker"), r_.settings.durability_name,
            r_.settings.isolation_name, seconds(run_.measured), seconds(r_.settings.run.warmup),
            time_of_day(r_.began));
        text_ += fmt::format("<p class=\"soft\">{}</p>\n", escaped(cpu_text(r_)));
        if (run_.ending != Ending::complete)
            text_ += fmt::format("<p class=\"warn\">{}</p>\n", escaped(ending_text(r_)));
        const auto& new_order = run_.stats.types[0].latency;
        text_ += "<div class=\"keys\">\n";
        if (run_.enough())
            key(rate_text(run_.new_orders_per_minute()), "NOPM (New-Orders per minute)");
        key(time_text(micros(new_order.percentile(0.5))), "New-Order, median response");
        key(time_text(micros(new_order.percentile(0.99))), "New-Order, 99th percentile");
        key(fmt::format("{} of {}", r_.verdict.outside(), r_.verdict.rules.size()),
            "rules outside the specification");
        if (r_.settings.run.rate.per_second > 0)
            key(rate_text(r_.settings.run.rate.per_second), "transactions offered a second");
        text_ += "</div>\n";
    }

    void ramp() {
        heading("Response times by offered load",
                ramp_text(r_.ramp) +
                    " The other figures of this page are those of the run at that rate, the dashed "
                    "line.");
        std::vector<RampStep> steps = r_.ramp.steps;
        std::ranges::sort(steps, {}, &RampStep::rate);
        Chart chart;
        chart.label = "response times of New-Order by offered load";
        chart.logarithmic = true;
        chart.x_unit = "";
        chart.lines = {{"p50", {}}, {"p99", {}}, {"bound", {}}};
        for (const RampStep& step : steps) {
            const Nanos values[] = {step.p50, step.p99, r_.ramp.bound};
            for (size_t i = 0; i < std::size(values); ++i)
                chart.lines[i].points.push_back(
                    {step.rate, micros(static_cast<uint64_t>(values[i]))});
        }
        if (!steps.empty()) chart.x_end = steps.back().rate;
        if (r_.ramp.knee() > 0) chart.marks.push_back(r_.ramp.knee());
        text_ += line_chart(chart) + "<table>\n";
        cells(
            {"offered a second", "transactions a second", "New-Order p50", "p99", "not begun", ""},
            "th");
        for (const RampStep& step : steps)
            cells({rate_text(step.rate), rate_text(step.tx_per_s),
                   time_text(micros(static_cast<uint64_t>(step.p50))),
                   time_text(micros(static_cast<uint64_t>(step.p99))), std::to_string(step.backlog),
                   step.holds ? "holds" : "does not hold"});
        text_ += "</table>\n";
    }

    Chart chart_over_time(const std::string& label) const {
        Chart chart;
        chart.label = label;
        chart.x_end = points_.empty() ? 1 : seconds(points_.back().end);
        chart.shaded_until = seconds(r_.settings.run.warmup);
        for (const SeriesPoint& p : points_)
            if (p.checkpoints > 0) chart.marks.push_back(seconds(p.end));
        return chart;
    }
    template <class F>
    ChartLine over_time(const char* name, F value) const {
        ChartLine line{name, {}};
        for (const SeriesPoint& p : points_)
            line.points.push_back({seconds(p.begin + p.end) / 2, value(p)});
        return line;
    }

    void throughput() {
        heading("Throughput over time",
                "Transactions a second. A steady run is a level line; a dip shows a stall. Grey is "
                "warm-up, dashed lines are checkpoints.");
        Chart chart = chart_over_time("throughput over time");
        chart.lines.push_back(
            over_time("all types", [](const auto& p) { return p.per_second(p.all.count); }));
        for (const TxnType type : {TxnType::new_order, TxnType::payment}) {
            const auto t = static_cast<size_t>(type);
            chart.lines.push_back(over_time(
                kTxnNames[t], [t](const auto& p) { return p.per_second(p.types[t].count); }));
        }
        text_ += line_chart(chart);
    }

    void latency() {
        heading("Response times over time",
                "Percentiles of all types in each interval, on a logarithmic axis. Stalls show in "
                "p99 and p99.9 long before the median moves.");
        Chart chart = chart_over_time("response times over time");
        chart.logarithmic = true;
        chart.lines = {over_time("p50", [](const auto& p) { return micros(p.all.p50); }),
                       over_time("p90", [](const auto& p) { return micros(p.all.p90); }),
                       over_time("p99", [](const auto& p) { return micros(p.all.p99); }),
                       over_time("p99.9", [](const auto& p) { return micros(p.all.p999); })};
        text_ += line_chart(chart);
        heading("99th percentile by type",
                "One line for each type. Delivery is deferred: its time includes the queue.");
        chart.lines.clear();
        chart.label = "99th percentile by type over time";
        for (size_t t = 0; t < kTxnTypes; ++t)
            chart.lines.push_back(
                over_time(kTxnNames[t], [t](const auto& p) { return micros(p.types[t].p99); }));
        text_ += line_chart(chart);
    }

    // The x axis is -log10(1 - share), so that each further nine has the same width.
    void distribution() {
        heading("Distribution of response times by type",
                "The whole measured interval: how long the given share of transactions took at "
                "most. Each further nine of the share has the same width.");
        Chart chart;
        chart.label = "distribution of response times";
        chart.logarithmic = true;
        chart.x_end = 4;
        chart.x_ticks = {{0, "0"},   {std::log10(2), "50%"}, {1, "90%"},
                         {2, "99%"}, {3, "99.9%"},           {4, "99.99%"}};
        for (size_t t = 0; t < kTxnTypes; ++t) {
            ChartLine line{kTxnNames[t], {}};
            const auto& latency = run_.stats.types[t].latency;
            for (double x = 0; latency.count() > 0 && x <= 4.001; x += 0.05) {
                const double left = std::pow(10, -x);
                // Fewer values than the share needs: the line ends.
                if (left * static_cast<double>(latency.count()) < 1) break;
                line.points.push_back({x, micros(latency.percentile(1 - left))});
            }
            chart.lines.push_back(std::move(line));
        }
        text_ += line_chart(chart);
        text_ +=
            "<table><tr><th>type</th><th class=\"n\">count</th><th class=\"n\">p50</th>"
            "<th class=\"n\">p90</th><th class=\"n\">p99</th><th class=\"n\">p99.9</th>"
            "<th class=\"n\">longest</th><th class=\"n\">repeated</th></tr>\n";
        for (size_t t = 0; t < kTxnTypes; ++t) type_row(t);
        text_ += "</table>\n";
    }
    void type_row(size_t t) {
        const TypeStats& type = run_.stats.types[t];
        text_ += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td>", kTxnNames[t],
                             type.latency.count());
        for (const double share : {0.5, 0.9, 0.99, 0.999, 1.0})
            text_ += fmt::format("<td class=\"n\">{}</td>",
                                 time_text(micros(type.latency.percentile(share))));
        uint64_t repeated = 0;
        for (const uint64_t n : type.aborts) repeated += n;
        text_ += fmt::format("<td class=\"n\">{}</td></tr>\n", repeated);
    }

    void waits() {
        heading("What transactions wait for",
                "Mean response time of each type, by cause. The rest is work and the wait for a "
                "processor or a place among the active transactions.");
        std::vector<BarRow> rows;
        for (size_t t = 0; t < kTxnTypes; ++t) {
            const TypeStats& type = run_.stats.types[t];
            const double lock = type.lock_wait.mean() / 1000, page = type.page_wait.mean() / 1000,
                         log = type.log_wait.mean() / 1000;
            const double rest = std::max(0.0, type.latency.mean() / 1000 - lock - page - log);
            rows.push_back({kTxnNames[t], {lock, page, log, rest}});
        }
        text_ += bar_chart("mean response time by cause",
                           {"locks", "pages", "log", "work and other waits"}, rows);
    }

    void verdict() {
        heading("Rules of the specification", fmt::format("TPC-C revision 5.11. {}", nopm_text()));
        text_ += "<table>";
        cells({"rule", "found", "wanted", "clause", ""}, "th");
        for (const Rule& rule : r_.verdict.rules)
            text_ += fmt::format(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td{}>{}</td></tr>\n",
                escaped(rule.name), escaped(rule.found), escaped(rule.wanted), rule.clause,
                rule.standing == Standing::outside ? " class=\"out\"" : "", rule.text());
        text_ += "</table>\n";
    }

    // Those of --audit-every: a sentence, and the faults.
    void online_checks() {
        if (r_.online_checks.empty()) return;
        const auto sound = std::ranges::count_if(
            r_.online_checks, [](const OnlineCheck& each) { return each.report.ok(); });
        text_ += fmt::format("<p class=\"{}\">All held in {} of {} checks during the run.</p>\n",
                             std::cmp_equal(sound, r_.online_checks.size()) ? "soft" : "warn",
                             sound, r_.online_checks.size());
        text_ += "<table>\n";
        for (const OnlineCheck& each : r_.online_checks) {
            const std::string at = fmt::format("at {:.1f} s: ", seconds(each.began));
            for (const Condition& c : each.report.conditions)
                if (!c.ok()) condition_row(at + std::to_string(c.id), false, condition_text(c.id));
            for (const StockCheck& c : each.report.stock)
                if (!c.ok()) condition_row(at + "stock", false, stock_column_text(c.column));
            for (const std::string& fault : each.report.index_faults)
                condition_row(at + "index", false, fault.c_str());
        }
        text_ += "</table>\n";
    }
    void condition_row(const std::string& id, bool ok, const char* what) {
        text_ += fmt::format("<tr><td>{}</td><td{}>{}</td><td>{}</td></tr>\n", id,
                             ok ? "" : " class=\"out\"", ok ? "holds" : "BROKEN", escaped(what));
    }

    void conditions() {
        if (!r_.check_failure.empty()) {
            heading("Consistency conditions", "They could not be checked: " + r_.check_failure);
            return;
        }
        if (r_.consistency.conditions.empty()) {
            heading("Consistency conditions", "They were not checked: the program was ended.");
            return;
        }
        heading("Consistency conditions",
                fmt::format("Clause 3.3.2, and STOCK against the order lines: {} rows were read "
                            "after the run.",
                            r_.consistency.rows));
        text_ += "<table>\n";
        for (const Condition& c : r_.consistency.conditions)
            condition_row(std::to_string(c.id), c.ok(), condition_text(c.id));
        for (const StockCheck& c : r_.consistency.stock)
            condition_row("stock", c.ok(), stock_column_text(c.column));
        for (const std::string& fault : r_.consistency.index_faults)
            condition_row("index", false, fault.c_str());
        text_ += "</table>\n";
    }

    void origin() {
        heading("Where this was measured", "Program, machine and command of the run.");
        const BuildInfo build = build_info();
        const MachineInfo machine = machine_info();
        text_ += "<table>\n";
        cells({"command", r_.settings.command_line});
        cells({"run", fmt::format("number {} of this database, --seed {}; seed of the load {}",
                                  r_.run_number, r_.settings.run.seed, r_.load_seed)});
        cells({"program", fmt::format("version {}, commit {}", build.version, build.commit)});
        cells({"build", fmt::format("{}; {}", build.compiler, build.kind)});
        cells({"processor", fmt::format("{}, {} usable", machine.processor, machine.processors)});
        cells({"caches", fmt::format("{}", fmt::join(machine.caches, ", "))});
        cells({"memory", format_size(machine.memory_bytes)});
        cells({"kernel", machine.kernel});
        cells({"store", fmt::format("pool {}, log {}, {}, {}", format_size(r_.options.pool_bytes),
                                    format_size(r_.options.log_bytes), r_.after.io_backend,
                                    r_.after.log_durability)});
        text_ += "</table>\n";
    }

    const Results& r_;
    const RunReport& run_;
    const std::vector<SeriesPoint> points_;
    std::string text_;
};

}  // namespace

std::string html_page(const Results& results) { return Page(results).text(); }

Result<void> write_html(const Results& results, const std::string& file) {
    return write_text_file(file, html_page(results), "--html");
}

}  // namespace lockstep::tpcc
