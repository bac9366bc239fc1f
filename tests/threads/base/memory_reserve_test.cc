// labels: unit
// memory_reserve_test.cc - the reserve is given once, put back, shared by its holders,
// and leaves the application's handler as it was.
#include "threads/base/memory_reserve.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <utility>

namespace {
// While the next allocation of the reserve's size is active.
std::function<void()> meanwhile;
}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    if (bytes == lockstep::MemoryReserve::kBytes && meanwhile) std::exchange(meanwhile, nullptr)();
    return ::operator new(bytes);
}

namespace lockstep {
namespace {

int asked = 0;
void of_the_application() { ++asked; }

class MemoryReserveTest : public ::testing::Test {
protected:
    void SetUp() override { std::set_new_handler(&of_the_application); }
    void TearDown() override { EXPECT_EQ(std::set_new_handler(nullptr), &of_the_application); }
    // What a failing `new` does.
    static void fail_once() { std::get_new_handler()(); }
};

TEST_F(MemoryReserveTest, IsGivenOnceAndPutBack) {
    MemoryReserve mine;
    ASSERT_TRUE(mine.hold());
    for (int n = 0; n < 3; ++n) {
        EXPECT_FALSE(MemoryReserve::is_used_up());
        asked = 0;
        fail_once();
        EXPECT_TRUE(MemoryReserve::is_used_up());
        EXPECT_EQ(asked, 0);
        fail_once();
        EXPECT_EQ(asked, 1);  // it is the application's turn
        EXPECT_TRUE(MemoryReserve::put_back());
        EXPECT_TRUE(MemoryReserve::put_back());  // there already
    }
}

// Memory that is probed for, or about to be the reserve again, is missing for a moment only.
TEST_F(MemoryReserveTest, WhoeverFindsNoneWhileItIsBorrowedTriesAgain) {
    MemoryReserve mine;
    ASSERT_TRUE(mine.hold());
    fail_once();
    const auto fails_elsewhere = [] {
        std::thread([] {
            for (int n = 0; n < 3; ++n) fail_once();
        }).join();
    };
    asked = 0;
    meanwhile = fails_elsewhere;
    EXPECT_TRUE(MemoryReserve::has_room_for(MemoryReserve::kBytes));
    EXPECT_TRUE(!meanwhile && asked == 0);
    meanwhile = fails_elsewhere;
    EXPECT_TRUE(MemoryReserve::put_back());
    EXPECT_TRUE(!meanwhile && asked == 0);
    // The borrower's own: no reason to give the reserve away.
    meanwhile = fail_once;
    EXPECT_TRUE(MemoryReserve::has_room_for(MemoryReserve::kBytes));
    EXPECT_EQ(asked, 1);
    EXPECT_FALSE(MemoryReserve::is_used_up());
}

TEST_F(MemoryReserveTest, StaysUntilItsLastHolderHasGone) {
    MemoryReserve first, second;
    ASSERT_TRUE(first.hold());
    ASSERT_TRUE(second.hold());
    first.drop();
    first.drop();
    EXPECT_NE(std::get_new_handler(), &of_the_application);
    fail_once();
    EXPECT_TRUE(MemoryReserve::is_used_up());
    second.drop();
    EXPECT_FALSE(MemoryReserve::is_used_up());
    EXPECT_TRUE(MemoryReserve::put_back());  // for nobody
    EXPECT_EQ(std::get_new_handler(), &of_the_application);
}

TEST_F(MemoryReserveTest, LeavesALaterHandlerAlone) {
    MemoryReserve mine;
    ASSERT_TRUE(mine.hold());
    const std::new_handler ours = std::set_new_handler(&of_the_application);
    mine.drop();
    EXPECT_EQ(std::get_new_handler(), &of_the_application);
    EXPECT_NE(ours, &of_the_application);
}

}  // namespace
}  // namespace lockstep
