// waits.cc - of the Python binding: signal handlers during waits.
#include "tools/python/src/waits.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

constexpr auto kPause = std::chrono::milliseconds(50);
thread_local constinit bool in_key_function = false;

// Counts forks: in the child the thread that has forked is the main thread.
std::atomic<uint32_t>& forks() {
    static std::atomic<uint32_t> count = [] {
        pthread_atfork(nullptr, nullptr, [] { forks().fetch_add(1); });
        return 1;
    }();
    return count;
}

thread_local std::exception_ptr interrupt;
thread_local constinit uint32_t watched_since = 0;  // of forks()

bool is_main_thread() {
    const nb::module_ threading = nb::module_::import_("threading");
    const nb::object main = threading.attr("main_thread")().attr("ident");
    return nb::cast<uint64_t>(main) == PyThread_get_thread_ident();
}

// The watch of a thread (lockstep_watch_waits()): runs the signal handlers that are due.
int look(void*) {
    const HeldGil gil;
    try {
        if (unless_ended([] { return PyErr_CheckSignals(); }) != 0) throw nb::python_error();
        if (!is_main_thread()) lockstep_watch_waits(nullptr, nullptr);
    } catch (...) {
        // A second Ctrl-C says what the first one has said.
        if (!interrupt) interrupt = std::current_exception();
    }
    return interrupt ? 1 : 0;
}

}  // namespace

InKeyFunction::InKeyFunction() { in_key_function = true; }
InKeyFunction::~InKeyFunction() { in_key_function = false; }

bool may_wait() {
    if (in_key_function) [[unlikely]]
        return false;
    if (const uint32_t now = forks().load(std::memory_order_relaxed); watched_since != now)
        [[unlikely]] {
        watched_since = now;
        lockstep_watch_waits(look, nullptr);
    }
    return true;
}

Wait::Allowed Wait::require_allowed() {
    if (!may_wait()) [[unlikely]]
        refuse(LOCKSTEP_WRONG_THREAD,
               "wrong_thread: the store is called in the key function of a secondary index, for "
               "which a change of a record waits; compute the keys from key and value alone");
    return {};
}

bool look_at_signals() {
    using Clock = std::chrono::steady_clock;
    static thread_local Clock::time_point looked;
    if (watched_since == 0) return false;
    if (const Clock::time_point now = Clock::now(); now - looked >= kPause) {
        looked = now;
        look(nullptr);
    }
    return interrupt != nullptr;
}

void raise_interrupt() {
    if (interrupt) [[unlikely]]
        std::rethrow_exception(std::exchange(interrupt, nullptr));
}

}  // namespace lockstep::python
