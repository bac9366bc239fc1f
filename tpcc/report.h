// report.h - results for people (text), for scripts (JSON) and as a picture.
#pragma once

#include "tpcc/online_audit.h"
#include "tpcc/settings.h"

namespace lockstep::tpcc {

struct Results {
    const Settings* settings = nullptr;
    Options options;  // the store's, as opened
    Scale scale;
    uint64_t load_seed = 0;
    Nanos load_nanos = 0;            // 0: reopened
    std::unique_ptr<RunReport> run;  // null with --check-only
    StoreStats before, after;        // around the run, warm-up included
    StepsStats steps;                // of the run, warm-up included
    ConsistencyReport consistency;
    std::vector<OnlineCheck> online_checks;  // while the terminals ran
};

void print_run(const Results& results);
void print_consistency(const ConsistencyReport& report);
// One line, and the faults if there are any.
void print_online_check(const OnlineCheck& check);
Result<void> write_json(const Results& results, const std::string& file);
// Draws with tpcc/plot.py and matplotlib. On failure: false, and a message on stderr.
bool draw_picture(const Results& results, const std::string& file);
Result<void> write_delivery_log(const RunReport& run, const std::string& file);

}  // namespace lockstep::tpcc
