// host.h - the simulator's store: a SimStore of a drawn configuration, and reading all that it
// holds.
#pragma once

#include <set>
#include <string>

#include "tests/sim/config.h"
#include "tests/sim/content.h"
#include "tests/sim/report.h"
#include "tests/sim_store.h"

namespace lockstep::sim {

class Host : public SimStore {
public:
    // `variant` sets this host's schedule apart from others of the same seed.
    Host(threads::SimDisk& disk, const Config& config, uint64_t variant);
    ~Host() { abandon(); }

    void step() { SimStore::step(tick_); }
    // Runs fn on a user thread of the store and steps until it has ended; false: it hangs.
    bool on_thread(std::function<Result<void>()> fn, Result<void>* result = nullptr);
    // Everything that the store holds. With `unreadable`, objects with corrupt pages are named
    // there and left out.
    Result<Content> read_all(std::set<std::string>* unreadable = nullptr);

private:
    Result<void> read_object(Txn& txn, const Store::Entry& entry, ObjectContent& object);

    const Nanos tick_;
};

}  // namespace lockstep::sim
