// lock_policy.h - who waits before whom: the seam for grant policies other than first come, first served.
//
// Concepts   A policy orders new waiters when they join a queue; conversions always stand before them, and what a lock's holders
//            allow is granted from the front. Ageing: a waiter that `bypass_max` others have overtaken is overtaken no more.
//            Without a policy (a null pointer) the queue is first come, first served and costs no call.
// Blocking   before() runs under a bucket's latch: it must neither park nor allocate.
#pragma once

#include <cstdint>

#include "txn/lock_mode.h"

namespace lockstep::txn {

// What a policy may look at. Constant while the owner waits.
struct LockWaiter {
    LockMode wanted = LockMode::none;
    uint32_t priority = 0;               // LockOwner::priority
    uint32_t operations_left = 0;        // LockOwner::operations_left, 0 = unknown
    uint64_t work = 0;                   // LockOwner::work
};

class GrantPolicy {
public:
    virtual ~GrantPolicy() = default;
    // True if `arriving` should be granted before `waiting`, which came earlier.
    virtual bool before(const LockWaiter& arriving, const LockWaiter& waiting) const = 0;
};

}  // namespace lockstep::txn
