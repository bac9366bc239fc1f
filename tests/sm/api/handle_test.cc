// labels: unit
// handle_test.cc - what follows a function on a user thread: then(), try_join(), ready(); called
// exactly once, whatever happens to handle, store and process.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/code_of.h"
#include "tests/end_child.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::handle_test {

class HandleTest : public StoreCrash {
protected:
    // A function that ends when `go` is set.
    auto waits(Store& store, int value = 7) {
        return store.start([this, value]() -> Result<int> {
            while (!go.load()) sleep_for(kMillisecond / 10);
            return value;
        });
    }
    std::atomic<bool> go{false};
    std::atomic<int> calls{0};
};

// On the user thread of the function, when that and its captures are gone. It may use the store.
TEST_F(HandleTest, ThenIsCalledAtTheEndOnTheUserThread) {
    Store store = open("db");
    make(store, "i", "h");
    const auto captured = std::make_shared<int>(7);
    auto handle = store.start([this, captured]() -> Result<int> {
        while (!go.load()) sleep_for(kMillisecond / 10);
        return *captured;
    });
    EXPECT_FALSE(handle.ready());
    EXPECT_FALSE(handle.try_join());
    ASSERT_OK(handle.then([&](Result<int> result) {
        EXPECT_EQ(result.value_or(0), 7);
        EXPECT_EQ(captured.use_count(), 1);
        auto txn = store.begin();
        ASSERT_OK(txn);
        ASSERT_OK(store.index("i")->put(*txn, "k", "v"));
        ASSERT_OK(txn->commit());
        sleep_for(kMillisecond);
        EXPECT_FALSE(cancel_requested());
        EXPECT_EQ(code_of(store.close()), ErrorCode::wrong_thread);
        ++calls;
    }));
    EXPECT_EQ(calls, 0);
    go = true;
    await([&] { return calls == 1; });
    EXPECT_TRUE(handle.ready());
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    ASSERT_OK(store.close());
    EXPECT_EQ(calls, 1);
}

TEST_F(HandleTest, ThenOnAResultThatIsThereIsCalledBeforeItReturns) {
    Store store = open("db");
    auto handle = store.start([]() -> Result<int> { return 7; });
    await([&] { return handle.ready(); });
    std::thread::id where;
    ASSERT_OK(handle.then([&](Result<int> result) {
        EXPECT_EQ(result.value_or(0), 7);
        where = std::this_thread::get_id();
    }));
    EXPECT_EQ(where, std::this_thread::get_id());
    ASSERT_OK(store.close());
}

TEST_F(HandleTest, AResultGoesToOnePlace) {
    Store store = open("db");
    auto handle = waits(store);
    ASSERT_OK(handle.then([&](Result<int>) { ++calls; }));
    const auto dropped = std::make_shared<int>(1);
    EXPECT_EQ(code_of(handle.then([dropped](Result<int>) { ADD_FAILURE(); })),
              ErrorCode::bad_argument);
    EXPECT_EQ(dropped.use_count(), 1);
    EXPECT_EQ(code_of(handle.join()), ErrorCode::bad_argument);
    ASSERT_TRUE(handle.try_join());
    EXPECT_EQ(code_of(*handle.try_join()), ErrorCode::bad_argument);
    ASSERT_OK(handle.started());
    auto joined = waits(store), tried = waits(store);
    go = true;
    EXPECT_EQ(joined.join().value_or(0), 7);
    EXPECT_EQ(code_of(joined.then([](Result<int>) { ADD_FAILURE(); })), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(joined.cancel()), ErrorCode::bad_argument);
    EXPECT_TRUE(joined.ready());
    std::optional<Result<int>> found;
    await([&] { return (found = tried.try_join()).has_value(); });
    EXPECT_EQ(found->value_or(0), 7);
    EXPECT_EQ(code_of(*tried.try_join()), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(tried.join()), ErrorCode::bad_argument);
    Handle<int> empty;
    EXPECT_EQ(code_of(*empty.try_join()), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(empty.then([](Result<int>) { ADD_FAILURE(); })), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(empty.cancel()), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(empty.started()), ErrorCode::bad_argument);
    EXPECT_TRUE(empty.ready());
    ASSERT_OK(store.close());
    EXPECT_EQ(calls, 1);
}

// Callbacks of every size, which only move, for results that only move or are none.
TEST_F(HandleTest, WithoutItsHandle) {
    Store store = open("db");
    struct Large {
        char bytes[1000];
        std::unique_ptr<int> owned;
    };
    {
        auto moved = waits(store);
        ASSERT_OK(moved.then([this, owned = std::make_unique<int>(3)](Result<int> r) {
            calls += *owned * r.value_or(0);
        }));
        auto elsewhere = std::move(moved);
    }
    ASSERT_OK(waits(store).then([this, large = Large{{}, std::make_unique<int>(5)}](Result<int> r) {
        calls += *large.owned * r.value_or(0);
    }));
    ASSERT_OK(store
                  .start([this]() -> Result<std::unique_ptr<int>> {
                      while (!go.load()) sleep_for(kMillisecond / 10);
                      return std::make_unique<int>(100);
                  })
                  .then([this](Result<std::unique_ptr<int>>&& r) { calls += **r; }));
    ASSERT_OK(store.spawn([](Txn&) -> Result<void> { return fail(ErrorCode::no_such_record); })
                  .then([this](Result<void> r) {
                      calls += code_of(r) == ErrorCode::no_such_record ? 1000 : 0;
                  }));
    go = true;
    ASSERT_OK(store.close());
    EXPECT_EQ(calls, 3 * 7 + 5 * 7 + 100 + 1000);
}

// The callback may destroy what holds the handle, also when then() itself calls it.
TEST_F(HandleTest, ACallbackMayDestroyTheHandle) {
    Store store = open("db");
    for (const bool ready : {false, true}) {
        auto owner = std::make_unique<Handle<int>>(waits(store));
        go = ready;
        if (ready) await([&] { return owner->ready(); });
        Handle<int>& handle = *owner;
        ASSERT_OK(handle.then([this, owner = std::move(owner)](Result<int> r) mutable {
            owner.reset();
            calls += r.value_or(0);
        }));
        go = true;
        await([&] { return calls == (ready ? 14 : 7); });
    }
    ASSERT_OK(store.close());
}

// Each callback gets its result; what a callback starts during close() is refused, and says so.
TEST_F(HandleTest, CloseCallsEachOnce) {
    constexpr int kTasks = 200;
    Store store = open("db", small_options(2));
    std::atomic<int> refused{0};
    for (int n = 0; n < kTasks; ++n)
        ASSERT_OK(waits(store, n).then([&, n](Result<int> r) {
            EXPECT_EQ(r.value_or(-1), n);
            ++calls;
            EXPECT_TRUE(store.start([]() -> Result<int> { return 1; }).then([&](Result<int> next) {
                if (code_of(next) == ErrorCode::store_closed) ++refused;
            }));
        }));
    std::thread closer([&] { EXPECT_TRUE(store.close()); });
    // From here on start() is refused.
    await([&] {
        return code_of(store.start([]() -> Result<int> { return 1; }).started()) ==
               ErrorCode::store_closed;
    });
    go = true;
    closer.join();
    EXPECT_EQ(calls, kTasks);
    EXPECT_EQ(refused, kTasks);
    EXPECT_TRUE(store.start([]() -> Result<int> { return 1; }).then([&](Result<int> r) {
        EXPECT_EQ(code_of(r), ErrorCode::store_closed);
        ++calls;
    }));
    EXPECT_EQ(calls, kTasks + 1);
}

TEST_F(HandleTest, ARefusedStartIsTheResult) {
    Options options = small_options();
    options.user_threads_max = 1;
    Store store = open("db", options);
    std::atomic<bool> begun{false};
    auto first = store.start([&]() -> Result<int> {
        begun = true;
        while (!go.load()) sleep_for(kMillisecond / 10);
        return 7;
    });
    ASSERT_OK(first.started());
    await([&] { return begun.load(); });  // those that have not begun do not count
    auto second = waits(store);
    EXPECT_EQ(code_of(second.started()), ErrorCode::too_many);
    EXPECT_TRUE(second.ready());
    ASSERT_OK(second.then([&](Result<int> r) { calls += code_of(r) == ErrorCode::too_many; }));
    EXPECT_EQ(calls, 1);
    ASSERT_OK(store.start([]() -> Result<int> { return 1; }, 77).then([&](Result<int> r) {
        calls += code_of(r) == ErrorCode::bad_argument;
    }));
    EXPECT_EQ(calls, 2);
    go = true;
    ASSERT_OK(store.close());
}

TEST_F(HandleTest, AFunctionThatJoinsItselfIsRefused) {
    Store store = open("db");
    Handle<int> own;
    std::atomic<bool> given{false};
    own = store.start([&]() -> Result<int> {
        while (!given.load()) sleep_for(kMillisecond / 10);
        const Result<int> joined = own.join();
        EXPECT_EQ(code_of(joined), ErrorCode::bad_argument);
        EXPECT_NE(joined.error().text().find("its own handle"), std::string::npos);
        return 7;
    });
    given = true;
    await([&] { return own.ready(); });
    EXPECT_EQ(own.join().value_or(0), 7);
    ASSERT_OK(store.close());
}

// Each callback starts the next function. The stack does not grow.
struct Chain {
    Store& store;
    std::atomic<int>& calls;
    void next(int left) {
        EXPECT_TRUE(
            store.spawn([left](Txn&) -> Result<int> { return left; }).then([this](Result<int> r) {
                ++calls;
                if (r && *r > 1) next(*r - 1);
            }));
    }
};

TEST_F(HandleTest, ACallbackMayStartMore) {
    constexpr int kLength = 5000;
    Store store = open("db", small_options(2));
    Chain chain{store, calls};
    chain.next(kLength);
    await([&] { return calls == kLength; });
    ASSERT_OK(store.close());
}

// then() and the end of the function meet at random.
TEST_F(HandleTest, ThenMeetsTheEnd) {
    constexpr int kTasks = 20'000;
    Store store = open("db", small_options(2));
    std::atomic<int64_t> sum{0};
    for (int n = 0; n < kTasks; ++n) {
        auto handle = store.start([n]() -> Result<int> { return n; });
        if (n % 3 == 0) sched_yield();
        ASSERT_OK(handle.then([&](Result<int> r) { sum += *r; }));
        if (n % 256 == 0) sleep_for(kMillisecond / 10);
    }
    ASSERT_OK(store.close());
    EXPECT_EQ(sum, int64_t{kTasks} * (kTasks - 1) / 2);
}

// On a user thread of another store: join() suspends there, then() is the same.
TEST_F(HandleTest, OnAUserThreadOfAnotherStore) {
    Store here = open("here"), there = open("there");
    on_thread(there, [&] {
        EXPECT_EQ(here.start([]() -> Result<int> { return 8; }).join().value_or(0), 8);
        ASSERT_OK(waits(here).then([&](Result<int> r) {
            calls += r.value_or(0);
            EXPECT_EQ(code_of(there.begin()), ErrorCode::wrong_thread);
            EXPECT_TRUE(here.begin());
        }));
        auto ready = here.start([]() -> Result<int> { return 8; });
        while (!ready.ready()) yield();
        ASSERT_OK(ready.then([&](Result<int>) {
            EXPECT_EQ(code_of(here.begin()), ErrorCode::wrong_thread);
            EXPECT_TRUE(there.begin());
        }));
        go = true;
    });
    ASSERT_OK(here.close());
    ASSERT_OK(there.close());
    EXPECT_EQ(calls, 7);
}

// A callback from before the fork is the parent's alone.
void child_of(Handle<int>& given, Handle<int>& running, Handle<int>& ended, Store& store) {
    int calls = 0;
    if (given.join() || !given.ready() || given.cancel()) end_child(1);
    if (!running.ready() || code_of(running.cancel()) != ErrorCode::forked) end_child(2);
    if (!running.then([&](Result<int> r) { calls += code_of(r) == ErrorCode::forked; }))
        end_child(3);
    if (!ended.then([&](Result<int> r) { calls += r.value_or(0); })) end_child(4);
    if (!store.start([]() -> Result<int> { return 1; }).then([&](Result<int> r) {
            calls += code_of(r) == ErrorCode::forked;
        }))
        end_child(5);
    if (cancel_requested()) end_child(6);
    end_child(calls == 1 + 2 + 1 ? 0 : 7);
}

TEST_F(HandleTest, InTheChildOfAFork) {
    Store store = open("db");
    auto given = waits(store), running = waits(store);
    auto ended = store.start([]() -> Result<int> { return 2; });
    ASSERT_OK(given.then([&](Result<int> r) { calls += r.value_or(0); }));
    await([&] { return ended.ready(); });
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        child_of(given, running, ended, store);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(calls, 0);
    go = true;
    EXPECT_EQ(running.join().value_or(0), 7);
    ASSERT_OK(store.close());
    EXPECT_EQ(calls, 7);
}

// The log's device fails: functions that wait get the error, and so do their callbacks.
TEST(HandleSim, AFailingStoreCallsEachOnce) {
    threads::SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run(), 2};
    ASSERT_OK(store.open());
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "i"));
            return {};
        }));
    });
    disk.faults().set_odds(threads::SimFault::write_error, 1);
    constexpr int kTasks = 32;
    int calls = 0, failed = 0;
    for (int n = 0; n < kTasks; ++n)
        ASSERT_OK(store
                      ->spawn([&, n](Txn& txn) -> Result<void> {
                          return TRY(store->index("i")).put(txn, Key().u32(uint32_t(n)), "v");
                      })
                      .then([&](Result<void> r) {
                          ++calls;
                          failed += code_of(r) == ErrorCode::store_failed;
                      }));
    EXPECT_EQ(calls, 0);
    ASSERT_TRUE(store.step_until([&] { return calls == kTasks; }));
    EXPECT_EQ(failed, kTasks);
    EXPECT_FALSE(store.close());
    EXPECT_EQ(calls, kTasks);
}

}  // namespace lockstep::handle_test
