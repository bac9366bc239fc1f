// callbacks.h - Python functions that the store calls.
//
// Concepts   User threads have small stacks, on which no interpreter runs. A helper is a kernel
//            thread of the process, with a stack of its own, that runs Python functions for them.
//            A user thread that waits for it blocks its kernel thread. That thread never holds the
//            GIL, and whoever holds the GIL never waits for it, so the wait ends.
//            Key functions have a helper of their own: a logger may use the store, and then waits
//            for a key function.
//            What a key function raises is kept until the call that ran it has failed, and this
//            call raises it. The two meet by a number: the length of the refused key, which the
//            engine's error has, tells which exception it was, whatever threads ran the function.
// Invariants CB-1 A function lives until the store that may call it is closed. [checked: forget()]
//            CB-2 An exception of a key function is raised once by the call that it has refused, or
//            goes to sys.unraisablehook. [checked: take_raised(), drop_raised()]
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/python/src/core.h"

namespace lockstep::python {

enum class HelperOf { key_functions, loggers };
// Runs fn on a helper with the GIL, and waits. Any thread that does not hold the GIL. False: the
// interpreter has ended, and fn has not run.
bool run_on_helper(HelperOf which, const std::function<void()>& fn);
// The same without waiting.
bool post_to_helper(HelperOf which, std::function<void()> fn);

// While it lives, the calling thread runs a function that a call on the store waits for, on another
// thread than that of the call.
class InsideCall {
public:
    explicit InsideCall(Number store) : store_(store), outer_(innermost_) { innermost_ = this; }
    InsideCall(const InsideCall&) = delete;
    ~InsideCall() { innermost_ = outer_; }
    // Whether the calling thread is inside a call on the store.
    static bool of(Number store);

private:
    static inline constinit thread_local const InsideCall* innermost_ = nullptr;
    const Number store_;
    const InsideCall* const outer_;
};

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

// A Python function that a store keeps, and a reference to it.
struct Function {
    PyObject* function;
    std::string name;  // of the secondary index; empty: it is a logger
    Number store = 0;
    size_t uses = 0;  // calls of keep()
};
// A reference for keep() or release(). With the GIL.
std::unique_ptr<Function> referenced(nb::handle function, const std::string& name);
// The reference ends, behind what the helper has still to run. With the GIL.
void release(std::unique_ptr<Function> function);
// Keeps a function until the store is closed; once, if it is kept under that name. With the GIL.
Function* keep(Number store, std::unique_ptr<Function> function);
// Takes a call of keep() back: the store has refused the function, and will not call it. Does
// nothing if the store was closed meanwhile.
void discard(Number store, Function* function);
// The store is closed: its functions end, behind what the helper has still to run.
void forget(Number store);

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
