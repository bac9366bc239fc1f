// cpu_use.h - how much CPU the threads of this process got, and how long they waited for one.
//
// Concepts   The kernel counts both for each thread (/proc/self/task/*/schedstat). A thread waits
//            for a CPU while it could run and another thread, of this process or of others, has
//            it. A result from a busy machine says so by that.
#pragma once

#include <optional>

#include <lockstep/clock.h>

namespace lockstep::tpcc {

struct CpuUse {
    Nanos ran = 0;                // of all threads, also of those that have ended
    std::optional<Nanos> waited;  // of the threads that live; none: the kernel does not tell
    CpuUse operator-(const CpuUse& earlier) const;
    // Of the time in which threads could run.
    std::optional<double> wait_share() const;
};
// Since the process began. Reads a small file for each kernel thread.
CpuUse cpu_use();

}  // namespace lockstep::tpcc
