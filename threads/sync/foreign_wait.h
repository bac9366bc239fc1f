// foreign_wait.h - waits of kernel threads that belong to the application, and what they call
// meanwhile.
//
// Concepts   A kernel thread that waits for a user thread sleeps in a futex. Some applications must
//            look at other things meanwhile: an interpreter at its signals. Such a thread has a
//            watch, which each sleep calls from time to time, and at once behind a signal handler.
//            The watch may ask to give up. Who sleeps says by GiveUp how: it ends the transaction
//            that the call is in, say. The sleep goes on until that has been done.
// Invariants FW-1 A word that somebody sleeps on has the sleeper's value. Who writes another value
//                 sees that in the value before, and wakes. [kept by: Completion, c::HandOver]
//            FW-2 A watch never runs within itself: what it waits for, it waits for without.
//                 [kept by: sleep_while()]
// Blocking   sleep_while() blocks the kernel thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <lockstep/clock.h>
#include <lockstep/function_ref.h>

namespace lockstep::threads {

// Of the calling kernel thread: called about every 50 ms while it sleeps. A result other than 0
// asks to give up. Null: no watch.
using Watch = int (*)(void* arg);
void watch_waits(Watch watch, void* arg);
bool waits_are_watched();

// While it lives, a watch of the calling kernel thread that asks to give up calls `fn`.
class GiveUp {
public:
    explicit GiveUp(FunctionRef<void()> fn);
    ~GiveUp();
    GiveUp(const GiveUp&) = delete;
    GiveUp& operator=(const GiveUp&) = delete;

private:
    FunctionRef<void()> fn_;
    FunctionRef<void()>* outer_;
};

// Between two waits that end by themselves: looks at the watch of the calling kernel thread, if it
// has one, as a sleep does each kWatchPause.
void look_between_waits();
inline constexpr Nanos kWatchPause = 50 * kMillisecond;

// Sleeps while the word has this value. May return early.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value);
// Wakes all who sleep on a word. Uses its address only.
void wake_sleepers(std::atomic<uint32_t>* word);

}  // namespace lockstep::threads
