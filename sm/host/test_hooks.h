// test_hooks.h - replacements for the machine in tests and simulations: disk, clock, scheduling.
// Not installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <lockstep/clock.h>
#include "threads/base/mapping_cache.h"
#include "threads/io/io.h"

namespace lockstep {

namespace sm {
class Engine;
}

// Defined by test programs only, null elsewhere. Each close() calls it when all threads of the
// store have ended, with the fault that Engine::verify_rest() has found, or with an empty text.
[[gnu::weak]] void observe_rest(std::string_view fault);

// Options::test_hooks. Everything it names must outlive the store.
struct TestHooks {
    threads::Disk* disk = nullptr;
    const Clock* clock = nullptr;
    // No kernel threads: the caller steps the runtime.
    bool caller_driven = false;
    // With caller_driven: a step is as long as a worker's turn (threads/runtime/runtime.h).
    bool whole_turns = false;
    uint64_t seed = 1;
    bool random_schedule = false;
    uint32_t interrupt_one_in = 0;  // see threads/runtime/runtime.h
    // With caller_driven: called when no thread can run; moves time or completes I/O. False:
    // nothing will ever happen.
    std::function<bool()> idle = {};
    // Replaces Options::version_bytes by less than that allows; 0: does not.
    uint64_t version_bytes = 0;
    // The same for Options::pool_bytes, from 1 MB on.
    uint64_t pool_bytes = 0;
    // Called on a user thread when a restart has redone everything and undone nothing.
    std::function<void(sm::Engine&)> redone = {};
    // Memory that closed stores leave to the next ones; null: none.
    threads::MappingCache* mappings = nullptr;
};

}  // namespace lockstep
