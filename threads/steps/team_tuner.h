// team_tuner.h - finds by trying how large teams are to be, and whether there are to be any.
//
// Concepts   Teams win where threads share code and data beyond the caches and lose where they wait
//            for one another's locks or push one another's data out; which of the two depends on
//            the program, its data and the machine. So a worker tries: a *setting* is a way to run
//            (teams of at most so many, or none), a *window* a fixed amount of work, and what
//            counts is the time that a window takes. A *trial* lets a candidate and the present
//            setting take turns, A B B A, and counts who was faster: noise that lasts longer than
//            two windows hits both. After a round of trials without a change there is a rest, twice
//            as long each time.
// Invariants GE-1 A setting that is slower in every pair of windows is never kept. GE-2 While
//            nothing changes, the rests grow to kRestMax windows. [tests: TeamTunerTest]
// Blocking   never.
#pragma once

#include <cstdint>

#include <lockstep/steps_options.h>
#include <lockstep/types.h>

namespace lockstep::threads {

struct TeamSetting {
    StepsMode mode = StepsMode::on;
    uint32_t team_max = 0;
    bool operator==(const TeamSetting&) const = default;
};

struct TunerStats {
    TeamSetting setting;  // the present one
    uint64_t windows = 0, trials = 0, changes = 0;
};

class TeamTuner {
public:
    // Begins with teams of at most `team_max`; the others are smaller ones, prefetching without
    // teams, and neither.
    explicit TeamTuner(uint32_t team_max);

    // What to run in now.
    const TeamSetting& setting() const { return tuner_[testing_ ? candidate_ : kept_]; }
    // A window has been run in setting(), in `nanos`. True: setting() is another one now.
    bool window_ended(Nanos nanos);
    // What was seen of the present pair of windows is worth nothing: the worker had nothing to do
    // for a while.
    void disturbed() { half_ = false; }
    TunerStats stats() const;

private:
    static constexpr uint32_t kSmallest = 4;       // smaller teams share too little
    static constexpr int kWins = 4, kLosses = -2;  // lead that decides a trial
    // A trial without one ends in favour of what is there.
    static constexpr uint32_t kPairsMax = 16;
    static constexpr uint32_t kRestFirst = 16, kRestMin = 64, kRestMax = 4096;  // windows
    static constexpr double kFarSlower = 1.25;                                  // decides at once

    void next_trial();

    static constexpr uint32_t kGearsMax = 12;
    // No memory of its own: figures are asked for while the worker goes on.
    TeamSetting tuner_[kGearsMax];
    uint32_t count_ = 0, kept_ = 0, candidate_ = 0;
    bool trying_ = false;   // a trial is under way
    bool testing_ = false;  // the candidate runs
    bool half_ = false;     // the first window of a pair is over and took
    Nanos first_ = 0;
    int lead_ = 0;
    uint32_t pairs_ = 0;
    uint32_t refused_ = 0;  // candidates in a row
    uint32_t rest_ = kRestFirst, next_rest_ = kRestMin;
    uint64_t windows_ = 0, trials_ = 0, changes_ = 0;
};

}  // namespace lockstep::threads
