// injection.h - one failing operation under a store that acknowledges commits, and the check of the
// store afterwards.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tools/faultfs/fault_plan.h"

namespace lockstep::faultfs {

// What the work with the fault begins with.
enum class Begin : uint8_t { nothing, closed_store, killed_store };
constexpr size_t kBegins = 3;
constexpr std::array<const char*, kBegins> kBeginNames = {"new", "closed", "killed"};

struct Injection {
    uint64_t seed = 1;  // of the work
    Begin begin = Begin::nothing;
    FaultPlan plan;
};

struct Outcome {
    std::string why_not;              // the file system could not be mounted
    std::vector<std::string> faults;  // empty: the store is right
    uint64_t failed = 0;              // operations that failed
    uint64_t acknowledged = 0;        // commits
    bool stopped = false;             // the work ended with an error
    std::array<uint64_t, kOperations> counts{};
};

// Both parts run in child processes: the work on the mounted file system, the check on the
// directory behind it. The caller has no other threads.
Outcome inject(const Injection& injection);

}  // namespace lockstep::faultfs
