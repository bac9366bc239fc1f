// labels: unit
// stack_test.cc - the stack pool: sizes, colours, reuse, guards.
#include "threads/thread/stack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "threads/runtime/runtime.h"
#include "threads/thread/switch.h"

namespace lockstep::threads::stack_test {

TEST(Stack, AtLeastTheBytesAskedFor) {
    StackPool pool(20'000);
    for (int i = 0; i < 200; ++i) {
        auto stack = pool.take();
        ASSERT_TRUE(stack);
        EXPECT_GE((*stack)->bytes(), 20'000u);  // SK-1
        EXPECT_EQ(reinterpret_cast<uintptr_t>((*stack)->top) % 64, 0u);
        std::memset((*stack)->base, 0x5a, (*stack)->bytes());
    }
}

TEST(Stack, NeighboursDoNotAlias) {
    StackPool pool(64 * 1024);
    std::set<uintptr_t> colours;
    for (int i = 0; i < 32; ++i)
        colours.insert(reinterpret_cast<uintptr_t>((*pool.take())->top) % 4096);
    EXPECT_EQ(colours.size(), 32u);
}

TEST(Stack, LastGivenIsFirstTaken) {
    StackPool pool(64 * 1024);
    Stack* a = *pool.take();
    Stack* b = *pool.take();
    pool.give(a);
    pool.give(b);
    EXPECT_EQ(*pool.take(), b);
    EXPECT_EQ(*pool.take(), a);
}

TEST(Stack, GuardsTheBytesBelow) {
    StackPool pool(64 * 1024);
    const Stack& stack = **pool.take();
    EXPECT_FALSE(stack.guards(stack.base));
    EXPECT_TRUE(stack.guards(stack.base - 1));
    EXPECT_TRUE(stack.guards(stack.base - StackPool::kGuardBytes));
    EXPECT_FALSE(stack.guards(stack.base - StackPool::kGuardBytes - 1));
}

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    size_t lines = 0;
    for (std::string line; std::getline(maps, line);) ++lines;
    return lines;
}

// vm.max_map_count bounds the number of stacks.
TEST(Stack, TakesTwoMappings) {
    constexpr size_t kStacks = 640;
    StackPool pool(64 * 1024);
    const size_t before = mappings();
    for (size_t i = 0; i < kStacks; ++i) ASSERT_TRUE(pool.take());
    EXPECT_LE(mappings(), before + 2 * kStacks + 20);
}

[[gnu::noinline]] int run_over(int depth) {
    volatile char frame[1024];
    std::memset(const_cast<char*>(frame), depth, sizeof frame);
    return depth == 0 ? frame[7] : run_over(depth - 1) + frame[depth % 1024];
}

TEST(StackDeathTest, GuardStopsRunaway) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            auto runtime = *Runtime::start({});
            (void)runtime->spawn(0, "runaway", [] {
                if (run_over(1'000'000) == 42) fputs("impossible\n", stderr);
            });
            runtime->stop();
            _exit(0);  // not reached
        },
        "");
}

TEST(StackDeathTest, BytesBelowAreNotWritable) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    StackPool pool(64 * 1024);
    Stack* stack = *pool.take();
    for (const size_t below : {size_t{1}, StackPool::kGuardBytes})
        EXPECT_DEATH({ *reinterpret_cast<volatile char*>(stack->base - below) = 1; }, "") << below;
}

}  // namespace lockstep::threads::stack_test
