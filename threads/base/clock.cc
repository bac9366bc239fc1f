// clock.cc - the real clocks.
#include <lockstep/clock.h>

#include <time.h>

#include "threads/base/check.h"
#include "threads/base/wall_clock.h"

namespace lockstep {

namespace {

Nanos read_clock(clockid_t id) {
    timespec t;
    [[maybe_unused]] const int failed = clock_gettime(id, &t);
    DCHECK(failed == 0 && t.tv_sec >= 0 && t.tv_nsec >= 0);
    return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

}  // namespace

Nanos MonotonicClock::now() const { return read_clock(CLOCK_MONOTONIC); }

Nanos wall_now(const Clock& clock) {
    return clock.moves_by_itself() ? read_clock(CLOCK_REALTIME) : clock.now();
}

}  // namespace lockstep
