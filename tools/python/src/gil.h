// gil.h - of the Python binding: gives the GIL away and takes it, also as the interpreter ends.
//
// Concepts   Daemon threads may be in a call when the interpreter ends. Up to Python 3.13 it ends
//            such a thread by pthread_exit() as it asks for the GIL. That unwinds the stack, which
//            no destructor may do: the process would end by std::terminate(). Here the thread stops
//            for good instead, as it does since Python 3.14, and the process ends without it.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

namespace lockstep::python {

// Calls what may take the GIL, as all code of Python does. Does not return if the interpreter ends
// the thread.
template <class Call>
auto unless_ended(Call call) {
    try {
        return call();
    } catch (const abi::__forced_unwind&) {
        for (;;) pause();
    }
}

// Whether the calling thread holds the GIL.
inline bool has_gil() {
#ifdef Py_LIMITED_API
    // Each interpreter has the function, and the stable interface does not declare it.
    static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
    return check() != 0;
#else
    return PyGILState_Check() != 0;
#endif
}

// The calling thread, which holds the GIL, gives it away while the object lives.
class ReleasedGil {
public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil&) = delete;
    ~ReleasedGil() {
        unless_ended([this] { PyEval_RestoreThread(state_); });
    }

private:
    PyThreadState* const state_;
};

// Any thread holds the GIL while the object lives.
class HeldGil {
public:
    HeldGil() : state_(unless_ended([] { return PyGILState_Ensure(); })) {}
    HeldGil(const HeldGil&) = delete;
    ~HeldGil() { PyGILState_Release(state_); }

private:
    const PyGILState_STATE state_;
};

}  // namespace lockstep::python
