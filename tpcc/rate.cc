// rate.cc - streams of arrivals.
#include "tpcc/rate.h"

#include <algorithm>
#include <cmath>

#include "threads/base/check.h"

namespace lockstep::tpcc {

Arrivals::Arrivals(const OfferedRate& rate, uint32_t number, uint32_t count, Nanos started, Rng rng)
    : kind_(rate.kind),
      gap_(static_cast<double>(kSecond) * count / rate.per_second),
      began_(static_cast<double>(started) +
             (rate.kind == ArrivalKind::constant ? gap_ * number / count : 0)),
      rng_at_begin_(rng),
      rng_(rng),
      at_(began_) {
    CHECK(rate.per_second > 0 && number < count);
}

Nanos Arrivals::claim() {
    SpinGuard guard(lock_);
    return next();
}

Nanos Arrivals::next() {
    // Before the greatest time, so that the sum of two does not overflow.
    const auto due_at = [&] { return static_cast<Nanos>(std::min(at_, 9e18)); };
    if (kind_ == ArrivalKind::constant) {
        const Nanos due = due_at();
        at_ += gap_;
        return due;
    }
    // Times between arrivals of a Poisson process are exponential.
    const double r = (static_cast<double>(rng_.next() >> 11) + 1) * 0x1.0p-53;
    at_ += -std::log(r) * gap_;
    return due_at();
}

uint64_t Arrivals::due_between(Nanos from, Nanos to) const {
    // The same stream again, from its begin.
    Arrivals again({static_cast<double>(kSecond) / gap_, kind_}, 0, 1, 0, rng_at_begin_);
    again.at_ = began_;
    uint64_t count = 0;
    for (Nanos due = again.next(); due < to; due = again.next()) count += due >= from;
    return count;
}

}  // namespace lockstep::tpcc
