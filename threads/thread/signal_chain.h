// signal_chain.h - a handler of a signal above the handler that was there before it.
//
// Concepts   A process has one handler for a signal, so there is one SignalChain for a signal, for
//            all runtimes. It is installed while somebody holds it, and passes on what is not meant
//            for it. A handler that the application installs meanwhile is left alone. Ours then
//            stays ready, because that handler may pass signals on to it.
// Blocking   hold() and release() spin; the rest is async-signal-safe and never blocks.
#pragma once

#include <signal.h>

#include <cstdint>

#include "threads/base/spin_lock.h"

namespace lockstep::threads {

class SignalChain {
public:
    using Handler = void (*)(int number, siginfo_t* info, void* context);

    // `flags` as of sigaction(), beside SA_SIGINFO. Ownership: static storage.
    constexpr SignalChain(int number, Handler handler, int flags)
        : number_(number), handler_(handler), flags_(flags | SA_SIGINFO) {}
    SignalChain(const SignalChain&) = delete;
    SignalChain& operator=(const SignalChain&) = delete;

    // The first of the holders installs the handler, the last one brings back the one before it.
    // Any kernel thread.
    void hold();
    void release();

    // Signals reach our handler first.
    bool installed() const;

    // What stood before ours: a function, the default action, or to ignore the signal.
    enum class Before : uint8_t { function, standard, ignore };
    // From our handler: calls the function before it as the kernel would have, if there is one.
    Before pass_on(siginfo_t* info, void* context) const;

    // From our handler: the default action from now on.
    void reset() const;

private:
    bool is_ours(const struct sigaction& action) const;

    const int number_;
    const Handler handler_;
    const int flags_;
    SpinLock lock_;  // protects the rest
    uint32_t holders_ = 0;
    struct sigaction previous_ {};  // constant while our handler may run
    bool is_beneath_ = false;       // the application installed a handler above ours
};

}  // namespace lockstep::threads
