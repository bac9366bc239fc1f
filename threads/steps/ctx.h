// ctx.h - CTX: at a named point, pass the CPU to the next member of the running team.
//
// Concepts   With STEPS off, or outside a team, a point is a load, a test and a branch. In a team
//            the fast switch (fast_switch.h) enters the next member directly. It uses no scheduler
//            and no ready queue; only worker_local.current follows. Put the points of one operation
//            into one function, as far as possible. Where members stand at different call depths,
//            the CPU mispredicts each return across the difference.
// Invariants CT-1 CTX does nothing in a thread that is in no team, alone in it, or holds an
//            exclusive latch. [tests: StepsTest]
//            CT-2 The switch is at most 64 bytes (x86-64). [test:
//            CtxTest.TheFastSwitchFitsACacheLine]
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 5.3 and 5.4.
#pragma once

#include "threads/steps/steps.h"

namespace lockstep::threads {

[[gnu::always_inline]] inline void ctx(CtxPoint point) {
    Thread* self = worker_local.current;
    if (self->next != nullptr) worker_local.teams->ctx(*self, point);
}

}  // namespace lockstep::threads

#define CTX(point) ::lockstep::threads::ctx(::lockstep::threads::CtxPoint::point)
