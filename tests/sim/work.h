// work.h - the work of a simulated run: it can be started, observed at a crash, judged, continued.
#pragma once

#include <memory>

#include "tests/sim/host.h"
#include "tests/sim/liveness.h"
#include "tests/sim/plan.h"

namespace lockstep::sim {

// State that the parts of a run share.
struct Shared {
    const Config& config;
    Report& report;
    Digest& digest;
    uint64_t faults_struck = 0;  // faults that may make an operation fail
    // Operations may fail with I/O errors, no space, a failed store.
    bool failures_allowed = false;
    Liveness liveness{};
    uint32_t crashes = 0;  // in a row, before what is judged
};

class Work {
public:
    virtual ~Work() = default;
    // Makes the objects on a new store. Steps the host.
    virtual void prepare(Host& host) = 0;
    // Starts the user threads. They run while the caller steps the host.
    virtual void start(Host& host) = 0;
    virtual bool done() const = 0;
    virtual double progress() const = 0;  // 0..1
    // The current moment, for a later judge().
    virtual uint64_t moment() const = 0;
    // Reads a recovered store and compares it with what must have survived from `at`. Faults go to
    // the report. If the store is sound, returns work that continues from its content: a few
    // transactions, which report to `next`.
    virtual std::unique_ptr<Work> judge(Host& recovered, uint64_t at, uint64_t variant,
                                        Shared& next) = 0;
    // The same for a store with a damaged or outdated page: all readable data must be right, and
    // the rest must be an error that names a page.
    virtual void judge_injured(Host& host, uint64_t at) = 0;
    // The store itself is judged next. Later images of its disk show what was ended there.
    virtual void will_be_judged() {}
    // Opens the copies that were made of the store, and compares them.
    virtual void judge_copies(threads::SimDisk&) {}
};

std::unique_ptr<Work> make_records(Shared& shared, const Plan& plan);
std::unique_ptr<Work> make_tpcc(Shared& shared);

// True for errors that a fault may cause in an operation.
bool is_failure_of_environment(ErrorCode code);

}  // namespace lockstep::sim
