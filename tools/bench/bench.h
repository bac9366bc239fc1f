// bench.h - the harness of lockstep-bench: named benchmarks, results with units, quiet slices.
//
// Concepts   The machines are shared: the host's other hyperthread may halve our speed for a while.
//            A short arithmetic probe before and after each slice of work detects this. Medians are
//            taken over quiet slices only, and the share of quiet slices is printed.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "threads/base/check.h"
#include "threads/base/rng.h"
#include "tpcc/database.h"

namespace lockstep::bench {

struct Settings {
    std::string directory;    // scratch space, removed at the end
    uint64_t bytes = 0;       // size of data, 0 = the benchmark's own default
    uint32_t threads = 0;     // user threads, 0 = the benchmark's own default
    uint32_t warehouses = 0;  // 0 = the benchmark's own default
    uint32_t workers = 1;
    double seconds = 2;  // measured time of each result
    std::string self;    // path of this program, to start children
    StepsOptions steps;  // points, team size and policy of the variants with STEPS
    std::string mix;     // TPC-C: only this mix
    tpcc::Calls calls = tpcc::Calls::many;  // TPC-C: records a call
    uint64_t commits = 0;  // TPC-C: commits that a slice measures, 0 = the mix's own default
    bool packets = false;  // TPC-C: terminals are packets, not user threads as in the thesis
    // Options::executors for it.
    uint32_t executors() const { return packets ? Options{}.executors : 1u << 20; }
    std::string what;  // benchmark `count`: what to count
};

class Report {
public:
    // Prints one line and keeps the result. `goal`: the project's target as text ("<= 60"), or
    // empty.
    void measurement(const std::string& name, double value, const std::string& unit,
                     const std::string& goal = "");
    void note(const std::string& text);
    // What the figures must show. If one does not hold, the program ends with status 1.
    void claim(const std::string& text, bool holds);
    bool all_hold() const { return all_hold_; }
    const nlohmann::ordered_json& json() const { return json_; }

private:
    nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
    bool all_hold_ = true;
};

struct Sliced {
    double ns_median = 0;            // per unit of work, quiet slices
    double ns_low = 0, ns_high = 0;  // quartiles
    double quiet_share = 0;
    size_t slices = 0;
};
// Calls work(units) in slices until `seconds` have passed. It chooses `units` so that a slice lasts
// about 10 ms. It runs on the calling thread (kernel or user). `before`, if given, runs before each
// slice and is not timed.
Sliced measure(double seconds, const std::function<void(uint64_t units)>& work,
               const std::function<void()>& before = {});
void add_measurement(Report& report, const std::string& name, const Sliced& s,
                     const std::string& goal = "");

using Run = Result<void> (*)(const Settings&, Report&);
struct Benchmark {
    const char* name;
    const char* what;
    Run run;
};
const std::vector<Benchmark>& all_benchmarks();

Result<void> bench_switch(const Settings&, Report&);
Result<void> bench_locks(const Settings&, Report&);
Result<void> bench_log(const Settings&, Report&);
Result<void> bench_fetch(const Settings&, Report&);
Result<void> bench_operations(const Settings&, Report&);
Result<void> bench_pool(const Settings&, Report&);
Result<void> bench_restart(const Settings&, Report&);
Result<void> bench_checkpoint(const Settings&, Report&);
Result<void> bench_backup(const Settings&, Report&);
Result<void> bench_reads(const Settings&, Report&);
Result<void> bench_snapshots(const Settings&, Report&);
Result<void> bench_reports(const Settings&, Report&);
Result<void> bench_answers(const Settings&, Report&);
Result<void> bench_qpipe(const Settings&, Report&);
Result<void> bench_commits(const Settings&, Report&);
Result<void> bench_steps(const Settings&, Report&);
Result<void> bench_tpcc_steps(const Settings&, Report&);
Result<void> bench_lock_stage(const Settings&, Report&);
Result<void> bench_lock_payment(const Settings&, Report&);
Result<void> bench_production_line(const Settings&, Report&);
Result<void> bench_scan_policies(const Settings&, Report&);
Result<void> bench_c_api(const Settings&, Report&);
Result<void> bench_secondary_build(const Settings&, Report&);
Result<void> bench_instructions(const Settings&, Report&);
Result<void> bench_count(const Settings&, Report&);

// Runs fn on a user thread of the store and waits.
Result<void> on_user_thread(Store& store, std::move_only_function<Result<void>()> fn);
// Makes an index "bench" of `rows` records: u64 keys (big-endian, scattered over 0..rows) and
// values of 100 bytes.
Result<Index> load_rows(Store& store, uint64_t rows);
constexpr uint64_t kRowBytes = 100;
// Number of rows whose tree takes about `bytes`.
uint64_t rows_for(uint64_t bytes);

}  // namespace lockstep::bench
