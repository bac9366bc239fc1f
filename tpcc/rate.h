// rate.h - an offered load: transactions are due at times that do not depend on earlier ones.
//
// Concepts   Each warehouse has a stream of arrivals. A free terminal of the warehouse claims the
//            next arrival and starts it when it is due, or at once if it is late. Its response time
//            counts from the moment at which it was due. So a stall of the store lengthens the
//            response times of all transactions that were due meanwhile. Terminals that wait for
//            their last answer before they ask again would hide this (coordinated omission).
//            An arrival waits only if all terminals of its warehouse are busy.
//            The streams together have the wanted rate. Poisson streams add up to a Poisson stream.
//            Constant streams are shifted against each other, so their sum is constant.
// Source     G. Tene, "How NOT to Measure Latency", and the program wrk2.
#pragma once

#include <lockstep/clock.h>
#include "threads/base/rng.h"
#include "threads/base/spin_lock.h"

namespace lockstep::tpcc {

enum class ArrivalKind : uint8_t { poisson, constant };

// The load that a run asks for.
struct OfferedRate {
    double per_second = 0;  // transactions of all warehouses; 0: each terminal repeats at once
    ArrivalKind kind = ArrivalKind::poisson;
};

// The arrivals of one warehouse, in the order of their times.
class Arrivals {
public:
    // `number` of `count` warehouses, 0-based. Times begin at `started`.
    Arrivals(const OfferedRate& rate, uint32_t number, uint32_t count, Nanos started, Rng rng);
    // When the next transaction is due. Any thread; spin lock.
    Nanos claim();
    // How many arrivals are due in [from, to). Call it after the last claim.
    uint64_t due_between(Nanos from, Nanos to) const;

private:
    Nanos next();

    SpinLock lock_;  // protects rng_ and at_
    const ArrivalKind kind_;
    const double gap_;  // mean, in nanoseconds
    const double began_;
    const Rng rng_at_begin_;
    Rng rng_;
    double at_;
};

}  // namespace lockstep::tpcc
