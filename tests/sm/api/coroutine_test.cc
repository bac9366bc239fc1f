// labels: unit
// coroutine_test.cc - co_await on handles: resumed on a worker, through an executor, or at once.
#include <gtest/gtest.h>

#include <atomic>
#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include <lockstep/coroutine.h>
#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::coroutine_test {

// A coroutine of the application that runs by itself; its frame goes at its end.
struct Detached {
    struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

// An event loop: what others post runs on the thread that calls run().
class Loop {
public:
    void post(Resume resume) {
        const std::lock_guard guard(mutex_);
        posted_.push_back(resume);
    }
    bool run_one() {
        std::optional<Resume> resume;
        {
            const std::lock_guard guard(mutex_);
            if (posted_.empty()) return false;
            resume = posted_.front();
            posted_.pop_front();
        }
        (*resume)();
        return true;
    }

private:
    std::mutex mutex_;
    std::deque<Resume> posted_;
};

class CoroutineTest : public StoreCrash {
protected:
    std::atomic<int> ended{0};
};

static_assert(sizeof(Resume) == sizeof(void*) && std::is_trivially_copyable_v<Resume>);

// The first transaction goes on when `suspended` is set: behind the return of this call.
Detached write_and_read(Store& store, threads::Event& suspended, std::atomic<int>& ended) {
    const auto written = co_await store.spawn([&](Txn& txn) -> Result<void> {
        suspended.wait();
        return TRY(store.index("i")).put(txn, "k", "v");
    });
    EXPECT_TRUE(written);
    EXPECT_TRUE(store.begin());  // on a user thread of the store
    auto read = store.spawn([&](Txn& txn) -> Result<std::string> {
        std::string value;
        TRY(TRY(store.index("i")).get(txn, "k", value));
        return value;
    });
    const Result<std::string> value = co_await read;
    EXPECT_EQ(value.value_or("?"), "v");
    EXPECT_EQ(code_of(read.join()), ErrorCode::bad_argument);
    const auto refused = co_await store.spawn(
        [](Txn&) -> Result<std::unique_ptr<int>> { return fail(ErrorCode::no_such_record); });
    EXPECT_EQ(code_of(refused), ErrorCode::no_such_record);
    ++ended;
}

TEST_F(CoroutineTest, ResumesOnAWorker) {
    Store store = open("db");
    make(store, "i", "h");
    threads::Event suspended;
    write_and_read(store, suspended, ended);
    suspended.set();
    await([&] { return ended == 1; });
    ASSERT_OK(store.close());
}

Detached await_ready_one(Store& store, std::atomic<int>& ended) {
    const auto here = std::this_thread::get_id();
    auto handle = store.start([]() -> Result<int> { return 5; });
    while (!handle.ready()) sleep_for(kMillisecond / 10);
    EXPECT_EQ((co_await handle).value_or(0), 5);
    EXPECT_EQ(std::this_thread::get_id(), here);
    // Used up, never started, empty: an error, and no wait.
    EXPECT_EQ(code_of(co_await handle), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(co_await Handle<int>()), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(co_await store.start([]() -> Result<int> { return 5; }, 99)),
              ErrorCode::bad_argument);
    auto given = store.start([]() -> Result<int> { return 5; });
    EXPECT_TRUE(given.then([](Result<int>) {}));
    EXPECT_EQ(code_of(co_await given), ErrorCode::bad_argument);
    EXPECT_TRUE(store.close());
    EXPECT_EQ(code_of(co_await given), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(co_await store.start([]() -> Result<int> { return 5; })),
              ErrorCode::store_closed);
    EXPECT_EQ(std::this_thread::get_id(), here);
    ++ended;
}

TEST_F(CoroutineTest, AResultThatIsThereDoesNotSuspend) {
    Store store = open("db");
    await_ready_one(store, ended);
    EXPECT_EQ(ended, 1);
}

Detached on_loop(Store& store, Loop& loop, int rounds, std::atomic<int>& ended) {
    const auto home = std::this_thread::get_id();
    const auto executor = [&loop](Resume resume) { loop.post(resume); };
    for (int n = 0; n < rounds; ++n) {
        auto handle = store.start([n]() -> Result<int> { return n; });
        if (n % 4 == 3)
            while (!handle.ready()) sched_yield();  // through the executor all the same
        EXPECT_EQ((co_await resume_on(handle, executor)).value_or(-1), n);
        EXPECT_EQ(std::this_thread::get_id(), home);
        EXPECT_EQ(code_of(store.begin()), ErrorCode::wrong_thread);
    }
    ++ended;
}

TEST_F(CoroutineTest, ResumesThroughAnExecutor) {
    constexpr int kCoroutines = 64;
    Store store = open("db", small_options(2));
    Loop loop;
    for (int n = 0; n < kCoroutines; ++n) on_loop(store, loop, 50, ended);
    await([&] {
        while (loop.run_one()) {}
        return ended == kCoroutines;
    });
    ASSERT_OK(store.close());
}

// An executor may resume at once: on the thread that ends the function, or inside co_await.
Detached at_once(Store& store, std::atomic<int>& ended) {
    for (int n = 0; n < 100; ++n) {
        auto executor = [owned = std::string(100, 'x')](Resume resume) {
            resume();
            EXPECT_EQ(owned.size(), 100u);
        };
        auto handle = store.start([n]() -> Result<int> { return n; });
        const auto result = co_await resume_on(handle, std::move(executor));
        EXPECT_EQ(result.value_or(-1), n);
    }
    ++ended;
}

TEST_F(CoroutineTest, AnExecutorMayResumeAtOnce) {
    Store store = open("db", small_options(2));
    for (int n = 0; n < 16; ++n) at_once(store, ended);
    await([&] { return ended == 16; });
    ASSERT_OK(store.close());
}

Detached many_hops(Store& store, int hops, std::atomic<int>& ended) {
    for (int n = 0; n < hops; ++n) {
        const Result<int> got = co_await store.start([n]() -> Result<int> { return n; });
        EXPECT_EQ(got.value_or(-1), n);
    }
    ++ended;
}

// The stack does not grow from hop to hop; close() waits for the coroutine's last.
TEST_F(CoroutineTest, ManyHops) {
    Store store = open("db", small_options(2));
    for (int n = 0; n < 8; ++n) many_hops(store, 5000, ended);
    await([&] { return ended == 8; });
    ASSERT_OK(store.close());
}

Detached cancelled(Store& store, std::optional<Handle<int>>& handle, std::atomic<int>& ended) {
    handle = store.start([]() -> Result<int> {
        while (!cancel_requested()) sleep_for(kMillisecond / 10);
        return fail(ErrorCode::cancelled);
    });
    EXPECT_EQ(code_of(co_await *handle), ErrorCode::cancelled);
    ++ended;
}

TEST_F(CoroutineTest, AnAwaitedFunctionMayBeCancelled) {
    Store store = open("db");
    std::optional<Handle<int>> handle;
    cancelled(store, handle, ended);
    ASSERT_OK(handle->cancel());
    await([&] { return ended == 1; });
    ASSERT_OK(store.close());
}

// A coroutine of the application with a result, which is there at once or later.
struct Lazy {
    struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
        Lazy get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        // In await_suspend() the coroutine is suspended: from then on it may be destroyed.
        struct End {
            bool await_ready() noexcept { return false; }
            void await_suspend(std::coroutine_handle<promise_type> coroutine) noexcept {
                coroutine.promise().ended = true;
            }
            void await_resume() noexcept {}
        };
        End final_suspend() noexcept { return {}; }
        void return_value(Result<int> given) { result = given; }
        void unhandled_exception() { std::terminate(); }
        Result<int> result;
        std::atomic<bool> ended{false};
    };
    std::coroutine_handle<promise_type> coroutine;
};

TEST_F(CoroutineTest, CoTryEndsTheCoroutineWithTheError) {
    Store store = open("s");
    bool behind = false;
    const auto body = [&](bool good) -> Lazy {
        auto handle = store.start([good]() -> Result<int> {
            if (!good) return fail(ErrorCode::rolled_back, "refused");
            return 20;
        });
        LOCKSTEP_CO_TRY(const int half, co_await handle);
        LOCKSTEP_CO_TRY(const int one, Result<int>(1));
        LOCKSTEP_CO_TRY_VOID(Result<void>());
        behind = good;
        co_return (half + one) * 2;
    };
    for (const bool good : {false, true}) {
        const Lazy lazy = body(good);
        await([&] { return lazy.coroutine.promise().ended.load(); });
        const Result<int> result = lazy.coroutine.promise().result;
        EXPECT_EQ(code_of(result), good ? ErrorCode::none : ErrorCode::rolled_back);
        EXPECT_EQ(result.has_value() ? *result : 0, good ? 42 : 0);
        EXPECT_EQ(behind, good);
        lazy.coroutine.destroy();
    }
    ASSERT_OK(store.close());
}

}  // namespace lockstep::coroutine_test
