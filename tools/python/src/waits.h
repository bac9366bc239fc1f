// waits.h - of the Python binding: what a thread does while a call of it waits for the store.
//
// Concepts   Python runs signal handlers on the main thread only, and only while that runs Python.
//            So a wait of the main thread is interrupted again and again, and handlers run. If one
//            raises an exception, as Ctrl-C does, the transaction that the call waits in is
//            cancelled. The call returns then, and raises the exception.
//            A key function of a secondary index must not wait for the store: a worker waits for
//            the key function.
// Invariants WT-1 An exception of a signal handler is raised by the call that it has interrupted.
//            [checked: check(); test: tests/python/test_interrupts.py]
#pragma once

#include "tools/python/src/gil.h"

namespace lockstep::python {

// While it lives, the calling thread runs a key function, and refuses each Wait.
class InKeyFunction {
public:
    InKeyFunction();
    ~InKeyFunction();
    InKeyFunction(const InKeyFunction&) = delete;
};

// A call that may wait: the GIL is free while it lives. Raises wrong_thread in a key function.
class Wait {
public:
    Wait() : Wait(require_allowed()) {}
    Wait(const Wait&) = delete;

    // Raises wrong_thread in a key function.
    struct Allowed {};
    static Allowed require_allowed();

private:
    explicit Wait(Allowed) {}

    const ReleasedGil released_;
};

// For code that others call, with or without the GIL, and that cannot raise: runs the signal
// handlers that are due, about every 50 ms, if the thread has had a Wait. True: one has raised.
bool look_at_signals();
// False in a key function. A thread that may wait has a watch from then on.
bool may_wait();

// Raises what a signal handler has raised in a Wait of this thread. With the GIL.
void raise_interrupt();

}  // namespace lockstep::python
