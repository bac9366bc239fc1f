// engine_rest.cc - checks the whole engine while nothing runs.
//
// Concepts   A store is *at rest* when no thread can run and no transfer is in flight: between two
//            steps of a simulation, or while it closes and its workers have ended. Then everything
//            that is noted must be owned by somebody: locks, slots, promised log, frames, versions,
//            places in queues. A closing store is checked in test programs, and in builds with
//            debug checks.
#include "sm/buffer/buffer_pool.h"
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"

namespace lockstep::sm {

std::string Engine::verify_rest() const {
    if (!opened_ || failed() || runtime == nullptr) return {};
    // A close() on a user thread of another store is at rest, too.
    DCHECK(!on_own_thread());
    const auto named = [](const char* part, std::string fault) {
        return fault.empty() ? fault : std::string(part) + ": " + fault;
    };
    if (std::string fault = named("locks", locks->verify()); !fault.empty()) return fault;
    if (std::string fault = named("transactions", txns->verify()); !fault.empty()) return fault;
    if (std::string fault = named("pool", pool->verify(true)); !fault.empty()) return fault;
    if (snapshots == nullptr) return {};
    const VersionTable& versions_kept = snapshots->table();
    if (std::string fault = named("versions", versions_kept.verify()); !fault.empty()) return fault;
    if (versions_kept.snapshots().open() > txns->active()) return "a snapshot of no transaction";
    if (prepared != nullptr && prepared->counts().open != txns->prepared())
        return "transactions in doubt are miscounted";
    return {};
}

void Engine::show_rest() const {
#ifdef LOCKSTEP_DEBUG_CHECKS
    constexpr bool kAlways = true;
#else
    constexpr bool kAlways = false;
#endif
    if (!kAlways && observe_rest == nullptr) return;
    const std::string fault = verify_rest();
    if (observe_rest != nullptr) observe_rest(fault);
    else if (!fault.empty()) report(0, fault);
    DCHECK(observe_rest != nullptr || fault.empty());
}

}  // namespace lockstep::sm
