// tournament.h - all slices of a run, interleaved, and their tables.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>

#include "tools/peers/contestant.h"

namespace lockstep::peers {

struct Selection {
    std::vector<const Product*> engines;  // each behind the small interface
    bool own_driver = true;               // Lockstep's own driver too, for TPC-C
    std::vector<const WorkloadKind*> workloads;
    std::vector<bool> sync = {false, true};  // for TPC-C; the others run without
    std::vector<unsigned> workers = {1, 2};
    unsigned rounds = 3;
};

// One measured slice.
struct Entry {
    Plan plan;
    std::string contestant, title;
    unsigned round = 0;
    Measured measured;
};

class Tournament {
public:
    Tournament(const Selection& selection, const Conditions& conditions);

    // Measures each plan in rounds: every contestant once, then every contestant again. `stop`:
    // ends after the slice that runs. What was measured before an error stays.
    Result<void> run(const std::atomic<bool>& stop);

    // The tables as text. False: a check has found a fault.
    bool print() const;
    nlohmann::ordered_json json() const;

private:
    Result<void> run_workload(const WorkloadKind& workload, const std::atomic<bool>& stop);
    Result<void> run_plan(const Plan& plan, const std::atomic<bool>& stop);
    std::vector<Plan> plans_of(const WorkloadKind& workload) const;
    std::string loaded_directory(const Contestant& contestant) const;
    void print_plan(const Plan& plan) const;
    bool print_faults() const;
    void print_noise() const;

    const Selection selection_;
    const Conditions conditions_;
    std::vector<std::unique_ptr<Contestant>> contestants_;
    std::vector<Entry> entries_;
};

// "TPC-C, sync, 2 workers".
std::string plan_text(const Plan& plan);

// Medians over the rounds of one contestant in one plan.
struct Summary {
    std::string contestant, title;
    double median = 0, least = 0, most = 0;  // transactions a second
    double p50_us = 0, p99_us = 0;
    double repeats_per_1000 = 0;
    double foreign_share = 0;  // the largest
};
std::vector<Summary> summaries(const std::vector<Entry>& entries, const Plan& plan);

}  // namespace lockstep::peers
