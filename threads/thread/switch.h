// switch.h - the regular switch between stacks, with the notifications that sanitizers need.
//
// Concepts   A suspended context is one pointer, its saved stack pointer. Boost.Context keeps the
//            callee-saved registers there, on x86-64 mxcsr and the x87 control word too. On ARM,
//            switch_context() keeps the floating-point modes. The leaving side passes the address
//            of the variable that receives its pointer. The arriving side writes the pointer to
//            that address. Besides this file, only fast_switch.cc and the debugger script
//            (tools/gdb) know the layout of a saved context.
//            A program may be built with a sanitizer and the library without. So the library looks
//            at load time whether the sanitizer's functions are there, and then tells it of each
//            switch. Else ASan takes the frames of a user thread for wild memory, and gives up its
//            checks at each exception.
// Invariants SW-1 A new context starts with a stack as after a call, on x86-64 with rsp % 16 == 8.
//            [test: StackAlignment]
//            SW-2 A context that ends passes no save slot to ASan, so ASan frees its fake frames.
//            [checked: switch_last]
// Blocking   never.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include "threads/thread/float_modes.h"
#include "threads/thread/stack.h"

namespace lockstep::threads {

// Offsets of a waiting context's frame pointer and return address from its saved pointer. For the
// debugger script.
#ifdef __aarch64__
inline constexpr unsigned kSavedFramePointer = 0x90, kSavedReturnAddress = 0x98;
#else
inline constexpr unsigned kSavedFramePointer = 0x30, kSavedReturnAddress = 0x38;
#endif
static_assert(kSavedReturnAddress == kSavedFramePointer + sizeof(void*));

using Transfer = boost::context::detail::transfer_t;
using ContextEntry = void (*)(Transfer);

// A context on `stack` that begins in `entry` at the first switch to it. `entry` must call
// arrived() first and never return.
void* make_context(Stack& stack, ContextEntry entry);
// An entry function calls this first.
void arrived(Transfer transfer);

// True if the process has the address or thread sanitizer. Constant once the library is loaded.
extern const bool switches_announced;  // NOLINT(readability-identifier-naming): found at load
[[gnu::cold]] void switch_announced(void** save, void* to, Stack& to_stack);

// Saves the running context's pointer to *save and enters `to`, which runs on `to_stack`. Returns
// when another context switches back.
inline void switch_context(void** save, void* to, Stack& to_stack) {
    if (switches_announced) [[unlikely]]
        return switch_announced(save, to, to_stack);
#ifdef __aarch64__
    const FloatModes modes;
#endif
    const Transfer from = boost::context::detail::jump_fcontext(to, save);
    *static_cast<void**>(from.data) = from.fctx;
}
// The same for a context that will never run again.
[[noreturn]] void switch_last(void* to, Stack& to_stack);

// TSan's handle of the running kernel thread; null without TSan.
void* current_fiber();
// Call before a stack's memory is freed or used anew. Nothing may run on it.
void forget_stack(Stack& stack);

}  // namespace lockstep::threads
