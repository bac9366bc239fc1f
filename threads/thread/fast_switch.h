// fast_switch.h - the switch inside a team: from a thread straight to another, no scheduler, no
// ready queue.
//
// Concepts   Thread::fast_form tells which switch has suspended a thread. regular_form() lets the
//            regular switch enter one that the fast switch suspended; threads wait in teams in fast
//            form only, so the fast switch never meets the other one. On x86-64 it is a jump and no
//            call, and the thread entered goes on by a jump and no return: the processor foretells
//            a return by the last call, which another thread has made from another place, but a
//            jump by where it went before. The compiler saves what is live at the place of the
//            switch; the switch itself keeps the frame pointer and where to go on.
// Layout     a suspended thread has on its stack, from its saved sp upwards: where it goes on,
//            frame pointer. (On ARM: see there.)
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3.
#pragma once

#include "threads/thread/ctx_points.h"
#include "threads/thread/switch.h"
#include "threads/thread/thread.h"

extern "C" {
void lockstep_ctx_swap();
void lockstep_ctx_leave();
[[gnu::noreturn]] void lockstep_ctx_arrive();
}

namespace lockstep::threads {

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(LOCKSTEP_SANITIZED)
inline constexpr bool kFastSwitch = true;
#else
// Sanitizers must see every switch: teams then use the regular one.
inline constexpr bool kFastSwitch = false;
#endif

// Turns the saved pointer of a thread suspended by the fast switch into one that switch_context()
// takes.
void* regular_form(void* fast_sp);
// Where the regular switch enters a suspended thread, whichever switch suspended it.
inline void* resume_point(const Thread& thread) {
    return thread.fast_form ? regular_form(thread.sp) : thread.sp;
}

#if defined(__x86_64__)
// All registers but the stack pointer and the frame pointer, which the switch keeps; the inputs
// come on top.
#define LOCKSTEP_CTX_CLOBBERS                                                                      \
    "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",     \
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15", "cc", "memory"
// The red zone below the stack pointer may be in use.
#define LOCKSTEP_CTX_JUMP(target)                                     \
    "leaq -128(%%rsp), %%rsp\n\tleaq 1f(%%rip), %%rax\n\tjmp " target \
    "@PLT\n1:\tsubq $-128, "                                          \
    "%%rsp"

// Suspends the calling thread, whose stack pointer goes to *save, and goes on where `to` was saved.
// `point`, for a tracer that watches the switch: the CTX point it stands at, or kCtxPoints.
[[gnu::always_inline]] inline void fast_switch(void** save, void* to, unsigned point) {
    asm volatile(LOCKSTEP_CTX_JUMP("lockstep_ctx_swap")
                 : "+D"(save), "+S"(point), "+d"(to)
                 :
                 : LOCKSTEP_CTX_CLOBBERS);
}
// Suspends the calling thread in the same form and calls `then`, which never returns, on what is
// left of its stack.
[[gnu::always_inline]] inline void fast_leave(void** save, void (*then)(void*), void* argument) {
    asm volatile(LOCKSTEP_CTX_JUMP("lockstep_ctx_leave")
                 : "+D"(save), "+S"(then), "+d"(argument)
                 :
                 : LOCKSTEP_CTX_CLOBBERS);
}
#undef LOCKSTEP_CTX_JUMP
#undef LOCKSTEP_CTX_CLOBBERS
#elif defined(__aarch64__)
inline void fast_switch(void** save, void* to, unsigned point) {
    reinterpret_cast<void (*)(void**, unsigned, void*)>(&lockstep_ctx_swap)(save, point, to);
}
inline void fast_leave(void** save, void (*then)(void*), void* argument) {
    reinterpret_cast<void (*)(void**, void (*)(void*), void*)>(&lockstep_ctx_leave)(save, then,
                                                                                    argument);
}
#else  // kFastSwitch is false: never called
inline void fast_switch(void**, void*, unsigned) {}
inline void fast_leave(void**, void (*)(void*), void*) {}
#endif

}  // namespace lockstep::threads
