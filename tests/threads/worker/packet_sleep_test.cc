// labels: unit tsan
// packet_sleep_test.cc - a worker that falls asleep while packets come for a busy one (WK-4).
#include <thread>

#include "tests/threads/worker/packet_util.h"
#include "threads/worker/worker.h"

namespace lockstep::threads::packet_sleep_test {

// Stops worker 1 in one of its looks at the time, until the test opens the gate.
class GatedClock final : public Clock {
public:
    Nanos now() const override {
        if (worker_local.worker != nullptr && worker_index() == 1 && left_ > 0 && --left_ == 0) {
            closed_ = true;
            while (closed_) std::this_thread::yield();
        }
        return real_.now();
    }
    void close_at(int look) { left_ = look; }
    bool closed() const { return closed_; }
    void open() {
        left_ = 0;
        closed_ = false;
    }

private:
    MonotonicClock real_;
    mutable std::atomic<int> left_{0};
    mutable std::atomic<bool> closed_{false};
};

// Worker 1 is about to sleep in some look. Whichever it is, it takes the packets of worker 0, which
// runs something else for as long as that takes. Up to four may stay, as few packets wake nobody.
TEST(PacketSleep, NoPacketsAreLeftToABusyWorker) {
    constexpr int kLooks = 4, kPackets = 20, kFew = 4;
    int stopped = 0;
    for (int look = 1; look <= kLooks; ++look) {
        GatedClock clock;
        auto runtime = *Runtime::start({.workers = 2, .clock = &clock});
        std::atomic<bool> hold{true}, holds{false};
        std::atomic<int> ran{0};
        Works works;
        Work& waker = works.add([&] { clock.close_at(look); });
        Work& holder = works.add([&] {
            holds = true;
            while (hold) std::this_thread::yield();
        });
        waker.pinned = holder.pinned = true;
        submit_or_fail(*runtime, 1, waker);
        const Nanos patience = MonotonicClock().now() + 50 * kMillisecond;
        while (!clock.closed() && MonotonicClock().now() < patience) std::this_thread::yield();
        stopped += clock.closed();
        submit_or_fail(*runtime, 0, holder);
        while (!holds) std::this_thread::yield();
        for (int n = 0; n < kPackets; ++n) submit_or_fail(*runtime, 0, works.add([&] { ++ran; }));
        clock.open();
        const Nanos deadline = MonotonicClock().now() + 10 * kSecond;
        while (ran < kPackets - kFew && MonotonicClock().now() < deadline)
            std::this_thread::yield();
        EXPECT_GE(ran, kPackets - kFew) << "worker 1 sleeps; it was stopped in look " << look;
        hold = false;
        runtime->stop();
    }
    EXPECT_GE(stopped, 1) << "the test is blind";
}

}  // namespace lockstep::threads::packet_sleep_test
