// turns.cc - hands the turn from worker to worker.
#include "tools/coherence/turns.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

extern "C" int __real_clock_gettime(clockid_t, timespec*);

namespace lockstep::coherence {

thread_local Turns::Self Turns::self;

namespace {

// The program under count is so much slower than on its own.
constexpr uint64_t kSlowness = 50;

uint64_t real_nanos() {
    timespec t;
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}
void wait_for(std::atomic<int>& turn) {
    while (turn.load(std::memory_order_acquire) == 0)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    turn.store(0, std::memory_order_relaxed);
}
void grant(std::atomic<int>& turn) {
    turn.store(1, std::memory_order_release);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

void Turns::lock() {
    while (lock_.exchange(1, std::memory_order_acquire) != 0) sched_yield();
}

// The next worker behind `from` that wants the turn; -1: none.
int Turns::next_of(int from) const {
    for (int i = 1; i <= count_; ++i) {
        const int at = (from + i) % count_;
        if (at != from && workers_[at].wants) return at;
    }
    return -1;
}

void Turns::start(const TurnSettings& settings) {
    lock();
    settings_ = settings;
    base_ = real_nanos();
    idle_at_.store(base_);
    started_.store(true, std::memory_order_release);
    unlock();
}

void Turns::attach(int worker) {
    if (worker >= static_cast<int>(Caches::kMax)) return;
    lock();
    count_ = std::max(count_, worker + 1);
    unlock();
    self.worker = worker;
}

void Turns::enter() {
    lock();
    workers_[self.worker].wants = true;
    const bool mine = holder_.load() < 0;
    if (mine) {
        nanos_.store(nanos_.load() + (real_nanos() - idle_at_.load()) / kSlowness);
        holder_.store(self.worker);
    }
    unlock();
    if (!mine) wait_for(workers_[self.worker].turn);
    self.in_round = true;
    self.left = settings_.quantum;
}

void Turns::leave() {
    if (!self.in_round) return;
    self.in_round = false;
    lock();
    workers_[self.worker].wants = false;
    const int next = next_of(self.worker);
    if (next < 0) idle_at_.store(real_nanos());
    holder_.store(next);
    unlock();
    if (next >= 0) grant(workers_[next].turn);
}

void Turns::hand_on() {
    self.left = settings_.quantum;
    lock();
    const auto running = std::count_if(workers_, workers_ + count_,
                                       [](const Worker& worker) { return worker.wants; });
    const double moved = static_cast<double>(settings_.quantum) * settings_.nanos_per_access;
    nanos_.store(nanos_.load() + static_cast<uint64_t>(moved / static_cast<double>(running)));
    const int next = next_of(self.worker);
    if (next >= 0) holder_.store(next);
    unlock();
    if (next < 0) return;
    grant(workers_[next].turn);
    wait_for(workers_[self.worker].turn);
}

uint64_t Turns::now() const {
    if (!started()) return real_nanos();
    const uint64_t now = base_ + nanos_.load(std::memory_order_relaxed);
    if (holder_.load() >= 0) return now;
    const uint64_t real = real_nanos(), since = idle_at_.load();
    return now + (real > since ? real - since : 0) / kSlowness;
}

}  // namespace lockstep::coherence
