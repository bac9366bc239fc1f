// steps_options.h - how STEPS behaves; part of the public options.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/result.h>

namespace lockstep {

// off: threads run until they block. on: everything below, and the tuner decides. A transaction
// that has announced its needs (<lockstep/need.h>) runs to completion; the first of a team of them
// walks to the records of all. Operations of other transactions run in teams with CTX and prefetch.
// prefetch: no teams; each transaction walks its own needs. ctx: teams of operations with CTX and
// prefetch, as in the thesis; needs are ignored. The other modes isolate one part each, for
// measurements. grouping: teams, no CTX and no prefetch. ctx_only: teams with CTX, no prefetch.
// fastctx: transactions run one after the other as with off, but with the fast switch between them.
enum class StepsMode : uint8_t { off, on, grouping, prefetch, ctx_only, fastctx, ctx };

// True if transactions use teams at all.
constexpr bool teams_on(StepsMode mode) {
    return mode != StepsMode::off && mode != StepsMode::prefetch;
}
// True if every operation runs in a team, false if only begin does.
constexpr bool operations_in_teams(StepsMode mode) {
    return teams_on(mode) && mode != StepsMode::fastctx;
}
// True if CTX points switch.
constexpr bool ctx_on(StepsMode mode) {
    return mode == StepsMode::on || mode == StepsMode::ctx || mode == StepsMode::ctx_only;
}
// True if CTX points prefetch.
constexpr bool prefetch_on(StepsMode mode) {
    return mode == StepsMode::on || mode == StepsMode::ctx || mode == StepsMode::prefetch;
}
// True if needs are walked.
constexpr bool needs_on(StepsMode mode) {
    return mode == StepsMode::on || mode == StepsMode::prefetch;
}

// Which list is served next when a team is done.
enum class TeamPolicy : uint8_t {
    last_leaver,  // the list that the last leaver wants (the thesis's choice)
    largest,      // most waiting threads
    oldest,       // longest non-empty
};
// How many of a list's waiting threads make the team.
enum class TeamGate : uint8_t {
    t_gated,  // at most team_max
    d_gated,  // all that wait
    // At most team_max. A member that has received the CPU rounds_max times stays behind for a
    // later team.
    c_gated,
};

// CTX points as bits, for StepsOptions::points. `text` is "none", "manual", "icache", or names from
// ctx_points.h separated by commas or white space. '#' comments out the rest of a line. A file from
// tools/autosteps is the set `auto`. Error: bad_option (a = number of the bad word).
Result<uint32_t> ctx_points_from(std::string_view text);

// How threads are grouped into teams; part of Options, changed at run time by Store::set_steps().
struct StepsOptions {
    StepsMode mode = StepsMode::off;  // which parts of STEPS are on
    // 1..1024: threads in a team, and active transactions of a worker.
    uint32_t team_max = 16;
    TeamPolicy policy = TeamPolicy::last_leaver;
    TeamGate gate = TeamGate::t_gated;
    uint32_t rounds_max = 64;  // c_gated: CTX rounds of a member per team
    // CTX points by bit, see ctx_points_from(); all ones: set `manual`.
    uint32_t points = UINT32_MAX;
    // Mode `on`: a worker also tries smaller teams and none, and keeps the fastest
    // (threads/steps/team_tuner.h). It times windows of so many records that committed transactions
    // have locked. 0: no trials.
    uint32_t window_records = 8192;
    // Keep each thread's floating-point modes at a fast switch.
    bool float_state = false;
    // For an experiment only: CTX also with exclusive latches held.
    bool ignore_latches = false;
};

}  // namespace lockstep
