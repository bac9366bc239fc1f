// host.h - one store on a simulated disk, driven by the calling kernel thread under virtual time.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "sm/engine.h"
#include "sm/store.h"
#include "tests/sim/config.h"
#include "tests/sim/content.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

class Host {
public:
    // `variant` sets this host's schedule apart from others of the same seed.
    Host(threads::SimDisk& disk, const Config& config, uint64_t variant);
    ~Host();
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    Options& options() { return options_; }
    Result<void> open();
    Result<void> close();
    // Drops the engine in mid-flight, as a crash of the process does.
    void abandon();
    bool is_open() const { return store_.has_value(); }

    Store& operator*() { return *store_; }
    Store* operator->() { return &*store_; }
    sm::Engine& engine() { return store_->engine(); }
    ManualClock& clock() { return clock_; }
    const std::string& errors() const { return errors_; }

    // One slice of one worker, or time passes.
    void step();
    // Runs fn on a user thread of the store and steps until it has ended; false: it did not end within the bound.
    bool on_thread(std::function<Result<void>()> fn, Result<void>* result = nullptr);
    // Everything that the store holds. With `unreadable`, objects with corrupt pages are named there and left out.
    Result<Content> read_all(std::set<std::string>* unreadable = nullptr);

private:
    bool idle();
    Result<void> read_object(Txn& txn, const Store::Entry& entry, ObjectContent& object);

    threads::SimDisk& disk_;
    ManualClock clock_;
    Seams seams_;
    Options options_;
    const Nanos tick_;
    std::optional<Store> store_;
    std::string errors_;
};

}  // namespace lockstep::sim
