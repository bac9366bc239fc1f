// team_tuner.cc - trials of smaller teams, and of no teams.
#include "threads/steps/team_tuner.h"

namespace lockstep::threads {

TeamTuner::TeamTuner(uint32_t team_max) {
    settings_[count_++] = {StepsMode::on, team_max};
    for (uint32_t size = team_max / 2; size >= kSmallest && count_ + 3 < kSettingsMax; size /= 2)
        settings_[count_++] = {StepsMode::on, size};
    settings_[count_++] = {StepsMode::prefetch, team_max};
    settings_[count_++] = {StepsMode::ctx, team_max};
    settings_[count_++] = {StepsMode::off, team_max};
}

bool TeamTuner::window_ended(Nanos nanos) {
    assert_state();
    ++windows_;
    if (!trying_) {
        if (--rest_ > 0) return false;
        next_trial();
        return false;  // a trial begins with the current setting
    }
    const TeamSetting before = setting();
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
        if (++refused_ + 1 < count_) {
            next_trial();
        } else {  // no candidate is better
            trying_ = testing_ = false;
            refused_ = 0;
            rest_ = next_rest_;
            next_rest_ = next_rest_ < kRestMax ? 2 * next_rest_ : kRestMax;
        }
    }
    return !(setting() == before);
}

void TeamTuner::next_trial() {
    trying_ = true;
    testing_ = false;
    half_ = false;
    lead_ = 0;
    pairs_ = 0;
    ++trials_;
    do candidate_ = (candidate_ + 1) % count_;
    while (candidate_ == kept_);
}

TunerStats TeamTuner::stats() const { return {settings_[kept_], windows_, trials_, changes_}; }

}  // namespace lockstep::threads
