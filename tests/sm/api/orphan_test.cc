// labels: sim
// orphan_test.cc - transactions that a function has left open, beside the functions that run next;
// and transactions whose thread waits for the store itself.
#include <lockstep/secondary.h>

#include "tests/code_of.h"
#include "tests/sm/observe/txn_watch_test_util.h"

namespace lockstep::orphan_test {

class OrphanTest : public TxnWatchTest {
protected:
    OrphanTest() { store.options().transactions_max = 16; }
    uint32_t waiting() { return store.engine().txns->waiting(); }
};

// LM-7. A later function runs on the same Thread object, and waits for a lock that is not its own.
TEST_F(OrphanTest, ItsLocksAreNotThoseOfALaterFunction) {
    constexpr int kFunctions = 40;  // more than threads that rest
    open();
    std::optional<Txn> kept;
    leave_behind(kept);
    const threads::Thread* thread = nullptr;
    for (const auto& seen : store.engine().txns->seen())
        if (seen.id == id) thread = store.engine().txns->at(seen.slot).thread;
    ASSERT_NE(thread, nullptr);
    int begun = 0, met = 0;
    std::vector<Handle<void>> later;
    for (int n = 0; n < kFunctions; ++n)
        later.push_back(store->start(
            [&]() -> Result<void> {
                for (++begun; begun < kFunctions;) sleep_for(kMillisecond);
                if (threads::current() != thread) return {};
                ++met;
                Txn txn = TRY(store->begin({.lock_timeout = 10 * kMillisecond}));
                const auto changed = index.put(txn, "k", "mine");
                EXPECT_EQ(code_of(changed), ErrorCode::lock_timeout);
                return txn.abort();
            },
            1));
    for (auto& handle : later) join(handle, ErrorCode::none);
    EXPECT_EQ(met, 1) << "the test is blind";
    EXPECT_EQ(store.engine().locks->stats().deadlocks, 0u);
    ASSERT_OK(store->end_transaction(id));
    kept.reset();
}

// A thread that waits in begin for a slot has an older transaction, which is ended meanwhile.
TEST_F(OrphanTest, AThreadThatWaitsInBeginIsBetweenTwoCalls) {
    open();
    std::vector<Txn> others;
    auto holder = store->start([&]() -> Result<void> {
        while (others.size() < 15) others.push_back(TRY(store->begin()));
        while (!go) sleep_for(10 * kMillisecond);
        others.clear();
        return {};
    });
    ASSERT_TRUE(store.step_until([&] { return others.size() == 15; }));
    auto waiter = writer([&](Txn& txn) -> Result<void> {
        Txn next = TRY(store->begin());
        EXPECT_EQ(txn.commit().error().code, ErrorCode::ended_by_operator);
        return next.abort();
    });
    ASSERT_TRUE(store.step_until([&] { return waiting() == 1; }));
    ASSERT_OK(store->end_transaction(id));
    EXPECT_TRUE(any_in(txn::TxnState::undone));
    EXPECT_EQ(store.engine().locks->stats().deadlocks, 0u);
    go = true;
    join(holder, ErrorCode::none);
    join(waiter, ErrorCode::none);
    EXPECT_EQ(value(), "before");
}

// verify() reads in a transaction of the store itself, on the function's thread.
TEST_F(OrphanTest, ACancelledFunctionMayBeInsideATransactionOfTheStore) {
    open();
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(store->create_index(
            txn, "by",
            {.of = index, .key = [](Slice, Slice text, SecondaryKeys& keys) { keys.add(text); }}));
        return {};
    }));
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        TRY(txn.commit());
        return {};
    });
    auto checker = store->start([&]() -> Result<void> {
        EXPECT_TRUE(TRY(store->verify()).empty());
        return {};
    });
    const auto waits = [&] {
        return std::ranges::any_of(store.engine().txns->seen(),
                                   [](const auto& seen) { return seen.internal && seen.waits; });
    };
    ASSERT_TRUE(store.step_until(waits));
    ASSERT_OK(checker.cancel());
    for (int n = 0; n < 20; ++n) store.step();
    EXPECT_TRUE(waits());
    go = true;
    join(holder, ErrorCode::none);
    join(checker, ErrorCode::none);
}

}  // namespace lockstep::orphan_test
