// memory_limit.h - how much memory the system lets this process have.
#pragma once

#include <cstdint>

namespace lockstep::sm {

// The smaller of the machine's memory and the limits of the process's control groups, versions 1
// and 2, in bytes. Limits that cannot be read count as absent. Blocks for reads of /proc and /sys.
uint64_t memory_limit();

}  // namespace lockstep::sm
