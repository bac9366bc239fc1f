// foreign_wait.cc - sleeps in a futex, in slices if the thread has a watch.
#include "threads/sync/foreign_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <utility>

#include "threads/base/check.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

namespace {

constexpr long kSliceNanos = 50'000'000;

struct OfThread {
    Watch watch = nullptr;
    void* arg = nullptr;
    FunctionRef<void()>* give_up = nullptr;
};
constinit thread_local OfThread own;

// Out of line: a user thread may have moved, but it never sleeps here.
void look() {
    const OfThread before = std::exchange(own, {});  // FW-2
    const bool tired = before.watch(before.arg) != 0;
    if (tired && before.give_up != nullptr) (*before.give_up)();
    // The watch may have taken itself away.
    if (own.watch == nullptr) own = before;
    else own.give_up = before.give_up;
}

}  // namespace

void watch_waits(Watch watch, void* arg) {
    own.watch = watch;
    own.arg = arg;
}

bool waits_are_watched() { return own.watch != nullptr; }

GiveUp::GiveUp(FunctionRef<void()> fn) : fn_(fn), outer_(std::exchange(own.give_up, &fn_)) {}
GiveUp::~GiveUp() { own.give_up = outer_; }

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
    DCHECK(current() == nullptr);
    const timespec slice{.tv_sec = 0, .tv_nsec = kSliceNanos};
    const bool watched = waits_are_watched();
    const long slept = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value,
                               watched ? &slice : nullptr, nullptr, 0);
    if (slept != 0 && watched && word.load(std::memory_order_acquire) == value) look();
}

void wake_sleepers(std::atomic<uint32_t>* word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::threads
