// labels: unit
// function_test.cc - Function keeps what can be called: what it takes, what copies share, and when
// it is empty.
#include <lockstep/function.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::function_test {

int twice(int n) { return 2 * n; }

TEST(Function, KeepsWhatCanBeCalled) {
    Function<int(int)> call;
    EXPECT_FALSE(call);
    call = twice;
    EXPECT_EQ(call(4), 8);
    call = [factor = std::make_shared<int>(3)](int n) { return *factor * n; };
    EXPECT_EQ(call(4), 12);
    call = std::function<int(int)>(twice);
    EXPECT_EQ(call(5), 10);
    call = [](int n) { return n; };
    EXPECT_EQ(call(5), 5);
    call = [only = std::make_unique<int>(7)](int n) { return *only + n; };
    EXPECT_EQ(call(1), 8);
    call = {};
    EXPECT_FALSE(call);
}

TEST(Function, NullGivesNone) {
    int (*null)(int) = nullptr;
    EXPECT_FALSE((Function<int(int)>(null)));
    EXPECT_FALSE((Function<int(int)>(std::function<int(int)>())));
    EXPECT_FALSE((Function<int(int)>(nullptr)));
    EXPECT_FALSE((Function<int(int)>(std::move_only_function<int(int)>())));
    EXPECT_FALSE((Function<int(int)>(Function<long(int)>())));
    Function<int(int)> f = twice;
    EXPECT_TRUE(f != nullptr);
    f = nullptr;
    EXPECT_TRUE(f == nullptr);
}

TEST(Function, CopiesShareTheFunctionObject) {
    const auto state = std::make_shared<int>(0);
    {
        const Function<int()> first = [state, n = 0]() mutable { return *state = ++n; };
        const Function<int()> second = first;
        EXPECT_EQ(first(), 1);
        EXPECT_EQ(second(), 2);
        EXPECT_EQ(state.use_count(), 2);
    }
    EXPECT_EQ(state.use_count(), 1);
}

TEST(Function, PassesArgumentsOn) {
    std::string seen;
    const Function<void(int, std::string_view)> call = [&](int n, std::string_view text) {
        seen = std::to_string(n) + std::string(text);
    };
    call(3, "abc");
    EXPECT_EQ(seen, "3abc");
    std::unique_ptr<int> back;
    const Function<void(std::unique_ptr<int>)> take = [&](std::unique_ptr<int> n) {
        back = std::move(n);
    };
    take(std::make_unique<int>(9));
    EXPECT_EQ(*back, 9);
}

// The result of what is called converts, or is dropped.
TEST(Function, Results) {
    int calls = 0;
    const Function<void()> drops = [&calls] { return ++calls; };
    drops();
    EXPECT_EQ(calls, 1);
    const Function<long()> widens = [&calls] { return calls; };
    EXPECT_EQ(widens(), 1);
}

// What std::function takes as well: a function by name, a bound call, one of another signature.
TEST(Function, IsMadeAsAStdFunctionIs) {
    struct Sum {
        int add(int n) { return total += n; }
        int total = 0;
    } sum;
    const Function<int(int)> bound = std::bind(&Sum::add, &sum, std::placeholders::_1);
    EXPECT_EQ(bound(3), 3);
    const std::function<int(int)> back = bound;
    EXPECT_EQ(back(4), 7);
    const Function<long(short)> other = bound;
    EXPECT_EQ(other(1), 8);
    static_assert(!std::is_constructible_v<Function<int(int)>, int (*)(std::string)>);
    static_assert(!std::is_constructible_v<Function<int(Sum&)>, int Sum::*>);
    static_assert(sizeof(Function<int(int)>) == sizeof(void*));
}

}  // namespace lockstep::function_test
