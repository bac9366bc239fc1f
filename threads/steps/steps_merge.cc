// steps_merge.cc - merges the lists of one kind of operation while that makes teams larger.
//
// Concepts   With many objects and few threads on each, lists per object make small teams. Every
//            kReviewTeams teams a review looks at the mean team size of fetch, insert and erase
//            since the last one. Where teams are small although threads wait, all objects then
//            share one list. A team then has less code and data in common, but it is a team. If
//            teams have not grown by a third, the review splits the list again and leaves it split
//            for a while. After kTrial windows it splits the list in any case, to test whether
//            single lists do well by now. Threads that wait on the old lists are served from there.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.4.2 (merging lists by
//            average team size).
#include "threads/steps/steps.h"

namespace lockstep::threads {
namespace {

constexpr double kSmallTeam = 3, kGain = 1.33;
constexpr uint64_t kTeamsToJudge = 256;
constexpr uint32_t kTrial = 64, kRest = 16;

}  // namespace

void Steps::review_lists() {
    for (uint32_t kind = 0; kind < kMergeableKinds; ++kind) review(kind);
}

void Steps::review(uint32_t kind) {
    Merging& m = merging_[kind];
    uint64_t teams = 0, entered = 0, ready = 0;
    // The index arithmetic includes the merged list.
    for (uint32_t i = 4 + kind; i < kAllLists; i += kMergeableKinds) {
        const List& list = lists_[i];
        teams += list.teams + list.alone;
        entered += list.entered + list.alone;
        ready += list.ready + list.alone;
    }
    DCHECK(teams >= m.teams && entered >= m.entered && ready >= m.ready);
    const uint64_t window = teams - m.teams;
    const double size = static_cast<double>(entered - m.entered) /
                        static_cast<double>(std::max<uint64_t>(window, 1));
    const double waiting =
        static_cast<double>(ready - m.ready) / static_cast<double>(std::max<uint64_t>(window, 1));
    m.teams = teams, m.entered = entered, m.ready = ready;
    if (m.merged) {
        const bool pays = window < kTeamsToJudge || size >= kGain * m.split_size;
        if (pays && ++m.windows < kTrial) return;
        m.rest = pays ? 0 : kRest;
        route(kind, false);
    } else if (m.rest > 0) {
        --m.rest;
    } else if (window >= kTeamsToJudge && size < kSmallTeam && waiting >= 2 * size) {
        m.split_size = size;
        m.windows = 0;
        route(kind, true);
    }
}

void Steps::route(uint32_t kind, bool merged) {
    merging_[kind].merged = merged;
    for (uint32_t i = 4 + kind; i < kLists; i += kMergeableKinds)
        routes_[i] = merged ? &lists_[kLists + kind] : &lists_[i];
}

}  // namespace lockstep::threads
