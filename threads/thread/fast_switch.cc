// fast_switch.cc - lets the regular switch enter a thread that the fast switch has suspended.
#include "threads/thread/fast_switch.h"

#include <cstdint>
#include <cstring>

namespace lockstep::threads {

#if defined(__x86_64__)
// Boost.Context's frame on x86-64 System V, as jump_fcontext pops it: mxcsr and x87 control word,
// r12-r15, rbx, rbp, return address. Ours returns to lockstep_ctx_arrive, which finds the fast
// switch's saved values directly above. The register values in this frame are unused.
void* regular_form(void* fast_sp) {
    struct Frame {
        uint32_t mxcsr;
        uint16_t x87, unused;
        uint64_t registers[6];
        void (*resume)();
    };
    static_assert(sizeof(Frame) == 0x40);
    Frame frame{};
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(frame.mxcsr), "=m"(frame.x87));
    frame.resume = &lockstep_ctx_arrive;
    void* sp = static_cast<char*>(fast_sp) - sizeof(Frame);
    std::memcpy(sp, &frame, sizeof(frame));
    return sp;
}
#elif defined(__aarch64__)
// Boost.Context's frame under AAPCS64: d8-d15, x19-x30, and the resume address. The register values
// in this frame are unused.
void* regular_form(void* fast_sp) {
    struct Frame {
        uint64_t registers[20];
        void (*resume)();
        uint64_t unused;
    };
    static_assert(sizeof(Frame) == 0xb0);
    Frame frame{};
    frame.resume = &lockstep_ctx_arrive;
    void* sp = static_cast<char*>(fast_sp) - sizeof(Frame);
    std::memcpy(sp, &frame, sizeof(frame));
    return sp;
}
#else
void* regular_form(void* sp) { return sp; }
#endif

}  // namespace lockstep::threads
