// ctx.h - CTX: at a named point, pass the CPU to the next member of the running team.
//
// Concepts   With STEPS off, or outside a team, a point is a load, a test and a branch. In a team the fast switch (ctx_x86_64.S) goes straight
//            to the next member: no scheduler, no ready queue; only worker_local.current follows.
//            Thread::fast_form tells which switch has suspended a thread. regular_form() lets the regular switch enter one that the fast
//            switch suspended; threads wait in teams in fast form only, so CTX never meets the other one.
// Invariants CT-1 CTX does nothing in a thread that is in no team, alone in it, or holds an exclusive latch. [tests: StepsTest]
//            CT-2 The switch is at most 64 bytes (x86-64). [test: StepsTest.TheFastSwitchFitsACacheLine]
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 5.3 and 5.4.
#pragma once

#include "threads/ctx_points.h"
#include "threads/switch.h"
#include "threads/thread.h"
#include "threads/worker_local.h"

extern "C" {
void lockstep_ctx_swap(void** save, void* to);
[[gnu::noreturn]] void lockstep_ctx_arrive();
void lockstep_ctx_leave(void** save, void (*then)(void*), void* arg);
}

namespace lockstep::threads {

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(LOCKSTEP_SANITIZED)
inline constexpr bool kFastSwitch = true;
#else
inline constexpr bool kFastSwitch = false;       // sanitizers must see every switch: teams then use the regular one
#endif

// Turns the saved pointer of a thread suspended by the fast switch into one that switch_context() takes.
void* regular_form(void* fast_sp);
// Where the regular switch enters a suspended thread, whichever switch suspended it.
inline void* resume_point(const Thread& thread) { return thread.fast_form ? regular_form(thread.sp) : thread.sp; }

// Out of line: the checks and the switch of a thread that is in a team.
[[gnu::noinline]] void ctx_in_team(Thread& self, CtxPoint point);

[[gnu::always_inline]] inline void ctx(CtxPoint point) {
    Thread* self = worker_local.current;
    if (self->next != nullptr) ctx_in_team(*self, point);
}
// Is the current thread in a team with others?
inline bool in_team() {
    const Thread* self = worker_local.current;
    return self->next != nullptr && self->next != self;
}

}  // namespace lockstep::threads

#define CTX(point) ::lockstep::threads::ctx(::lockstep::threads::CtxPoint::point)
