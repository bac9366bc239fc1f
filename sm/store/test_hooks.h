// test_hooks.h - what tests and simulations put in place of the machine: disk, clock, scheduling.
// Not installed.
#pragma once

#include <cstdint>
#include <functional>

#include <lockstep/clock.h>
#include "threads/io/io.h"

namespace lockstep {

namespace sm {
class Engine;
}

// Options::test_hooks. Everything it names must outlive the store.
struct TestHooks {
    threads::Disk* disk = nullptr;
    const Clock* clock = nullptr;
    // No kernel threads: the caller steps the runtime.
    bool caller_driven = false;
    // caller_driven: steps as long as a worker's turns (threads/runtime/runtime.h).
    bool whole_turns = false;
    uint64_t seed = 1;
    bool random_schedule = false;
    uint32_t interrupt_one_in = 0;  // see threads/runtime/runtime.h
    // caller_driven: called when no thread can run; moves time or completes I/O. False: nothing
    // will ever happen.
    std::function<bool()> idle = {};
    // Called on a user thread when a restart has redone everything and undone nothing.
    std::function<void(sm::Engine&)> redone = {};
};

}  // namespace lockstep
