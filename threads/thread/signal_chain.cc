// signal_chain.cc - installs a handler above another, and passes signals on to that one.
#include "threads/thread/signal_chain.h"

#include <pthread.h>

#include "threads/base/check.h"

namespace lockstep::threads {
namespace {

bool is_standard(const struct sigaction& action) {
    return !(action.sa_flags & SA_SIGINFO) &&
           (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

}  // namespace

bool SignalChain::is_ours(const struct sigaction& action) const {
    return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == handler_;
}

bool SignalChain::installed() const {
    struct sigaction now {};
    return sigaction(number_, nullptr, &now) == 0 && is_ours(now);
}

void SignalChain::hold() {
    SpinGuard guard(lock_);
    if (holders_++ > 0) return;
    struct sigaction now {};
    CHECK(sigaction(number_, nullptr, &now) == 0);
    // An unknown handler may pass on to ours. Above it, ours would be its own predecessor.
    if (is_ours(now) || (is_beneath_ && !is_standard(now))) return;
    is_beneath_ = false;
    previous_ = now;  // before ours can run
    struct sigaction ours {};
    ours.sa_sigaction = handler_;
    ours.sa_flags = flags_;
    sigemptyset(&ours.sa_mask);
    CHECK(sigaction(number_, &ours, nullptr) == 0);
}

void SignalChain::release() {
    SpinGuard guard(lock_);
    DCHECK(holders_ > 0);
    if (--holders_ > 0) return;
    DCHECK(!is_ours(previous_));  // SO-1, SS-1
    is_beneath_ = !installed();
    if (!is_beneath_) CHECK(sigaction(number_, &previous_, nullptr) == 0);
}

void SignalChain::reset() const {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(number_, &standard, nullptr);
}

SignalChain::Before SignalChain::pass_on(siginfo_t* info, void* context) const {
    if (is_standard(previous_))
        return previous_.sa_handler == SIG_IGN ? Before::ignore : Before::standard;
    if (previous_.sa_flags & SA_RESETHAND) reset();
    sigset_t mask = previous_.sa_mask, outer;
    sigaddset(&mask, number_);
    pthread_sigmask(SIG_BLOCK, &mask, &outer);
    if (previous_.sa_flags & SA_NODEFER) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, number_);
        pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    }
    if (previous_.sa_flags & SA_SIGINFO) previous_.sa_sigaction(number_, info, context);
    else previous_.sa_handler(number_);
    pthread_sigmask(SIG_SETMASK, &outer, nullptr);
    return Before::function;
}

}  // namespace lockstep::threads
