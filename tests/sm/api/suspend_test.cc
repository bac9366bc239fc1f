// labels: unit
// suspend_test.cc - waits of the public headers inside an open store: close() ends waits for
// descriptors, slow functions are reported, offloaded ones are not.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include <lockstep/fd.h>
#include <lockstep/offload.h>
#include <lockstep/sync.h>
#include "tests/sm/store_crash_util.h"

namespace lockstep {

// A callback as an application writes it by mistake.
[[gnu::noinline]] static void slow_callback(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    asm volatile("" ::: "memory");  // not a tail call
}

namespace suspend_test {

class Suspend : public StoreCrash {
protected:
    // Options whose logger keeps the warnings about slices.
    Options logged(uint32_t workers = 1) {
        Options options = small_options(workers);
        options.logger = [this](int level, std::string_view text) {
            const std::lock_guard guard(mutex_);
            if (level == 1) warnings_ += std::string(text) + "\n";
        };
        return options;
    }
    std::string warnings() {
        const std::lock_guard guard(mutex_);
        return warnings_;
    }

private:
    std::mutex mutex_;
    std::string warnings_;
};

TEST_F(Suspend, CloseEndsWaitsForDescriptors) {
    for (const IoMethod io : {IoMethod::automatic, IoMethod::pool}) {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        Options options = small_options(2);
        options.io = io;
        Store store = open("db", options);
        Semaphore waiting(0);
        std::vector<Handle<uint32_t>> handles;
        for (int i = 0; i < 10; ++i)
            handles.push_back(store.start([&]() -> Result<uint32_t> {
                waiting.release();
                return wait_fd(ends[0], POLLIN);
            }));
        ASSERT_OK(waiting.acquire(10));
        ASSERT_OK(store.close());
        for (auto& handle : handles) {
            const auto ended = handle.join();
            ASSERT_FALSE(ended);
            EXPECT_EQ(ended.error().code, ErrorCode::cancelled);
        }
        ::close(ends[0]);
        ::close(ends[1]);
    }
}

TEST_F(Suspend, ASlowCallbackIsReported) {
    Options options = logged();
    options.slice_warning = 50 * kMillisecond;
    Store store = open("db", options);
    ASSERT_OK(store.run([](Txn&) -> Result<void> {
        slow_callback(300);
        return {};
    }));
    ASSERT_OK(store.close());
    EXPECT_NE(warnings().find("slow_callback"), std::string::npos) << warnings();
    EXPECT_NE(warnings().find("worker 0: user thread"), std::string::npos) << warnings();
    EXPECT_NE(warnings().find("\"run\""), std::string::npos) << warnings();
}

TEST_F(Suspend, AnOffloadedCallbackIsNot) {
    Options options = logged();
    options.slice_warning = 60 * kMillisecond;
    Store store = open("db", options);
    std::atomic<bool> over{false};
    std::atomic<int> committed{0};
    auto others = store.start([&]() -> Result<void> {
        for (; !over; ++committed) {
            TRY(store.run([](Txn&) -> Result<void> { return {}; }));
            sleep_for(kMillisecond);
        }
        return {};
    });
    ASSERT_OK(store.run([&](Txn&) -> Result<void> { return offload([] { slow_callback(300); }); }));
    over = true;
    ASSERT_OK(others.join());
    ASSERT_OK(store.close());
    EXPECT_GE(committed, 10);
    EXPECT_EQ(warnings(), "");
}

// Transactions that never wait: begin gives the CPU up, also with STEPS and no other thread.
TEST_F(Suspend, TransactionsThatNeverWaitAreNotReported) {
    for (const StepsMode mode : {StepsMode::off, StepsMode::on}) {
        Options options = logged();
        options.slice_warning = 100 * kMillisecond;
        options.steps.mode = mode;
        Store store = open("db", options);
        ASSERT_OK(store.run([](Txn&) -> Result<void> { return {}; }));
        auto done = store.start([&]() -> Result<void> {
            const Nanos end = now() + 500 * kMillisecond;
            while (now() < end)
                TRY(store.run([](Txn&) -> Result<void> { return {}; },
                              {.durability = Durability::lazy}));
            return {};
        });
        ASSERT_OK(done.join());
        ASSERT_OK(store.close());
        EXPECT_EQ(warnings(), "");
    }
}

TEST_F(Suspend, OffMeansNoHandler) {
    struct sigaction before {
    }, during{};
    sigaction(SIGURG, nullptr, &before);
    Options options = logged();
    options.slice_warning = std::nullopt;
    Store store = open("db", options);
    sigaction(SIGURG, nullptr, &during);
    EXPECT_EQ(before.sa_handler, during.sa_handler);
    ASSERT_OK(store.run([](Txn&) -> Result<void> {
        slow_callback(150);
        return {};
    }));
    ASSERT_OK(store.close());
    EXPECT_EQ(warnings(), "");
}

// main() and the threads of two stores share one channel.
TEST_F(Suspend, AChannelJoinsStoresAndForeignThreads) {
    Store first = open("one", small_options(2)), second = open("two", small_options());
    Channel<int> jobs(4), results(4);
    std::vector<Handle<void>> workers;
    for (int i = 0; i < 12; ++i)
        workers.push_back((i % 3 == 0 ? second : first).start([&]() -> Result<void> {
            for (;;) {
                const std::optional<int> job = TRY(jobs.receive());
                if (!job) return {};
                TRY(results.send(*job * 2));
            }
        }));
    std::thread producer([&] {
        for (int i = 1; i <= 200; ++i) EXPECT_TRUE(jobs.send(i));
        jobs.close();
    });
    int sum = 0;
    for (int i = 1; i <= 200; ++i) sum += results.receive()->value_or(0);
    producer.join();
    for (auto& worker : workers) ASSERT_OK(worker.join());
    EXPECT_EQ(sum, 200 * 201);
    ASSERT_OK(first.close());
    ASSERT_OK(second.close());
}

TEST_F(Suspend, RangesOfTheOptions) {
    Options options;
    EXPECT_EQ(options.slice_warning, 100 * kMillisecond);
    EXPECT_EQ(options.offload_threads, 4u);
    options.slice_warning = kMillisecond - 1;
    EXPECT_FALSE(check_options(options));
    options.slice_warning = std::nullopt;
    EXPECT_TRUE(check_options(options));
    options.offload_threads = 0;
    EXPECT_FALSE(check_options(options));
}

}  // namespace suspend_test
}  // namespace lockstep
