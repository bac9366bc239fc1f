// labels: unit tsan
// wait_fd_test.cc - waits for pipes and sockets by io_uring, by the poller, and on foreign kernel
// threads.
#include <lockstep/fd.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/code_of.h"
#include "tests/threads/worker/fd_ways.h"

namespace lockstep::wait_fd_test {

using threads::Runtime;

constexpr Nanos kLong = 60 * kSecond;

// Two connected descriptors, closed at the end.
struct Pair {
    int ends[2];
    explicit Pair(bool sockets = false) {
        EXPECT_EQ(sockets ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends)
                          : pipe2(ends, O_NONBLOCK),
                  0);
    }
    ~Pair() {
        close(ends[0]);
        close(ends[1]);
    }
    void write_byte() const { EXPECT_EQ(write(ends[1], "x", 1), 1); }
    void read_byte() const {
        char byte;
        EXPECT_EQ(read(ends[0], &byte, 1), 1);
    }
};

class WaitFd : public FdWays {};

TEST_P(WaitFd, APipeBecomesReadable) {
    Pair pair;
    std::atomic<int> others{0};
    std::atomic<bool> ready{false};
    spawn(0, [&] {
        EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN, 0)), ErrorCode::timeout);
        EXPECT_EQ(wait_fd(pair.ends[1], POLLOUT, kLong).value_or(0), uint32_t{POLLOUT});
        const auto events = wait_fd(pair.ends[0], POLLIN, kLong);
        EXPECT_EQ(events.value_or(0), uint32_t{POLLIN});
        EXPECT_GE(others, 10);  // they ran meanwhile
        ready = true;
        pair.read_byte();
    });
    spawn(0, [&] {
        for (int i = 0; i < 10; ++i) {
            threads::yield();
            ++others;
        }
        threads::sleep_until(threads::now() + 5 * kMillisecond);
        EXPECT_FALSE(ready);
        pair.write_byte();
    });
    runtime_->stop();
    EXPECT_TRUE(ready);
}

TEST_P(WaitFd, ATimeoutKeepsItsDeadline) {
    Pair pair;
    spawn(0, [&] {
        for (int i = 0; i < 5; ++i) {
            const Nanos start = threads::now();
            EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN, 3 * kMillisecond)), ErrorCode::timeout);
            EXPECT_GE(threads::now() - start, 3 * kMillisecond);
        }
        pair.write_byte();
        EXPECT_EQ(wait_fd(pair.ends[0], POLLIN, kLong).value_or(0), uint32_t{POLLIN});
    });
    runtime_->stop();
}

// The end of one wait leaves the other.
TEST_P(WaitFd, TwoEventsOfOneDescriptor) {
    Pair pair(true);
    std::atomic<bool> readable{false};
    spawn(0, [&] {
        EXPECT_EQ(wait_fd(pair.ends[0], POLLIN, 3 * kSecond).value_or(0), uint32_t{POLLIN});
        readable = true;
    });
    for (uint32_t i = 0; i < 3; ++i) {
        std::atomic<bool> writable{false};
        spawn(i, [&] {
            EXPECT_EQ(wait_fd(pair.ends[0], POLLOUT, kLong).value_or(0), uint32_t{POLLOUT});
            writable = true;
        });
        while (!writable) std::this_thread::yield();
    }
    EXPECT_FALSE(readable);
    pair.write_byte();
    runtime_->stop();
    EXPECT_TRUE(readable);
}

// A number that is given to another file has the waits of that file only.
TEST_P(WaitFd, ANumberIsUsedAgain) {
    spawn(0, [&] {
        for (int i = 0; i < 50; ++i) {
            Pair pair;
            EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN, 10 * kMicrosecond)),
                      ErrorCode::timeout);
            pair.write_byte();
            EXPECT_EQ(wait_fd(pair.ends[0], POLLIN, kLong).value_or(0), uint32_t{POLLIN});
        }
    });
    runtime_->stop();
}

// A busy worker looks at descriptors, too: it never sleeps here.
TEST_P(WaitFd, ABusyWorkerNotices) {
    Pair pair;
    std::atomic<bool> noticed{false};
    spawn(0, [&] {
        EXPECT_TRUE(wait_fd(pair.ends[0], POLLIN, kLong));
        noticed = true;
    });
    spawn(0, [&] {
        for (uint64_t i = 0; !noticed && i < 500'000'000; ++i) {
            if (i == 100) pair.write_byte();
            threads::yield();
        }
        EXPECT_TRUE(noticed);
    });
    runtime_->stop();
}

TEST_P(WaitFd, PingPongOverSockets) {
    constexpr uint32_t kPairs = 20, kRounds = 50;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (uint32_t i = 0; i < kPairs; ++i) pairs.push_back(std::make_unique<Pair>(true));
    std::atomic<uint32_t> rounds{0};
    const auto turn = [](int fd, bool first, std::atomic<uint32_t>* count) {
        char byte = 0;
        if (first) {
            EXPECT_EQ(write(fd, "x", 1), 1);
        }
        for (uint32_t k = 0; k < kRounds; ++k) {
            while (read(fd, &byte, 1) != 1) ASSERT_TRUE(wait_fd(fd, POLLIN, kLong));
            if (!first || k + 1 < kRounds) {
                EXPECT_EQ(write(fd, "x", 1), 1);
            }
            if (count != nullptr) ++*count;
        }
    };
    for (uint32_t i = 0; i < kPairs; ++i) {
        spawn(i, [&, i] { turn(pairs[i]->ends[0], true, &rounds); });
        spawn(i + i / 2, [&, i] { turn(pairs[i]->ends[1], false, nullptr); });
    }
    runtime_->stop();
    EXPECT_EQ(rounds, kPairs * kRounds);
}

// More waits than a ring has entries.
TEST_P(WaitFd, ManyWaitForOneDescriptor) {
    constexpr int kWaiters = 1500;
    Pair pair;
    std::atomic<int> woken{0}, timeouts{0};
    for (uint32_t i = 0; i < kWaiters; ++i)
        spawn(i, [&, i] {
            const auto events = wait_fd(pair.ends[0], POLLIN, i % 3 == 0 ? kMillisecond : kLong);
            ++(events ? woken : timeouts);
        });
    spawn(0, [&] {
        threads::sleep_until(threads::now() + 50 * kMillisecond);
        pair.write_byte();
    });
    runtime_->stop();
    EXPECT_EQ(woken + timeouts, kWaiters);
    EXPECT_GE(woken, kWaiters * 2 / 3);
}

TEST_P(WaitFd, TheOtherEndCloses) {
    Pair pair;
    const int writer = dup(pair.ends[1]);
    close(pair.ends[1]);
    spawn(0, [&] {
        const auto events = wait_fd(pair.ends[0], POLLIN, kLong);
        EXPECT_TRUE(events.value_or(0) & POLLHUP);
    });
    spawn(1, [&] { close(writer); });
    runtime_->stop();
    pair.ends[1] = -1;
}

TEST_P(WaitFd, TheEndOfTheStoreCancels) {
    Pair pair;
    std::atomic<int> waiting{0}, cancelled{0};
    for (uint32_t i = 0; i < 30; ++i)
        spawn(i, [&, i] {
            ++waiting;
            cancelled += code_of(wait_fd(pair.ends[0], POLLIN, i % 2 ? kNever : kLong)) ==
                         ErrorCode::cancelled;
        });
    while (waiting < 30) std::this_thread::yield();
    runtime_->end_fd_waits();
    spawn(0, [&] { EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN)), ErrorCode::cancelled); });
    runtime_->stop();
    EXPECT_EQ(cancelled, 30);
}

TEST_P(WaitFd, DescriptorsThatAreNotOpen) {
    spawn(0, [&] {
        EXPECT_EQ(code_of(wait_fd(-1, POLLIN)), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(wait_fd(1'000'000, POLLIN, kLong)), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(wait_fd(1'000'000, POLLIN, 0)), ErrorCode::bad_argument);
        EXPECT_EQ(code_of(wait_fd(0, 1u << 20)), ErrorCode::bad_argument);
        // A file is always ready.
        const int file = open("/proc/self/exe", O_RDONLY);
        EXPECT_TRUE(wait_fd(file, POLLIN, kLong).value_or(0) & POLLIN);
        close(file);
    });
    runtime_->stop();
}

INSTANTIATE_TEST_SUITE_P(Ways, WaitFd, kFdWays, name_of);

TEST(WaitFdForeign, BlocksTheKernelThread) {
    Pair pair;
    EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN, 0)), ErrorCode::timeout);
    EXPECT_EQ(code_of(wait_fd(pair.ends[0], POLLIN, 2 * kMillisecond)), ErrorCode::timeout);
    EXPECT_EQ(code_of(wait_fd(1'000'000, POLLIN)), ErrorCode::bad_argument);
    std::thread other([&] { pair.write_byte(); });
    EXPECT_EQ(wait_fd(pair.ends[0], POLLIN).value_or(0), uint32_t{POLLIN});
    other.join();
}

TEST(WaitFdForeign, ASimulationRefuses) {
    Pair pair;
    auto runtime = *Runtime::start({.caller_driven = true});
    ErrorCode code{};
    ASSERT_TRUE(
        runtime->spawn(0, "waiter", [&] { code = code_of(wait_fd(pair.ends[0], POLLIN)); }));
    runtime->stop();
    EXPECT_EQ(code, ErrorCode::unsupported);
}

}  // namespace lockstep::wait_fd_test
