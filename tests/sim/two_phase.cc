// two_phase.cc - the second phase, by a thread of its own.
#include <fmt/format.h>

#include "sm/engine/engine.h"
#include "tests/sim/records.h"

namespace lockstep::sim {

std::string Records::gid_of(const std::string& marker) const {
    return fmt::format("{}.{}", generation_, marker);
}

void Records::decide_later(Host& host, Doubt& doubt, Nanos pause) {
    if (pause == kNever) return;
    ++running_;
    ++deciding_;
    host->start([this, &host, &doubt, pause]() -> Result<void> {
        if (pause > 0) sleep_for(pause);
        decide(host, doubt);
        --deciding_;
        --running_;
        return {};
    });
}

void Records::decide(Host& host, Doubt& doubt) {
    Result<bool> ended;
    if (doubt.decision) {
        const size_t number = ledger_.commit_called(doubt.marker, doubt.changes, doubt.reads,
                                                    doubt.read_from, true, doubt.who);
        doubt.decided = ledger_.now();
        const Lsn before = host.log_end();
        ended = host->commit_prepared(doubt.gid);
        ledger_.second_phase_returned(number, before, host.log_end(), ended);
        if (ended.has_value()) doubt.ended = ledger_.now();
    } else {
        if (!host.engine().failed()) ledger_.abort_called(doubt.reads, doubt.who);
        doubt.decided = ledger_.tick();
        ended = host->rollback_prepared(doubt.gid);
        if (ended.has_value()) doubt.ended = ledger_.tick();
    }
    if (ended.has_value() && !*ended)
        shared_.report.fail(doubt.gid + " was prepared and is not known");
    if (!ended.has_value() &&
        !(shared_.failures_allowed && is_failure_of_environment(ended.error().code)))
        shared_.report.fail("the second phase: " + ended.error().text());
}

}  // namespace lockstep::sim
