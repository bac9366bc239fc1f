// deadlock.h - deadlocks between operators with bounded buffers, and the cheapest way out.
//
// Concepts   An operator that several others take rows from waits while any of its buffers is full;
//            an operator waits while the input that it needs is empty. So a plan whose branches
//            meet again can wait for itself: one branch is full and the other one empty. The graph
//            has an edge from each operator that waits to those that it waits for; a cycle is a
//            deadlock. To *keep* an operator's rows, in buffers without a bound, takes its waits
//            for full buffers out of the graph. Waits for an empty input cannot be taken out.
//            The search runs when an operator begins to wait, so each cycle goes through it. The
//            cheapest set of operators to keep is a minimum cut of the waiting operators between
//            its exit and its entrance.
// Source     Harizopoulos, section 4.4.1. Cut: Ford, Fulkerson, "Flows in Networks", 1962.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::sm::report {

struct Waiter {
    std::vector<uint32_t> waits_for = {};  // empty: it runs, or can
    // What keeping its rows costs; kCannotKeep: it waits for an empty input.
    uint64_t cost = 0;
};
inline constexpr uint64_t kCannotKeep = UINT64_MAX;

// Does a chain of waits lead from `from` back to it?
bool waits_for_itself(const std::vector<Waiter>& waiters, uint32_t from);
// The cheapest set of waiters to keep, so that no chain does any more; all chains go through
// `from`. Ascending. Some waiter of each chain must be one that can be kept.
std::vector<uint32_t> cheapest_to_keep(const std::vector<Waiter>& waiters, uint32_t from);

}  // namespace lockstep::sm::report
