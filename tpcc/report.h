// report.h - the results of one use of the program, and the text for people.
#pragma once

#include "tpcc/online_audit.h"
#include "tpcc/ramp.h"
#include "tpcc/settings.h"
#include "tpcc/verdict.h"

namespace lockstep::tpcc {

struct Results {
    Settings settings;  // its run.seed is the one that was used
    Options options;    // the store's, as opened
    Scale scale;
    uint64_t load_seed = 0;
    uint32_t run_number = 0;         // of this database, from 1
    Time began = 0;                  // of the run, since 1970
    Nanos load_nanos = 0;            // 0: reopened
    std::unique_ptr<RunReport> run;  // null with --check-only; of a ramp the run of the knee
    Ramp ramp;
    StoreStats before, after;  // where the measured interval begins and ends
    StepsStats steps;          // of the measured interval
    Verdict verdict;           // of the run
    ConsistencyReport consistency;
    std::string check_failure;               // why the conditions could not be checked
    std::vector<OnlineCheck> online_checks;  // while the terminals ran
};

// The facts that the specification judges.
Verdict judge(const Results& results);

void print_run(const Results& results);
void print_ramp_step(const RampStep& step);
// The knee, or why there is none.
std::string ramp_text(const Ramp& ramp);
void print_consistency(const ConsistencyReport& report);
// The throughput, or why there is none.
std::string headline(const RunReport& run);
// How much CPU the run got, and how long it waited for one.
std::string cpu_text(const Results& results);
// One line, and the faults if there are any.
void print_online_check(const OnlineCheck& check);
// "3 deadlock, 1 no_space"; "-": there were none.
std::string aborts_text(const uint64_t (&aborts)[kAbortCauses]);
// How the run ended, and when.
std::string ending_text(const Results& results);
// Draws with tpcc/plot.py and matplotlib. On failure: false, and a message on stderr.
bool draw_picture(const Results& results, const std::string& file);

}  // namespace lockstep::tpcc
