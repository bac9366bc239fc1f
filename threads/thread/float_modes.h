// float_modes.h - the floating-point modes of a context, for switches that do not keep them.
//
// Concepts   The modes (rounding, exceptions) are mxcsr and the x87 control word on x86-64, fpcr on
//            ARM. The regular switch of Boost.Context keeps them on x86-64 only, the fast switch
//            nowhere.
#pragma once

#include <cstdint>

namespace lockstep::threads {

// Reads the modes at its begin and sets them again at its end.
class FloatModes {
public:
#if defined(__x86_64__)
    FloatModes() { asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr_), "=m"(x87_)); }
    ~FloatModes() { asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr_), "m"(x87_)); }

private:
    uint32_t mxcsr_;
    uint16_t x87_;
#elif defined(__aarch64__)
    FloatModes() { asm volatile("mrs %0, fpcr" : "=r"(fpcr_)); }
    ~FloatModes() { asm volatile("msr fpcr, %0" : : "r"(fpcr_)); }
    // To nearest, no exceptions: for a new context.
    static void set_default() { asm volatile("msr fpcr, xzr"); }

private:
    uint64_t fpcr_;
#endif
};

}  // namespace lockstep::threads
