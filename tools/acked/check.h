// check.h - compares a store with the transactions that were acknowledged.
#pragma once

#include <string>
#include <vector>

#include <lockstep/store.h>
#include "tools/acked/plan.h"

namespace lockstep::acked {

// A client may be ahead of its acknowledgements by those that were lazy, and by one in progress.
constexpr uint64_t kAheadMax = kLazyMax + 1;

struct Verdict {
    std::vector<std::string> faults;  // empty: all is well
    std::vector<uint64_t> newest;     // transaction of each client, 0: none
};

// Opens the store, which recovers it. `acked` has the newest acknowledged transaction of each
// client. The store must contain exactly the transactions up to each client's newest one, whole.
// That one is the acknowledged one or one of the `ahead` that follow. verify() must find nothing.
// Errors are faults, too. Blocks.
Verdict check_store(const std::string& path, uint64_t seed, const std::vector<uint64_t>& acked,
                    uint64_t ahead = kAheadMax, const Logger& logger = {});

}  // namespace lockstep::acked
