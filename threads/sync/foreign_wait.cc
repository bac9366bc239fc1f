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

struct OfThread {
    Watch watch = nullptr;
    void* arg = nullptr;
    FunctionRef<void()>* give_up = nullptr;
    bool looks = false;
};
constinit thread_local OfThread own;

void look() {
    DCHECK(own.watch != nullptr && !own.looks);  // FW-2
    own.looks = true;
    const bool tired = own.watch(own.arg) != 0;
    if (tired && own.give_up != nullptr) (*own.give_up)();
    own.looks = false;
}

}  // namespace

void watch_waits(Watch watch, void* arg) {
    own.watch = watch;
    own.arg = arg;
}

bool waits_are_watched() { return own.watch != nullptr && !own.looks; }

GiveUp::GiveUp(FunctionRef<void()> fn) : fn_(fn), outer_(std::exchange(own.give_up, &fn_)) {}
GiveUp::~GiveUp() {
    DCHECK(own.give_up == &fn_);
    own.give_up = outer_;
}

void look_between_waits() {
    if (waits_are_watched()) look();
}

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
    DCHECK(current() == nullptr);
    DCHECK((reinterpret_cast<uintptr_t>(&word) & 3) == 0);
    const timespec slice{.tv_sec = 0, .tv_nsec = static_cast<long>(kWatchPause)};
    const bool watched = waits_are_watched();
    const long slept = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value,
                               watched ? &slice : nullptr, nullptr, 0);
    if (slept != 0 && watched && word.load(std::memory_order_acquire) == value) look();
}

void wake_sleepers(std::atomic<uint32_t>* word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::threads
