// lock_holder.h - which process holds the flock of a file.
//
// Blocking   Reads files of /proc.
// Source     proc_locks(5).
#pragma once

#include <optional>
#include <string>

namespace lockstep::threads {

struct LockHolder {
    int pid = 0;             // 0: not visible from here, as outside a container
    std::string program;     // its name; empty if it is not visible
    bool exclusive = false;  // the lock is not shared
    // "this process", "another process", or as "process 4711 (lockstep-tpcc)".
    std::string text() const;
};

// The holder of the flock of an open file; empty if no process holds it, or if the system does not
// tell. Only looks, so it cannot disturb a process that is about to lock the file.
std::optional<LockHolder> lock_holder(int descriptor);

}  // namespace lockstep::threads
