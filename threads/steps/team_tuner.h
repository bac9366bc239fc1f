// team_tuner.h - finds by trials how large teams should be, and whether to use teams at all.
//
// Concepts   Teams win where threads share code and data beyond the caches. They lose where threads
//            wait for each other's locks or evict each other's data. Which effect wins depends on
//            the program, its data and the machine, so each worker runs trials. A *setting* is a
//            way to run: teams of at most some size, or none. A *window* is a fixed amount of work,
//            and its duration is what counts. A *trial* alternates a candidate and the current
//            setting, A B B A, and counts which was faster. Noise that lasts longer than two
//            windows hits both. After a round of trials without a change the tuner rests, twice as
//            long each time.
// Invariants GE-1 A setting that is slower in every pair of windows is never kept.
//            GE-2 While nothing changes, the rests grow to kRestMax windows. [tests: TeamTunerTest]
// Blocking   never.
#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/steps_options.h>
#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::threads {

struct TeamSetting {
    StepsMode mode = StepsMode::on;
    uint32_t team_max = 0;
    bool operator==(const TeamSetting&) const = default;
};

struct TunerStats {
    TeamSetting setting;  // the current setting
    uint64_t windows = 0, trials = 0, changes = 0;
};

class TeamTuner {
public:
    // Begins with teams of at most `team_max`. The candidates are smaller teams, prefetching
    // without teams, teams of operations (`ctx`), and `off`.
    explicit TeamTuner(uint32_t team_max);

    // The setting to run in now.
    const TeamSetting& setting() const { return settings_[testing_ ? candidate_ : kept_]; }
    // A window in setting() took `nanos`. True: setting() has changed.
    bool window_ended(Nanos nanos);
    // Discards the present pair of windows: the worker was idle for a while. The next pair begins
    // with the current setting. True: setting() has changed.
    bool disturbed() {
        assert_state();
        half_ = false;
        return std::exchange(testing_, false);
    }
    TunerStats stats() const;

private:
    static constexpr uint32_t kSmallest = 4;       // smaller teams share too little
    static constexpr int kWins = 4, kLosses = -2;  // leads that decide a trial
    // A trial without such a lead keeps the current setting.
    static constexpr uint32_t kPairsMax = 16;
    static constexpr uint32_t kRestFirst = 16, kRestMin = 64, kRestMax = 4096;  // windows
    static constexpr double kFarSlower = 1.25;                                  // decides at once

    void next_trial();
    void assert_state() const {
        DCHECK(count_ >= 3 && count_ <= kSettingsMax);
        DCHECK(kept_ < count_ && candidate_ < count_);
        DCHECK(!trying_ || kept_ != candidate_);
        DCHECK(trying_ || (!testing_ && !half_ && rest_ > 0));
        DCHECK(!trying_ || (lead_ > kLosses && lead_ < kWins && pairs_ < kPairsMax));
        DCHECK(refused_ < count_ && changes_ <= trials_);
    }

    static constexpr uint32_t kSettingsMax = 12;
    // No allocation: other threads read the statistics while the worker runs.
    TeamSetting settings_[kSettingsMax];
    uint32_t count_ = 0, kept_ = 0, candidate_ = 0;
    bool trying_ = false;   // a trial is active
    bool testing_ = false;  // the candidate runs
    bool half_ = false;     // the first window of a pair has ended; it took first_
    Nanos first_ = 0;
    int lead_ = 0;
    uint32_t pairs_ = 0;
    uint32_t refused_ = 0;  // candidates in a row
    uint32_t rest_ = kRestFirst, next_rest_ = kRestMin;
    uint64_t windows_ = 0, trials_ = 0, changes_ = 0;
};

}  // namespace lockstep::threads
