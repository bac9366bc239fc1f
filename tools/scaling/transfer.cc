// transfer.cc - measures how long a cache line takes from one CPU to another, in nanoseconds.
//
// Concepts   A line goes to and fro between two pinned threads. Many short trials: their lower
//            decile is little disturbed by other programs.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int kTrials = 3000, kRounds = 200;
// A thread that waits longer lets others have its CPU: the other one may need it.
constexpr int kSpinsMax = 20000;

alignas(128) std::atomic<uint64_t> ball{0};
alignas(128) std::atomic<bool> over{false};

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Odd numbers are for the other thread, which returns the next even one.
void return_balls(int cpu) {
    pin(cpu);
    while (!over.load(std::memory_order_relaxed)) {
        const uint64_t seen = ball.load(std::memory_order_acquire);
        if (seen % 2 == 1) ball.store(seen + 1, std::memory_order_release);
    }
}

void send_and_wait() {
    const uint64_t sent = ball.load(std::memory_order_relaxed) + 1;
    ball.store(sent, std::memory_order_release);
    for (int spins = 0; ball.load(std::memory_order_acquire) == sent; ++spins)
        if (spins > kSpinsMax) sched_yield();
}

// Nanoseconds of each trial, one way, in ascending order.
std::vector<double> measure() {
    using Clock = std::chrono::steady_clock;
    std::vector<double> nanos;
    for (int trial = 0; trial < kTrials; ++trial) {
        const auto began = Clock::now();
        for (int round = 0; round < kRounds; ++round) send_and_wait();
        const std::chrono::duration<double, std::nano> took = Clock::now() - began;
        nanos.push_back(took.count() / (2.0 * kRounds));
    }
    std::sort(nanos.begin(), nanos.end());
    return nanos;
}

}  // namespace

int main() {
    const std::vector<int> cpus = allowed_cpus();
    if (cpus.size() < 2) {
        std::fprintf(stderr, "lockstep-transfer: needs two CPUs\n");
        return 1;
    }
    std::thread other(return_balls, cpus[1]);
    pin(cpus[0]);
    const std::vector<double> nanos = measure();
    over.store(true);
    other.join();
    std::printf("{\"cpus\": %zu, \"least_ns\": %.1f, \"decile_ns\": %.1f, \"median_ns\": %.1f}\n",
                cpus.size(), nanos.front(), nanos[nanos.size() / 10], nanos[nanos.size() / 2]);
    return 0;
}
