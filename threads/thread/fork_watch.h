// fork_watch.h - tells the child of a fork() from the process that it copies.
//
// Concepts   fork() copies the calling kernel thread alone. A store that was open has no workers in
//            the child, so a wait for one would never end, and a lock may be held for ever.
//            watch_forks() installs a handler that runs in each child. It counts the fork. It also
//            makes the calling kernel thread a foreign one, even if a user thread called fork().
//            Code that runs on a worker therefore needs no check: there is no worker in a child.
// Blocking   Never.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::threads {

// From now on each child of a fork() is noticed. Any kernel thread; later calls do nothing.
void watch_forks();

// Remembers the process that made it. Make it after watch_forks().
class ForkMark {
public:
    // True in a child that fork() made later. One load of a word that hardly ever changes.
    bool forked() const { return made_ != forks_.load(std::memory_order_relaxed); }

private:
    friend void watch_forks();
    // The child of a process with threads may only call what is safe in a signal handler.
    static_assert(std::atomic<uint32_t>::is_always_lock_free);
    // How many forks lie between the process that watched first and this one.
    static constinit std::atomic<uint32_t> forks_;

    uint32_t made_ = forks_.load(std::memory_order_relaxed);
};

}  // namespace lockstep::threads
