// labels: unit
// exception_test.cc - an exception that leaves the application's function: it comes out of run() or
// join(), and its transaction is rolled back. Out of other callbacks it ends the process.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "sm/api/engine_of.h"
#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::exception_test {

class Exceptions : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            rows_ = LOCKSTEP_TRY(store_->create_index(txn, "rows"));
            return {};
        }));
    }
    void TearDown() override {
        store_.reset();
        StoreCrash::TearDown();
    }
    // Puts "k", and throws what std::stoi() throws.
    Result<int> put_and_throw(Txn& txn) {
        LOCKSTEP_TRY(rows_.put(txn, "k", "v"));
        return std::stoi("abc");
    }
    bool has(Slice key) {
        const auto found = store_->run([&](Txn& txn) -> Result<bool> {
            std::string value;
            return rows_.get(txn, key, value);
        });
        EXPECT_TRUE(found.has_value());
        return found.value_or(false);
    }

    std::optional<Store> store_;
    Index rows_;
};

TEST_F(Exceptions, RunRollsBackAndThrowsTheSame) {
    const auto put = [&](Txn& txn) { return put_and_throw(txn); };
    EXPECT_THROW((void)store_->run(put), std::invalid_argument);
    EXPECT_FALSE(has("k"));
    // The same on a user thread.
    on_thread(*store_, [&] { EXPECT_THROW((void)store_->run(put), std::invalid_argument); });
    EXPECT_FALSE(has("k"));
    const auto nothing = [](Txn&) -> Result<void> { throw std::string("any type"); };
    EXPECT_THROW((void)store_->run(nothing), std::string);
    EXPECT_EQ(store_->stats().transactions_live, 0u);
}

TEST_F(Exceptions, TheOuterFunctionMayCatchIt) {
    const auto result = store_->run([&](Txn& txn) -> Result<int> {
        LOCKSTEP_TRY(rows_.put(txn, "outer", "v"));
        bool caught = false;
        try {
            (void)store_->run([&](Txn& inner) { return put_and_throw(inner); });
        } catch (const std::invalid_argument&) {
            caught = true;
        }
        return caught ? 7 : 0;
    });
    EXPECT_EQ(result.value_or(-1), 7);
    EXPECT_TRUE(has("outer"));
    EXPECT_FALSE(has("k"));
}

TEST_F(Exceptions, JoinThrowsWhatTheFunctionThrew) {
    auto started = store_->start([]() -> Result<int> { return std::stoi("abc"); });
    EXPECT_TRUE(started.started());
    EXPECT_THROW((void)started.join(), std::invalid_argument);
    EXPECT_EQ(code_of(started.join()), ErrorCode::bad_argument);
    auto spawned = store_->spawn([&](Txn& txn) { return put_and_throw(txn); });
    while (!spawned.ready()) sleep_for(kMillisecond);
    EXPECT_THROW((void)spawned.try_join(), std::invalid_argument);
    EXPECT_FALSE(has("k"));
    // Nobody takes it.
    (void)store_->spawn([&](Txn& txn) { return put_and_throw(txn); });
    EXPECT_TRUE(store_->close());
}

TEST_F(Exceptions, MovableResultsStillCome) {
    const auto made =
        store_->run([](Txn&) -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); });
    ASSERT_TRUE(made);
    EXPECT_EQ(**made, 7);
}

// Applications turn errors into exceptions.
TEST_F(Exceptions, ADeadlockVictimThatThrowsIsRepeated) {
    struct Failed {
        Error error;
    };
    int tries = 0, holding = 0;
    const auto lock_both = [&](Slice first, Slice second) {
        return [&, first, second](Txn& txn) -> Result<void> {
            ++tries;
            if (const auto done = rows_.put(txn, first, "1"); !done) throw Failed{done.error()};
            ++holding;
            while (holding < 2) sleep_for(kMillisecond);  // both hold their first lock
            if (const auto done = rows_.put(txn, second, "1"); !done) throw Failed{done.error()};
            return {};
        };
    };
    auto one = store_->spawn(lock_both("a", "b")), other = store_->spawn(lock_both("b", "a"));
    EXPECT_TRUE(one.join());
    EXPECT_TRUE(other.join());
    EXPECT_GE(tries, 3);
    EXPECT_EQ(store_->stats().deadlock_retries, static_cast<uint64_t>(tries) - 2);
}

// The next attempt cannot begin. Its error counts, and not the exception of the one before.
TEST_F(Exceptions, AnAttemptThatCannotBeginHasTheLastWord) {
    struct Failed {};
    int holding = 0, failed = 0, thrown = 0;
    const auto lock_both = [&](Slice first, Slice second) {
        return [&, first, second](Txn& txn) -> Result<void> {
            TRY(rows_.put(txn, first, "1"));
            ++holding;
            while (holding < 2) sleep_for(kMillisecond);
            if (rows_.put(txn, second, "1")) return {};
            if (failed++ == 0)
                sm::engine_of(*store_).log->fail_store(
                    {.what = "test", .cause = {.code = ErrorCode::io_error}});
            throw Failed{};
        };
    };
    auto one = store_->spawn(lock_both("a", "b")), other = store_->spawn(lock_both("b", "a"));
    for (auto* handle : {&one, &other}) try {
            EXPECT_EQ(code_of(handle->join()), ErrorCode::store_failed);
        } catch (const Failed&) {
            ++thrown;
        }
    EXPECT_EQ(thrown, 0);
    EXPECT_FALSE(store_->close());
}

using ExceptionsDeathTest = Exceptions;
constexpr const char* kSaid = "lockstep: an exception left a function that the store called";

TEST_F(ExceptionsDeathTest, CallbacksOfOperationsEndTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto modify = [&] {
        (void)store_->run([&](Txn& txn) -> Result<void> {
            LOCKSTEP_TRY(rows_.put(txn, "k", "v"));
            std::byte buffer[8];
            LOCKSTEP_TRY(rows_.modify(txn, "k", buffer, [](std::span<std::byte>) -> ByteRange {
                throw std::runtime_error("reason");
            }));
            return {};
        });
    };
    EXPECT_DEATH(modify(), kSaid);
    EXPECT_DEATH(modify(), "reason");
}

TEST_F(ExceptionsDeathTest, ThenHasNoResultToGive) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto follow = [&] {
        auto handle = store_->start([]() -> Result<int> { return std::stoi("abc"); });
        (void)handle.then([](Result<int>) {});
        sleep_for(10 * kSecond);
    };
    EXPECT_DEATH(follow(), kSaid);
}

}  // namespace lockstep::exception_test
