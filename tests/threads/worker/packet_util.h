// packet_util.h - packets for tests: a function, and many of them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <utility>

#include "threads/runtime/runtime.h"

namespace lockstep::threads {

class Work final : public Packet {
public:
    explicit Work(std::function<void()> fn = {}) : fn_(std::move(fn)) {}
    void run() override { fn_(); }
    void dropped() override { was_dropped = true; }
    bool was_dropped = false;

private:
    std::function<void()> fn_;
};

// Packets that stay where they are.
struct Works {
    std::deque<Work> all;
    Work& add(std::function<void()> fn) { return all.emplace_back(std::move(fn)); }
};

inline void submit_or_fail(Runtime& runtime, uint32_t worker, Packet& packet) {
    const auto submitted = runtime.submit(worker, packet);
    ASSERT_TRUE(submitted) << submitted.error().text();
}

// Steps a runtime that the test drives until nothing more can happen.
inline void step_all(Runtime& runtime, ManualClock& clock) {
    for (;;) {
        if (runtime.step()) continue;
        const Nanos next = runtime.next_deadline();
        if (next == kNever) return;
        clock.advance(next > clock.now() ? next - clock.now() : 1);
    }
}

}  // namespace lockstep::threads
