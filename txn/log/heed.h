// heed.h - what a transaction must heed before its next operation. One byte, which every operation
// tests once.
#pragma once

#include <cstdint>

namespace lockstep::txn {

enum class Heed : uint8_t {
    nothing,
    // The log is scarce: wait before the next operation (sm/engine/log_room.h).
    log_scarce,
    // From here on only a rollback is possible. An operation's error left it unable to go on.
    failed,
    // Ended from outside, with the reason.
    by_operator,
    cancelled,
    too_old,
    pins_log,
};

}  // namespace lockstep::txn
