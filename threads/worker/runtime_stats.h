// runtime_stats.h - what the workers of a runtime count about scheduling.
#pragma once

#include <cstddef>
#include <cstdint>

#include "threads/base/park_reason.h"

namespace lockstep::threads {

struct RuntimeStats {
    uint64_t switches = 0;  // regular switches
    uint64_t parks[static_cast<size_t>(ParkReason::kCount)] = {};
    // Of the timed reasons: waits that have ended, and their nanoseconds.
    uint64_t waits_ended[static_cast<size_t>(ParkReason::kCount)] = {};
    uint64_t waited[static_cast<size_t>(ParkReason::kCount)] = {};
    uint64_t remote_wakes = 0;
    uint64_t sleeps = 0;  // times a worker slept in the kernel
    uint64_t threads_live = 0;
    uint64_t threads_max = 0;
    // Interruptions of virtual workers, see RuntimeOptions::interrupt_one_in.
    uint64_t interruptions = 0;
};

}  // namespace lockstep::threads
