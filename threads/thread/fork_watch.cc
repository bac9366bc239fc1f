// fork_watch.cc - the handler that runs in the child of a fork().
#include "threads/thread/fork_watch.h"

#include <pthread.h>

#include "threads/base/check.h"
#include "threads/thread/worker_local.h"

namespace lockstep::threads {

constinit std::atomic<uint32_t> ForkMark::forks_{0};

void watch_forks() {
    static const int installed = pthread_atfork(nullptr, nullptr, [] {
        ForkMark::forks_.fetch_add(1, std::memory_order_relaxed);
        worker_local = WorkerLocal{};
        DCHECK(current() == nullptr && ForkMark{}.forked() == false);
    });
    CHECK(installed == 0);  // it fails only without memory for a few words
}

}  // namespace lockstep::threads
