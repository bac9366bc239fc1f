// needs_team.h - the team at begin: packets whose needs are walked together, before the first of
// them runs.
//
// Concepts   An executing thread shows the packets that it has taken to this hook. The hook walks
//            the needs of as many of them as the caches hold, on that thread's stack. Then each
//            packet runs to completion, so it meets few locks of the others. Packets without needs
//            pass.
//            Transactions evict each other's lines if a team is too large. So a team is bounded by
//            the cache lines that its walk asks for, and not only by its packets. A transaction
//            uses several times the lines that its needs name; hence the small share of the L2
//            cache.
// Blocking   Starts page reads; waits for nothing.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3.
#pragma once

#include "sm/needs/needs.h"
#include "threads/worker/team_hook.h"

namespace lockstep::sm {

class NeedsTeam final : public threads::TeamHook {
public:
    explicit NeedsTeam(Host& host);

    size_t team_max() override;
    size_t prepare(threads::Packet* const* packets, size_t n) override;
    void unused(void* above) override;

    // The lines that a team may ask for.
    uint64_t lines_max() const { return lines_max_; }

private:
    Host& host_;
    const uint64_t lines_max_;
};

}  // namespace lockstep::sm
