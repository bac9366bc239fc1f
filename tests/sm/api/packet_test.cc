// labels: unit
// packet_test.cc - packets of the application: submitted without an allocation, with priority, time
// and worker; withdrawn; run at close().
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <thread>

#include "tests/sm/store_crash_util.h"

namespace lockstep::packet_test {

class Call final : public Packet {
public:
    explicit Call(std::function<void()> fn) : fn_(std::move(fn)) {}
    void run() override { fn_(); }

private:
    std::function<void()> fn_;
};

class StorePacket : public StoreCrash {
protected:
    std::atomic<int> ran{0};
};

// As many as one likes, each with a transaction; they submit themselves again.
struct Counter final : Packet {
    Counter(Store& s, Index i, std::atomic<int>& r) : store(s), index(i), ran(r) {}
    void run() override {
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            std::string value;
            if (!TRY(index.get(txn, "n", value, Access::update))) value = "0";
            return index.put(txn, "n", std::to_string(std::stoi(value) + 1));
        }));
        ++ran;
        if (--left == 0) return;
        ASSERT_OK(store.submit(*this));
    }
    Store& store;
    Index index;
    std::atomic<int>& ran;
    int left = 20;
};

TEST_F(StorePacket, EachIsATransaction) {
    Store store = open("db", small_options(2));
    auto index = store.run([&](Txn& txn) { return store.create_index(txn, "i"); });
    ASSERT_OK(index);
    std::deque<Counter> packets;
    for (int n = 0; n < 50; ++n) ASSERT_OK(store.submit(packets.emplace_back(store, *index, ran)));
    await([&] { return ran == 50 * 20; });
    std::string value;
    ASSERT_OK(store.run([&](Txn& txn) { return index->get(txn, "n", value); }));
    EXPECT_EQ(value, "1000");
    const StoreStats stats = store.stats();
    EXPECT_GE(stats.admission_stage.entered, 1000u);
    EXPECT_EQ(stats.packets_timed, 0u);
    ASSERT_OK(store.close());
}

TEST_F(StorePacket, EitherPolicyIsTaken) {
    for (const PacketPolicy policy : {PacketPolicy::fifo, PacketPolicy::priority}) {
        Options options = small_options();
        options.packet_policy = policy;
        Store store = open("p", options);
        EXPECT_EQ(store.options().packet_policy, policy);
        ASSERT_OK(store.close());
    }
}

TEST_F(StorePacket, RunsOnItsWorkerInItsTurn) {
    Store store = open("db", small_options(2));
    EXPECT_EQ(current_worker(), -1);
    std::deque<Call> packets;
    std::vector<int> order;
    std::atomic<bool> hold{true}, holds{false};
    Call first([&] {
        holds = true;
        while (hold) std::this_thread::yield();  // keeps the worker
    });
    ASSERT_OK(store.submit(first, {.worker = 1, .pinned = true}));
    await([&] { return holds.load(); });  // else it may take its turn after some of the others
    for (int n = 0; n < 8; ++n)
        ASSERT_OK(store.submit(packets.emplace_back([&, n] {
            EXPECT_EQ(current_worker(), 1);
            order.push_back(n);
            ++ran;
        }),
                               {.worker = 3, .pinned = true, .priority = uint8_t(n % 4)}));
    hold = false;
    await([&] { return ran == 8; });
    EXPECT_EQ(order, (std::vector{3, 7, 2, 6, 1, 5, 0, 4}));
    ASSERT_OK(store.close());
}

TEST_F(StorePacket, WaitsForItsTime) {
    Store store = open("db");
    const Nanos at = now() + 20 * kMillisecond;
    std::atomic<Nanos> began{0};
    Call call([&] { began = now(); });
    ASSERT_OK(store.submit(call, {.not_before = at}));
    await([&] { return began != 0; });
    EXPECT_GE(began, at);
    ASSERT_OK(store.close());
}

// It waits until it is withdrawn, or the store closes.
TEST_F(StorePacket, NeverIsATimeToWaitFor) {
    Store store = open("db");
    Call back([&] { ran += 100; }), stays([&] { ++ran; });
    for (Call* call : {&back, &stays}) ASSERT_OK(store.submit(*call, {.not_before = kNever}));
    EXPECT_TRUE(store.withdraw(back));
    EXPECT_EQ(ran, 0);
    ASSERT_OK(store.close());
    EXPECT_EQ(ran, 1);
}

// A day is too long: one is taken back, the other runs when the store closes.
TEST_F(StorePacket, WithdrawAndClose) {
    Store store = open("db");
    Call back([&] { ran += 100; }), stays([&] { ++ran; });
    const PacketOptions tomorrow{.not_before = now() + 86'400 * kSecond};
    ASSERT_OK(store.submit(back, tomorrow));
    ASSERT_OK(store.submit(stays, tomorrow));
    EXPECT_EQ(store.stats().packets_timed, 2u);
    EXPECT_TRUE(store.withdraw(back));
    EXPECT_FALSE(store.withdraw(back));
    EXPECT_EQ(ran, 0);
    ASSERT_OK(store.close());
    EXPECT_EQ(ran, 1);
    const auto late = store.submit(back);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::store_closed);
    EXPECT_FALSE(store.withdraw(back));
}

TEST_F(StorePacket, NonsenseIsRefused) {
    Store store = open("db");
    Call call([&] { ++ran; });
    for (const PacketOptions& options :
         {PacketOptions{.worker = -2}, PacketOptions{.priority = 4}}) {
        const auto refused = store.submit(call, options);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
        EXPECT_NE(refused.error().text().find(options.priority > 0 ? "priority of a packet; allowed"
                                                                   : "negative worker; allowed"),
                  std::string::npos)
            << refused.error().text();
        EXPECT_EQ(refused.error().a, options.priority > 0 ? 4u : 1u) << "how many there are";
    }
    Options none, few;
    none.executors = 0;
    few.packets_max = 15;
    for (const Options& options : {none, few}) {
        const auto refused = check_options(options);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::bad_option);
    }
    ASSERT_OK(store.close());
    EXPECT_EQ(ran, 0);
}

// Ten thousand functions of which each waits for a lock: most of them wait without a stack.
TEST_F(StorePacket, FunctionsThatHaveNotBegunTakeNoStack) {
    Store store = open("db");
    auto index = store.run([&](Txn& txn) { return store.create_index(txn, "i"); });
    ASSERT_OK(index);
    ASSERT_OK(store.run([&](Txn& txn) { return index->put(txn, "k", "v"); }));
    std::vector<Handle<void>> handles;
    const uint64_t before = store.stats().threads_live;
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(index->put(txn, "k", "w"));
        for (int n = 0; n < 10'000; ++n)
            handles.push_back(store.spawn([&](Txn& other) { return index->put(other, "k", "x"); }));
        sleep_for(2 * kMillisecond);
        // The limit, and some more while all of them wait.
        EXPECT_LE(store.stats().threads_live, before + 200);
        return {};
    }));
    for (auto& handle : handles) ASSERT_OK(handle.join());
    ASSERT_OK(store.close());
}

}  // namespace lockstep::packet_test
