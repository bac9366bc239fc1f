// size_signal.h - keeps SIGXFSZ away: a write beyond RLIMIT_FSIZE is then the error EFBIG alone.
//
// Concepts   The system sends the signal to the kernel thread that writes, and its default action
//            ends the process. The store's own threads block it for good. Calls on a thread of the
//            application block it for the time of one write, and take what the write has raised.
// Source     setrlimit(2), signal(7).
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "threads/base/check.h"

namespace lockstep::threads {

inline sigset_t size_signal() {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    return only;
}

// For a kernel thread of the store.
inline void block_size_signal() {
    const sigset_t only = size_signal();
    pthread_sigmask(SIG_BLOCK, &only, nullptr);
}

// Blocks the signal on the calling kernel thread as long as it lives.
class SizeSignalBlocked {
public:
    SizeSignalBlocked() {
        sigset_t pending;
        DCHECK(sigismember(&only_, SIGXFSZ) == 1);
        pthread_sigmask(SIG_BLOCK, &only_, &before_);
        theirs_ = sigismember(&before_, SIGXFSZ) == 1 ||
                  (sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1);
    }
    ~SizeSignalBlocked() {
        constexpr timespec kNow{};
        if (!theirs_) (void)sigtimedwait(&only_, nullptr, &kNow);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    SizeSignalBlocked(const SizeSignalBlocked&) = delete;
    SizeSignalBlocked& operator=(const SizeSignalBlocked&) = delete;

private:
    const sigset_t only_ = size_signal();
    sigset_t before_;
    bool theirs_ = false;  // it was blocked or pending before
};

}  // namespace lockstep::threads
