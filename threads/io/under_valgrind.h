// under_valgrind.h - whether the program runs under valgrind.
//
// Concepts   valgrind watches a pattern of instructions that does nothing on a CPU. The question is
//            written out here, so that neither the build nor a program that links the library needs
//            valgrind's headers.
// Source     Valgrind manual, chapter "The Client Request mechanism".
#pragma once

#include <cstdint>

namespace lockstep::threads {

// True under any tool of valgrind. False everywhere else, and on CPUs other than x86-64.
[[gnu::noinline]] inline bool under_valgrind() {
    uint64_t answer = 0;  // what a CPU leaves there
#if defined(__x86_64__)
    constexpr uint64_t kRunningOnValgrind = 0x1001;
    const volatile uint64_t request[6] = {kRunningOnValgrind, 0, 0, 0, 0, 0};
    asm volatile(
        // The rotations sum up to 128 bits, so rdi stays as it is.
        "rolq $3, %%rdi\n\t"
        "rolq $13, %%rdi\n\t"
        "rolq $61, %%rdi\n\t"
        "rolq $51, %%rdi\n\t"
        "xchgq %%rbx, %%rbx"
        : "+d"(answer)
        : "a"(&request[0])
        : "cc", "memory");
#endif
    return answer != 0;
}

}  // namespace lockstep::threads
