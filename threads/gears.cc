// gears.cc - trials of smaller teams, and of none.
#include "threads/gears.h"

namespace lockstep::threads {

Gears::Gears(uint32_t team_max) {
    for (uint32_t size = team_max; size >= 4; size /= 2) gears_.push_back({StepsMode::on, size});
    if (gears_.empty()) gears_.push_back({StepsMode::on, team_max});
    gears_.push_back({StepsMode::prefetch, team_max});
    gears_.push_back({StepsMode::off, team_max});
}

bool Gears::window_ended(Nanos nanos) {
    ++windows_;
    if (!trying_) {
        if (--rest_ > 0) return false;
        next_trial();
        return false;                            // it begins with the gear that runs
    }
    const Gear before = gear();
    if (!half_) {
        half_ = true;
        first_ = nanos;
        testing_ = !testing_;
        return true;
    }
    half_ = false;
    const Nanos kept = testing_ ? first_ : nanos, candidate = testing_ ? nanos : first_;
    lead_ += candidate < kept ? 1 : -1;
    if (static_cast<double>(candidate) > kFarSlower * static_cast<double>(kept)) lead_ = kLosses;
    if (lead_ >= kWins) {
        kept_ = candidate_;
        ++changes_;
        refused_ = 0;
        next_rest_ = kRestMin;
        next_trial();
    } else if (lead_ <= kLosses || ++pairs_ == kPairsMax) {
        if (++refused_ + 1 < gears_.size()) {
            next_trial();
        } else {                                 // nobody is better
            trying_ = testing_ = false;
            refused_ = 0;
            rest_ = next_rest_;
            next_rest_ = next_rest_ < kRestMax ? 2 * next_rest_ : kRestMax;
        }
    }
    return !(gear() == before);
}

void Gears::next_trial() {
    trying_ = true;
    testing_ = false;
    half_ = false;
    lead_ = 0;
    pairs_ = 0;
    ++trials_;
    do candidate_ = (candidate_ + 1) % gears_.size();
    while (candidate_ == kept_);
}

GearStats Gears::stats() const { return {gears_[kept_], windows_, trials_, changes_}; }

}  // namespace lockstep::threads
