// config.h - everything that one seed determines: the random streams and the configuration.
//
// Concepts   Six independent streams (schedule, I/O, faults, work, configuration, crash): a new
//            draw in one stream does not shift another.
#pragma once

#include <string>

#include <lockstep/options.h>
#include "tests/sim/variety.h"
#include "threads/base/rng.h"
#include "threads/io/sim_disk.h"

namespace lockstep::sim {

// One of the choices, drawn.
template <class T, size_t N>
T one_of(Rng& rng, const T (&choices)[N]) {
    return choices[rng.below(N)];
}

enum class Stream : uint64_t { schedule = 1, io, faults, work, configuration, crash };
inline Rng stream(uint64_t seed, Stream which) {
    return Rng(seed).fork(static_cast<uint64_t>(which));
}

enum class Workload : uint8_t { records, tpcc, mixed };

// The faults that strike the first part of a run; README.md says what each must lead to.
enum class FaultProfile : uint8_t {
    none,
    write_errors,  // EIO on page writes
    log_failure,   // EIO on a log write or sync; the store stops
    no_space,      // the device is full for a while
    clock,         // time jumps
    log_full,      // for a while, no space for another log segment
    disk_full,     // for a while, nothing on the device may grow
    lost_writes,   // acknowledged page writes that never arrive
    data_failure,  // EIO on every page write from some moment on; never drawn: seeds stay the same
    kCount
};
const char* profile_name(FaultProfile profile);

// Command-line settings for all seeds.
struct Arguments {
    uint64_t first_seed = 1, seeds = 1;
    // Stop the main run at this event and take images only there; 0: run to the end.
    uint64_t until = 0;
    bool digest = false;
    uint32_t jobs = 1;
    uint32_t crash_points = 50;  // events per seed at which images are taken
    uint32_t outcomes = 2;       // images at each of them
    uint32_t depth = 3;
    Workload workload = Workload::mixed;
    double seconds = 0;         // stop starting seeds after this time; 0: no limit
    int profile = -1;           // fault profile of all seeds; -1: drawn
    uint32_t transactions = 0;  // of the main run; 0: drawn
    bool verbose = false;
    bool shrink = true;
    int steps = -1;                  // 0, 1, or drawn
    int workers = 0;                 // 0: drawn
    uint64_t keys = 0;               // 0: drawn
    bool syncs_after_write = false;  // the disk ignores RWF_DSYNC
    bool keep_going = false;
    bool secondary = false;             // each index of the records has a secondary one
    uint32_t variety = kVarietyNewest;  // version of the irregular work; 0: none
    // Prefix of two files with everything that goes into the digest: ".1" and ".2", one per pass.
    std::string trace;
    std::string campaign;  // directory of a campaign; empty: none
    uint64_t piece = 500;  // seeds of each of its pieces
    bool totals = false;   // print its totals and run nothing
};

struct Config {
    uint64_t seed = 1;
    Workload workload = Workload::records;
    FaultProfile profile = FaultProfile::none;
    uint32_t workers = 1;
    uint32_t threads = 4;         // of the workload
    uint32_t transactions = 100;  // all threads together
    // Each transaction of the records is a packet of its own, and executors is Options::executors.
    bool packets = false;
    uint32_t executors = 16;
    StepsOptions steps{};
    uint64_t pool_bytes = 4 << 20;
    uint32_t transactions_max = 64;
    uint64_t log_bytes = 64 << 20;
    uint64_t log_segment_bytes = 1 << 20;
    uint64_t checkpoint_log_bytes = 1 << 20;
    double checkpoint_odds = 0.03;  // before a transaction
    Nanos lazy_flush_interval = 10 * kMillisecond;
    Nanos lock_timeout = 200 * kMillisecond;
    uint32_t escalate_at = 5000;
    Nanos tick = 0;  // duration of a step
    // Mean number of points per interruption of a worker; 0: never. Needs LOCKSTEP_SIM_POINTS.
    uint32_t interrupt_one_in = 0;
    Nanos latency_max = 200 * kMicrosecond;
    bool syncs_after_write = false;
    // records
    uint32_t indexes = 2, heaps = 1;
    bool schema_changes = false;
    bool secondary = false;  // each index has a secondary one
    uint64_t keys = 100;     // per index
    uint32_t key_pad = 0;    // bytes appended to keys: fewer records on a page
    uint32_t value_max = 200;
    double large_odds = 0;   // odds of a value that takes overflow pages
    double skew = 0;         // 0: uniform; towards 1: few keys are hot
    double weak_odds = 0.2;  // odds of a transaction below serializable
    double lazy_odds = 0.4;
    uint32_t operations_max = 10;
    Variety variety{};

    std::string text() const;
};
Config draw_config(uint64_t seed, const Arguments& arguments);

}  // namespace lockstep::sim
