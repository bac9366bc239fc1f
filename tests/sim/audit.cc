// audit.cc - verify() while no transaction is active, beside backups, checkpoints and all else.
#include <fmt/format.h>

#include "tests/sim/records.h"

namespace lockstep::sim {

// Of a secondary index of records that are in doubt nothing can be said.
bool Records::verify_is_prevented(Host& host, const Error& error) const {
    if (error.code == ErrorCode::lock_timeout) return !host->prepared().empty();
    return shared_.failures_allowed && is_failure_of_environment(error.code);
}

// Waits for the transactions that are active; rest() holds the others up. Backups, checkpoints and
// give_back_space() of other threads go on.
void Records::audit(Host& host) {
    // What lost writes damage is damaged, and verify() names the pages for which it finds no frame.
    const FaultProfile profile = shared_.config.profile;
    if (auditing_ || profile == FaultProfile::lost_writes || profile == FaultProfile::data_failure)
        return;
    auditing_ = true;
    while ((live_ > 0 || deciding_ > 0) && !shared_.report.failed()) sleep_for(kMillisecond);
    if (!shared_.report.failed()) {
        const auto faults = host->verify(1 + static_cast<uint32_t>(finished_ % 3));
        // A store that has failed cannot finish its rollbacks, nor free what was dropped.
        if (!host->failure()) {
            if (!faults && !verify_is_prevented(host, faults.error()))
                shared_.report.fail("an audit: " + faults.error().text());
            if (faults) shared_.report.add(Count::audits);
            for (const std::string& fault : faults.value_or(std::vector<std::string>()))
                shared_.report.fail("an audit: " + fault);
        }
    }
    auditing_ = false;
}

}  // namespace lockstep::sim
