// work.h - what a simulated run does with a store: something that can be started, observed at a
// crash, judged, and continued.
#pragma once

#include <memory>

#include "tests/sim/host.h"
#include "tests/sim/plan.h"

namespace lockstep::sim {

// What a run's parts share.
struct Shared {
    const Config& config;
    Report& report;
    Digest& digest;
    uint64_t faults_struck = 0;  // by anything that may make an operation fail
    // Operations may fail with I/O errors, no space, a failed store.
    bool failures_allowed = false;
};

class Work {
public:
    virtual ~Work() = default;
    // Makes objects, on a fresh store. Steps the host.
    virtual void prepare(Host& host) = 0;
    // Starts the user threads; they run while somebody steps the host.
    virtual void start(Host& host) = 0;
    virtual bool done() const = 0;
    virtual double progress() const = 0;  // 0..1
    // A moment that judge() can refer to later.
    virtual uint64_t moment() const = 0;
    // Reads a recovered store and compares it with what must have survived from `at`; faults go to
    // the report. If it is sound, the work that goes on from what was found: a few transactions,
    // which report to `next`.
    virtual std::unique_ptr<Work> judge(Host& recovered, uint64_t at, uint64_t variant,
                                        Shared& next) = 0;
    // The same where a page was damaged or is old: whatever can be read is right, the rest is an
    // error that names a page.
    virtual void judge_injured(Host& host, uint64_t at) = 0;
};

std::unique_ptr<Work> make_records(Shared& shared, const Plan& plan);
std::unique_ptr<Work> make_tpcc(Shared& shared);

// Errors that a fault may bring to an operation.
bool is_failure_of_environment(ErrorCode code);

}  // namespace lockstep::sim
