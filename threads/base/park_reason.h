// park_reason.h - why a user thread left the CPU: counted per worker, and per team as the cause of
// a stray.
#pragma once

#include <cstdint>

namespace lockstep::threads {

enum class ParkReason : uint8_t {
    lock,
    page_read,
    latch,
    log,
    io,
    event,
    sleep,
    yield,
    admission,
    kCount
};

// True for waits whose duration is measured: waits for other threads or for the disk. Sleeps and
// yields are a thread's own choice and are not measured.
constexpr bool timed(ParkReason reason) {
    return reason <= ParkReason::io || reason == ParkReason::admission;
}

}  // namespace lockstep::threads
