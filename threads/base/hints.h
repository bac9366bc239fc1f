// hints.h - hints to the CPU: cache lines that the code will need, and busy waiting.
//
// Concepts   To the compiler a prefetch is an instruction without effect, and so is a function made
//            of prefetches alone. g++ 12 silently dropped the calls in a whole loop of them. The
//            empty asm statement is an effect. No other file names the builtins
//            (tools/check_layers.py).
#pragma once

#include "threads/base/coherence.h"
#include "threads/base/sim_point.h"

namespace lockstep {

[[gnu::always_inline]] inline void prefetch_line(const void* at) {
    __builtin_prefetch(at);
    coherence::prefetched(at, false);
    asm volatile("");
}
[[gnu::always_inline]] inline void prefetch_line_to_write(const void* at) {
    __builtin_prefetch(at, 1);
    coherence::prefetched(at, true);
    asm volatile("");
}

// Call in the body of a loop that waits for another kernel thread.
[[gnu::always_inline]] inline void cpu_relax() {
    SIM_WAIT();
    coherence::paused();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    // "yield" is a no-op on most ARM cores; isb takes about as long as x86's pause.
    asm volatile("isb");
#endif
}

}  // namespace lockstep
