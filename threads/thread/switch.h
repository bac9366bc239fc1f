// switch.h - the regular switch from one stack to another, with what sanitizers must be told.
//
// Concepts   A context that does not run is one pointer, its saved stack pointer; below it lie its
//            callee-saved registers, mxcsr and the x87 control word as Boost.Context leaves them.
//            The leaving side hands over the address of the place where its pointer belongs and the
//            arriving side writes it there. No other file knows the layout of a saved context
//            except the debugger script (tools/gdb), so another form of switch can be added here
//            alone: a switch saves the leaving context in the form in which the entered one was
//            saved, hence one tag bit in the pointer tells forms apart.
// Invariants SW-1 A new context starts with rsp % 16 == 8, as after a call. [test: StackAlignment]
//            SW-2 A context that ends passes no save slot to ASan, so that its fake frames are
//            freed. [checked: switch_last]
// Blocking   never.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include "threads/thread/stack.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCKSTEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LOCKSTEP_SANITIZED 1
#endif
#endif

namespace lockstep::threads {

// Where a waiting context keeps its frame pointer and its return address, relative to its saved
// pointer. For the debugger script.
inline constexpr unsigned kSavedFramePointer = 0x30, kSavedReturnAddress = 0x38;

using Transfer = boost::context::detail::transfer_t;
using ContextEntry = void (*)(Transfer);

// A context on `stack` that begins in `entry` when first switched to. entry must call arrived()
// first and never return.
void* make_context(Stack& stack, ContextEntry entry);
// To be called first by an entry function.
void arrived(Transfer transfer);

// Leaves the running context, whose pointer goes to *save, for `to`, which runs on `to_stack`.
// Returns when switched back to.
#ifdef LOCKSTEP_SANITIZED
void switch_context(void** save, void* to, Stack& to_stack);
#else
inline void switch_context(void** save, void* to, Stack&) {
    const Transfer from = boost::context::detail::jump_fcontext(to, save);
    *static_cast<void**>(from.data) = from.fctx;
}
#endif
// The same for a context that will never run again.
[[noreturn]] void switch_last(void* to, Stack& to_stack);

// TSan's handle of the running kernel thread; null in other builds.
void* current_fiber();
// Before a stack's memory goes away. Nothing may run on it.
void forget_stack(Stack& stack);

}  // namespace lockstep::threads
