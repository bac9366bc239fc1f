// labels: unit memory
// idle_cpu_test.cc - a store that has nothing to do uses no CPU, whatever it has done before.
#include <gtest/gtest.h>

#include <time.h>

#include <atomic>
#include <deque>
#include <functional>
#include <optional>

#include "tests/sm/store_crash_util.h"

namespace lockstep::idle_cpu_test {

class Call final : public Packet {
public:
    explicit Call(std::function<void()> fn) : fn_(std::move(fn)) {}
    void run() override { fn_(); }

private:
    std::function<void()> fn_;
};

Nanos cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * kSecond + t.tv_nsec;
}

class IdleCpu : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        Options options = small_options(2);
        options.executors = 2;
        store_.emplace(open("db", options));
        make(*store_, "i", "h");
    }
    void TearDown() override {
        expect_rest();
        ASSERT_OK(store_->close());
        StoreCrash::TearDown();
    }
    // Services end their work within seconds. Then 200 ms take less than 2% of one processor.
    void expect_rest() {
        constexpr Nanos kWindow = 200 * kMillisecond, kMost = kWindow / 50;
        Nanos used = 0;
        for (int n = 0; n < 40; ++n) {
            const Nanos before = cpu_time();
            sleep_for(kWindow);
            used = cpu_time() - before;
            if (used < kMost) break;
        }
        EXPECT_LT(used, kMost) << "of a window of " << kWindow;
        const StoreStats stats = store_->stats();
        EXPECT_EQ(stats.admission_stage.queued + stats.admission_stage.in_service, 0u);
        EXPECT_TRUE(stats.admission_stage.conserved());
        EXPECT_EQ(stats.lock_stage.queued, 0u);
        EXPECT_EQ(stats.packets_timed, 0u);
        EXPECT_EQ(stats.transactions_live + stats.transactions_waiting, 0u);
        EXPECT_EQ(stats.snapshots_open, 0u);
    }
    Store& store() { return *store_; }
    Result<void> put(Slice key) {
        return store().run(
            [&](Txn& txn) -> Result<void> { return TRY(store().index("i")).put(txn, key, "v"); });
    }

    std::deque<Call> packets;  // outlive the store's close
    std::optional<Store> store_;
    std::atomic<int> ran{0};
    std::atomic<bool> go{false};
};

TEST_F(IdleCpu, BehindPinnedAndStolenPackets) {
    for (int n = 0; n < 400; ++n) {
        packets.emplace_back([this, n] {
            ASSERT_OK(put("k" + std::to_string(n % 7)));
            ++ran;
        });
        ASSERT_OK(store().submit(packets.back(), {.worker = n % 4 - 1, .pinned = n % 4 == 1}));
    }
    await([&] { return ran == 400; });
}

TEST_F(IdleCpu, BehindTimedPacketsThatRunOrAreWithdrawn) {
    int withdrawn = 0;
    for (int n = 0; n < 60; ++n) {
        packets.emplace_back([this] { ++ran; });
        const Nanos at = now() + (n % 2 == 0 ? 3600 * kSecond : n * kMillisecond);
        ASSERT_OK(store().submit(packets.back(), {.worker = n % 3 - 1, .not_before = at}));
    }
    for (int n = 0; n < 60; n += 2) withdrawn += store().withdraw(packets[static_cast<size_t>(n)]);
    EXPECT_EQ(withdrawn, 30);
    await([&] { return ran == 30; });
}

// More than may begin, behind busy threads that wait for a lock, and cancelled while they wait.
TEST_F(IdleCpu, BehindCancelledFunctions) {
    std::vector<Handle<void>> handles;
    auto holder = store().spawn([&](Txn& txn) -> Result<void> {
        TRY(TRY(store().index("i")).put(txn, "k", "held"));
        ++ran;
        while (!go.load()) sleep_for(kMillisecond);
        return {};
    });
    await([&] { return ran == 1; });
    for (int n = 0; n < 30; ++n)
        handles.push_back(store().spawn(
            [&](Txn& txn) -> Result<void> { return TRY(store().index("i")).put(txn, "k", "v"); }));
    sleep_for(5 * kMillisecond);
    for (auto& handle : handles) ASSERT_OK(handle.cancel());
    for (auto& handle : handles) (void)handle.join();
    go = true;
    ASSERT_OK(holder.join());
}

TEST_F(IdleCpu, BehindSnapshotsErasuresAndAPreparedTransaction) {
    on_thread(store(), [&] {
        for (int n = 0; n < 50; ++n) ASSERT_OK(put("e" + std::to_string(n)));
        Txn snapshot = *store().begin({.isolation = Isolation::snapshot});
        ASSERT_OK(store().run([&](Txn& txn) -> Result<void> {
            for (int n = 0; n < 50; ++n)
                TRY(TRY(store().index("i")).erase(txn, "e" + std::to_string(n)));
            return {};
        }));
        ASSERT_OK(snapshot.abort());
        Txn txn = *store().begin();
        ASSERT_OK(store().index("i")->put(txn, "p", "v"));
        ASSERT_OK(txn.prepare("gid"));
    });
    ASSERT_TRUE(*store().commit_prepared("gid"));
}

}  // namespace lockstep::idle_cpu_test
