// lock_holder.h - which process has a store open.
#pragma once

#include <optional>
#include <string>

namespace lockstep::cli {

struct LockHolder {
    int pid = 0;          // 0: not visible from here, as outside a container
    std::string program;  // its name; empty if it is not visible
    // `process 4711 (lockstep-tpcc)`.
    std::string text() const;
};

// The holder of the lock on DIRECTORY/lock, as /proc/locks tells it; empty if no process holds it.
// Only looks, so it cannot disturb a process that is about to open the store.
std::optional<LockHolder> lock_holder(const std::string& directory);

}  // namespace lockstep::cli
