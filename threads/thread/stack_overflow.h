// stack_overflow.h - says which user thread overflowed its stack, before the process dies of it.
//
// Concepts   An overflow touches the guard below the stack and raises SIGSEGV. A handler needs
//            a stack, so every worker's kernel thread has a second one for signals. If the fault
//            lies in the guard of the running user thread, the handler names the thread and
//            the option to raise. It then passes the signal on, as it does with every other
//            SIGSEGV, to the handler that was installed before. Without one, the default action
//            kills the process and dumps core.
// Invariants SO-1 The handler of the process is ours while a runtime exists, and afterwards the
//            one before it. A handler that the application installs meanwhile is left alone. Ours
//            then stays ready, because that handler may pass signals on to it.
//            [test: StackOverflow]
// Limits     A frame larger than StackPool::kGuardBytes may step over the guard, unless its
//            function was compiled with -fstack-clash-protection. The installed CMake package and
//            pkg-config file give applications that option. In caller-driven mode the user threads
//            run on the caller's kernel thread, which has no signal stack: the process dies without
//            a word.
// Blocking   never. The handler is async-signal-safe.
#pragma once

#include <cstddef>

namespace lockstep::threads {

// Keeps the handler installed; the process has one in all. Any kernel thread.
class OverflowReports {
public:
    OverflowReports();
    ~OverflowReports();
    OverflowReports(const OverflowReports&) = delete;
    OverflowReports& operator=(const OverflowReports&) = delete;
};

// Gives the calling kernel thread a stack for signal handlers, unless it has one (a sanitizer gives
// one). To be destroyed on the same kernel thread. If memory is out, overflows are not reported.
class SignalStack {
public:
    SignalStack();
    ~SignalStack();
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

private:
    std::byte* memory_ = nullptr;  // null: the thread had a stack already, or memory is out
    size_t bytes_ = 0;
};

}  // namespace lockstep::threads
