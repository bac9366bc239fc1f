// online_audit.h - checks the consistency conditions again and again while the terminals run.
//
// Concepts   Each check reads the whole database in one snapshot transaction. The snapshot is a
//            state between two commits, so the conditions must hold in it exactly. It takes no
//            locks: the terminals go on. A user thread of its own runs the checks.
// Source     TPC-C revision 5.11, clause 3.3.2.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "tpcc/consistency.h"

namespace lockstep::tpcc {

struct OnlineCheck {
    Nanos began = 0;  // since the first terminal started
    ConsistencyReport report;
};

class OnlineAudit {
public:
    // Called after each check, on a user thread.
    using Report = std::function<void(const OnlineCheck&)>;
    OnlineAudit(Database& db, Nanos every, Report report)
        : db_(db), every_(every), report_(std::move(report)) {}

    // Starts the checks: the first one `every` after the call, each further one at least `every`
    // after the begin of the one before.
    void start();
    // Waits for the check that runs, and ends. Error: the first that a check met.
    Result<void> stop();
    const std::vector<OnlineCheck>& checks() const { return checks_; }

private:
    Result<void> run();

    Database& db_;
    const Nanos every_;
    const Report report_;
    std::atomic<bool> stop_{false};
    Handle<void> thread_;
    std::vector<OnlineCheck> checks_;  // by the thread until stop() has returned
};

}  // namespace lockstep::tpcc
