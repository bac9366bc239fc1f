// main.cc - `lockstep-icache`: the effect of teams on the instruction cache, from the recorded
// instruction stream.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "threads/base/check.h"
#include "threads/base/try.h"
#include "tools/base/build_info.h"
#include "tools/base/parse_failure.h"
#include "tools/base/say.h"
#include "tools/base/text_file.h"
#include "tools/bench/scratch.h"
#include "tools/icache/arguments.h"
#include "tools/icache/compare.h"
#include "tools/icache/hardware.h"
#include "tools/icache/provenance.h"
#include "tpcc/scripts.h"

namespace lockstep::icache {

namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<Geometry>> geometries_of(const Arguments& a) {
    std::vector<Geometry> geometries;
    geometries.reserve(a.geometry_texts.size());
    for (const std::string& text : a.geometry_texts)
        geometries.push_back(TRY(parse_geometry(text)));
    if (a.sweep)
        for (const Geometry& g : sweep_geometries()) geometries.push_back(g);
    return geometries.empty() ? usual_geometries() : geometries;
}

// A plan with off and on for each workload and team size, for one kind of workload.
Result<std::vector<Part>> plan_of(const Arguments& a, bool transactions) {
    std::vector<Part> plan;
    const StepsMode mode = TRY(parse_mode(a.mode));
    for (const std::string& what : a.what) {
        if (!is_operation(what) && !is_transaction(what))
            return fail(ErrorCode::bad_argument,
                        "workload: fetch update insert delete scan begin commit payment neworder "
                        "mix4 mix are known");
        if (is_transaction(what) != transactions) continue;
        for (const uint32_t n : transactions ? std::vector<uint32_t>{a.threads[0]} : a.threads) {
            plan.push_back({what, StepsMode::off, n});
            plan.push_back({what, mode, n});
        }
    }
    return plan;
}

// Replaces "auto:FILE" by the names in that file, which autosteps wrote.
Result<void> resolve_points(Arguments& a) {
    std::string& points = a.runner.child.points;
    if (points.starts_with("auto:")) {
        std::ifstream in(points.substr(5));
        if (!in)
            return fail(ErrorCode::bad_path, "points: the file of the set auto cannot be read");
        points.assign(std::istreambuf_iterator<char>(in), {});
    }
    if (!points.empty()) TRY(ctx_points_from(points));
    return {};
}

Provenance provenance_of(const Arguments& a, const std::vector<Part>& plan) {
    return {a.command, a.points_name.empty() ? "manual" : a.points_name, a.no_time, plan,
            &a.runner.child};
}

Result<Json> compare_plan(Arguments& a, const std::vector<Part>& plan,
                          const std::vector<Geometry>& geometries) {
    a.runner.child.plan = plan;
    const std::string trace_path = a.runner.directory + "/trace";
    const Traced traced = TRY(trace_child(a.runner, trace_path));
    CompareSettings settings{geometries, a.pads, traced.info["swap"].get<uint64_t>()};
    Json comparisons = Json::array();
    for (size_t i = 0; i < plan.size(); i += 2) {
        const auto off = traced.trace.segment(i), on = traced.trace.segment(i + 1);
        const Json& info = traced.info["parts"][i + 1];
        Part part = plan[i + 1];
        part.threads = info["threads"].get<uint32_t>();
        const auto warm = info["warm_units"].get<uint64_t>();
        comparisons.push_back(
            is_operation(part.what)
                ? compare_operation(off, on, part, warm, settings)
                : compare_transactions(off, on, part, warm, info["teams"], settings));
    }
    std::filesystem::remove(trace_path);
    if (a.no_time) return comparisons;
    const Json times = TRY(time_child(a.runner));
    for (size_t i = 0; i < times["parts"].size(); ++i) comparisons[i]["time"] = times["parts"][i];
    return comparisons;
}

Result<void> write_json(const std::string& file, const Json& json) {
    DCHECK(!file.empty());
    return write_text_file(file, json.dump(1) + "\n", "the file of results");
}

Result<void> run(Arguments& a) {
    TRY(require_writable(a.json, "--json"));
    const auto geometries = TRY(geometries_of(a));
    TRY(resolve_points(a));
    const auto operations = TRY(plan_of(a, false)), transactions = TRY(plan_of(a, true));
    Json all = {
        {"source",
         "simulation of the recorded instruction stream (valgrind); time measured natively"},
        {"seed", a.runner.child.workload.seed}};
    for (const auto& plan : {operations, transactions}) {
        if (plan.empty()) continue;
        all["provenance"].push_back(TRY(provenance_json(provenance_of(a, plan))));
        print_provenance(all["provenance"].back());
    }
    fmt::print("source of counts: {}\n", all["source"].get<std::string>());
    for (const auto& plan : {operations, transactions}) {
        if (plan.empty()) continue;
        for (Json& comparison : TRY(compare_plan(a, plan, geometries))) {
            print_comparison(comparison);
            all["comparisons"].push_back(std::move(comparison));
        }
    }
    return a.json.empty() ? Result<void>() : write_json(a.json, all);
}

// Records a trace for autosteps; FILE.json describes it.
Result<void> trace(Arguments& a) {
    TRY(require_writable(a.out + ".json", "--out"));
    a.runner.child.plan = TRY(parse_plan(a.plan));
    TRY(resolve_points(a));
    Json info = TRY(trace_child(a.runner, a.out)).info;
    info["program"] = a.runner.self;
    info["provenance"] = TRY(provenance_json(provenance_of(a, a.runner.child.plan)));
    return write_json(a.out + ".json", info);
}

// Records any program from its first to its last instruction.
Result<void> record(Arguments& a) {
    const std::string tracer = TRY(find_tracer(a.runner.self));
    setenv("VALGRIND_LAUNCHER", "/usr/bin/valgrind", 1);
    std::vector<std::string> words = {tracer, "--tool=lockstep-tracer", "-q", "--from-start=yes",
                                      "--trace-file=" + a.out};
    words.insert(words.end(), a.program.begin(), a.program.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    return fail_os(ErrorCode::unsupported, errno, "the tracer could not be started");
}

Result<void> simulate(Arguments& a) {
    const TraceFile file = TRY(TraceFile::open(a.trace));
    ReplayOptions options;
    options.once_per_access = a.as_cachegrind;
    for (const Geometry& g : TRY(geometries_of(a))) options.machines.push_back(machine_of(g));
    const ReplayResult r = replay(file.words(), options);
    Json json = {
        {"instructions", r.instructions.total()}, {"data", r.data.total()}, {"lines", r.lines}};
    for (const MachineCounts& m : r.machines)
        json["machines"].push_back(
            {{"l1", m.machine.l1.text()}, {"l1i", m.l1i.total()}, {"l1d", m.l1d.total()}});
    fmt::print("{}\n", json.dump(1));
    return {};
}

Result<void> child(Arguments& a) {
    ChildSettings& c = a.runner.child;
    c.plan = TRY(parse_plan(a.plan));
    c.directory = a.runner.directory;
    c.workload.native = a.native;
    const Json result = TRY(a.native ? run_native(c) : run_traced(c));
    return write_json(a.result, result);
}

Result<void> counters(Arguments&) {
    const auto hardware = Hardware::open();
    if (!hardware) {
        fmt::print("hardware counters: {}. Counts come from simulation.\n",
                   explain_refusal(hardware.error().os));
        return {};
    }
    for (size_t e = 0; e < kEvents; ++e)
        fmt::print("{:<24} {}\n", kEventNames[e],
                   hardware->has(static_cast<Event>(e)) ? "yes" : "no");
    return {};
}

// A script draws the report and drives this program.
Result<void> report(Arguments& a) {
    const auto script = tpcc::script_path("tools/icache/report.py");
    std::string python = "/usr/bin/python3";
    std::vector<std::string> words = {python,        script.string(), "--icache",
                                      a.runner.self, "--out",         a.out};
    words.insert(words.end(), a.program.begin(), a.program.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    return fail_os(ErrorCode::unsupported, errno, "python3 could not be started");
}

using Command = Result<void> (*)(Arguments&);

int perform(Arguments& a, Command command) {
    const bench::Scratch scratch(a.runner.directory, std::filesystem::temp_directory_path(),
                                 "lockstep-icache");
    if (scratch.error()) {
        say_error("lockstep-icache: --path: {}: {}\n", scratch.path(), scratch.error().message());
        return 1;
    }
    a.runner.directory = scratch.path();
    const auto done = command(a);
    if (done) return 0;
    say_error("lockstep-icache: {}\n", done.error().text());
    return done.error().code == ErrorCode::bad_argument ? 2 : 1;
}

int finish(Arguments& a, Command command) {
    return run_flushed("lockstep-icache", 1, [&] { return perform(a, command); });
}

}  // namespace
}  // namespace lockstep::icache

int main(int argc, char** argv) {
    using namespace lockstep::icache;
    CLI::App app{
        "The effect of teams (STEPS) on the instruction cache: misses from simulation of the "
        "recorded instruction stream, and native time."};
    app.name("lockstep-icache");
    app.failure_message(lockstep::parse_failure);
    app.set_version_flag("--version", lockstep::version_text("lockstep-icache"));
    app.require_subcommand(1);
    Arguments a;
    a.command = fmt::format("{}", fmt::join(std::vector<std::string>(argv, argv + argc), " "));
    a.runner.self = std::filesystem::read_symlink("/proc/self/exe").string();
    Command command = nullptr;
    const auto add = [&](const char* name, const char* what, Command run) {
        CLI::App* sub = app.add_subcommand(name, what);
        sub->callback([&command, run] { command = run; });
        return sub;
    };

    CLI::App* sub = add("run",
                        "Compare STEPS off and on: fetch update insert delete scan begin commit "
                        "payment neworder mix4 mix",
                        run);
    sub->add_option("what", a.what, "Operations and transactions")->required();
    sub->add_option("--threads", a.threads, "Team sizes, for operations")
        ->delimiter(',')
        ->check(CLI::Range(1, 200))
        ->capture_default_str();
    sub->add_option("--mode", a.mode,
                    "The mode compared with off: ctx (the thesis's teams of operations), on, "
                    "grouping, ctx_only; off compares off with itself")
        ->capture_default_str();
    sub->add_option("--pad", a.pads, "Also with this many bytes of code added to the fast switch")
        ->delimiter(',');
    sub->add_option("--json", a.json, "Write all results to this file");
    sub->add_flag("--no-time", a.no_time, "No native run");
    add_workload_options(*sub, a);
    add_geometry_options(*sub, a);

    sub = add("report", "All figures and an HTML report", report);
    sub->add_option("--out", a.out, "Directory of the report")->required();
    sub->add_option("options", a.program, "Options for the report script, behind --");

    sub = add("trace", "Record a plan such as fetch:off:1,fetch:on:10 to a file", trace);
    sub->add_option("plan", a.plan)->required();
    sub->add_option("--out", a.out, "File of the trace; FILE.json describes it")->required();
    add_workload_options(*sub, a);

    sub = add("record", "Record a whole program: record --out FILE -- PROGRAM ARGUMENTS", record);
    sub->add_option("--out", a.out)->required();
    sub->add_option("program", a.program)->required();

    sub = add("simulate", "Replay a trace through caches", simulate);
    sub->add_option("trace", a.trace)->required();
    sub->add_flag("--as-cachegrind", a.as_cachegrind,
                  "An access that crosses two lines misses at most once");
    add_geometry_options(*sub, a);

    add("counters", "Tell whether this machine has hardware counters", counters);

    sub = add("child", "(used internally)", child)->group("");
    sub->add_option("--plan", a.plan)->required();
    sub->add_option("--result", a.result)->required();
    sub->add_flag("--native", a.native);
    add_workload_options(*sub, a);

    CLI11_PARSE(app, argc, argv);
    a.points_name = a.runner.child.points;
    return finish(a, command);
}
