// clock.cc - the real clock.
#include <lockstep/clock.h>

#include <time.h>

namespace lockstep {

Nanos MonotonicClock::now() const {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

}  // namespace lockstep
