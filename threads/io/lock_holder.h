// lock_holder.h - which process holds a file's flock.
//
// Blocking   Reads files of /proc.
#pragma once

#include <string>

namespace lockstep::threads {

// Of the flock of an open file: such as "process 4711 (lockstep-tpcc)", or "this process". Empty if
// the system does not tell: no /proc, another PID namespace, or a file system on another machine.
std::string lock_holder(int descriptor);

}  // namespace lockstep::threads
