// callbacks.h - Python functions that the store calls.
//
// Concepts   User threads have small stacks, on which no interpreter runs. The helper is a kernel
//            thread of the process, with a stack of its own, that runs Python functions for them.
//            A user thread that waits for it blocks its kernel thread. That thread never holds the
//            GIL, and whoever holds the GIL never waits for it, so the wait ends.
//            What a key function raises is kept until the call that ran it has failed, and this
//            call raises it. The two meet by a number: the length of the refused key, which the
//            engine's error has, tells which exception it was, whatever threads ran the function.
// Invariants CB-1 A function lives until the store that may call it is closed. [checked: forget()]
//            CB-2 An exception of a key function is raised once by the call that it has refused, or
//            goes to sys.unraisablehook. [checked: take_raised(), drop_raised()]
#pragma once

#include <functional>

#include "tools/python/src/core.h"

namespace lockstep::python {

// Runs fn on the helper with the GIL, and waits. Any thread that does not hold the GIL.
void run_on_helper(const std::function<void()>& fn);
// The same without waiting. After the interpreter has ended, fn is dropped.
void post_to_helper(std::function<void()> fn);

// Runs fn with the GIL on the present thread. An exception goes to sys.unraisablehook.
template <class Fn>
bool guarded(nb::handle source, Fn fn) {
    try {
        fn();
        return true;
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    PyErr_WriteUnraisable(source.ptr());
    return false;
}

// A Python function that a store keeps.
struct Function {
    PyObject* function;
    std::string name;  // of the secondary index
    Number store;
};
// Keeps the function until the store is closed. With the GIL.
Function* keep(Number store, nb::handle function, const std::string& name);
// The store is closed: its functions end, behind what the helper has still to run.
void forget(Number store);
// A store is opened whose number is not known yet: keep(0, ...) before, then this.
void name_store(Number store);

// Raises the exception of the key function that has refused a change, if the error is of that kind.
// With the GIL.
void raise_again(const lockstep_error& error);
// The call that uses the function alone has failed: its other exceptions are of no use.
void discard_raised(const Function* function);
// What no call has raised goes to sys.unraisablehook. With the GIL.
void drop_raised(Number store);

// The C callbacks whose argument is a Function.
void log_line(void* function, int level, const char* text, size_t bytes);
void secondary_keys(void* function, lockstep_slice key, lockstep_slice value, lockstep_keys* keys);

}  // namespace lockstep::python
