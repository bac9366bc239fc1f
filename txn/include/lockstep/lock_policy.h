// lock_policy.h - in which order blocked lock requests are granted. Part of the public options.
//
// Concepts   Only requests that have to wait are ordered. A conversion (its owner already holds the
//            lock and wants more) stands before all new requests under every policy. Ageing: a
//            request that was overtaken bypass_max times is not overtaken again, and later requests
//            stay behind it.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 6.1.2, for the direction:
//            short requests first. local_first: D. Dice, V. Marathe, N. Shavit, "Lock Cohorting",
//            2012, the same idea for spin locks.
#pragma once

#include <cstdint>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// Which of several blocked requests for one lock is granted first.
enum class LockPolicy : uint8_t {
    fifo,  // first come, first served
    // Fewest operations left (TxnOptions::operations); an undeclared length counts as the longest.
    short_first,
    priority,  // largest TxnOptions::priority
    // A waiter of the worker that releases the lock: the next holder starts without a wake-up
    // across workers.
    local_first,
};

// How blocked lock requests are ordered; part of Options.
struct LockStageOptions {
    LockPolicy policy = LockPolicy::fifo;  // the order
    // No request is overtaken more often than this, 0..65535; 0 = never.
    uint32_t bypass_max = 16;
};

}  // namespace lockstep
