// sim_image.h - a small store on a simulated disk to damage, and everything one can do with what is left of it.
#pragma once

#include <memory>

#include "sm/store.h"
#include "threads/io/sim_disk.h"

namespace lockstep::fuzz {

// A disk with a store in /store: an index "i" of several levels, a heap "h", large values. Closed, or as a kill in mid-flight left it.
std::unique_ptr<threads::SimDisk> base_image(bool killed);

// A store driven by the calling thread.
class SimStore {
public:
    explicit SimStore(threads::SimDisk& disk);
    ~SimStore();
    Result<void> open(bool create);
    // On a user thread; drives the store until it has ended. Stops the process if nothing ever happens again.
    void on_thread(std::function<void()> fn);
    Store* operator->() { return &*store_; }
    Store& operator*() { return *store_; }
    Result<void> close();

private:
    bool idle();
    threads::SimDisk& disk_;
    ManualClock clock_;
    Seams seams_;
    Options options_;
    std::optional<Store> store_;
    uint64_t idle_turns_ = 0;
};

// Opens, reads and scans everything, changes something, verifies, closes. Errors are fine, anything else is not.
void open_and_use(threads::SimDisk& disk);

}  // namespace lockstep::fuzz
