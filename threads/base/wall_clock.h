// wall_clock.h - the time of day, for what must mean the same in another process or on another
// machine.
#pragma once

#include <lockstep/clock.h>

namespace lockstep {

// Nanoseconds since 1970, UTC; may go back when the system's clock is set. Under a clock that a
// test moves, that clock's time.
Nanos wall_now(const Clock& clock);

}  // namespace lockstep
