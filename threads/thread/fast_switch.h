// fast_switch.h - the switch inside a team: from one thread directly to another, without the
// scheduler.
//
// Concepts   Thread::fast_form tells which switch suspended a thread. regular_form() lets the
//            regular switch enter a thread that the fast switch suspended. Threads wait in teams in
//            fast form only, so the fast switch never meets the regular form. On x86-64 the switch
//            is entered and left by a jump. A CPU predicts a return from the last call it saw,
//            which another thread made elsewhere. It predicts a jump from where that jump went
//            before. The compiler saves the live registers at the point of the switch. The switch
//            itself saves the frame pointer and the resume address.
// Layout     On x86-64 a suspended thread's stack holds, from its saved sp upwards: resume address,
//            frame pointer. fast_switch_aarch64.S describes ARM.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3.
#pragma once

#include "threads/base/sanitized.h"
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

// Converts the saved pointer of a thread in fast form into one that switch_context() accepts.
void* regular_form(void* fast_sp);
// The pointer at which the regular switch enters a thread that either switch suspended.
inline void* resume_point(const Thread& thread) {
    DCHECK(thread.sp != nullptr);
    DCHECK(kFastSwitch || !thread.fast_form);
    return thread.fast_form ? regular_form(thread.sp) : thread.sp;
}

#if defined(__x86_64__)
// All registers except the stack pointer and frame pointer, which the switch saves, and the inputs.
#define LOCKSTEP_CTX_CLOBBERS                                                                      \
    "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",     \
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15", "cc", "memory"
// The red zone below the stack pointer may be in use.
#define LOCKSTEP_CTX_JUMP(target)                                     \
    "leaq -128(%%rsp), %%rsp\n\tleaq 1f(%%rip), %%rax\n\tjmp " target \
    "@PLT\n1:\tsubq $-128, "                                          \
    "%%rsp"

// Suspends the calling thread, saves its stack pointer to *save, and resumes the thread saved as
// `to`. `point` is for tracers: the CTX point, or kCtxPoints.
[[gnu::always_inline]] inline void fast_switch(void** save, void* to, unsigned point) {
    asm volatile(LOCKSTEP_CTX_JUMP("lockstep_ctx_swap")
                 : "+D"(save), "+S"(point), "+d"(to)
                 :
                 : LOCKSTEP_CTX_CLOBBERS);
}
// Suspends the calling thread in the same form, and calls `then` on the rest of its stack. `then`
// never returns.
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
