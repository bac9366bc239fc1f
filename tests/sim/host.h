// host.h - the simulator's store: a SimStore with a drawn configuration that can read all content.
#pragma once

#include <set>
#include <string>

#include "tests/sim/config.h"
#include "tests/sim/content.h"
#include "tests/sim/report.h"
#include "tests/sim_store.h"

namespace lockstep::sim {

inline constexpr const char* kArchive = "/archive";

class Host : public SimStore {
public:
    // `variant` gives this host another schedule than others of the same seed.
    Host(threads::SimDisk& disk, const Config& config, uint64_t variant);
    ~Host() { abandon(); }

    // Opens the store and attaches the key functions of its secondary indexes.
    Result<void> open(std::string_view directory = "/store");
    // Once more, for those that were in doubt at the open.
    Result<void> attach_keys();
    Lsn log_end();  // where the next record will be
    void step() { SimStore::step(tick_); }
    // Runs fn on a user thread of the store and steps until it has ended. False on a hang.
    bool on_thread(std::function<Result<void>()> fn, Result<void>* result = nullptr);
    // The whole content of the store. With `unreadable`, objects with corrupt pages are left out
    // and their names go there.
    Result<Content> read_all(std::set<std::string>* unreadable = nullptr);

    // A secondary index of `of`, which lies under `name`: made and filled if it is not there.
    Result<void> make_secondary(Txn& txn, const std::string& name, Index of);

private:
    Result<void> read_object(Txn& txn, const Store::Entry& entry, ObjectContent& object);

    const Nanos tick_;
};

}  // namespace lockstep::sim
