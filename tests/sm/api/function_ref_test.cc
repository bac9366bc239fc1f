// labels: unit
// function_ref_test.cc - FunctionRef calls what it refers to: functions, lambdas with state,
// callables that are const, and other references.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include <lockstep/function_ref.h>

namespace lockstep::function_ref_test {

int called(FunctionRef<int(int)> f, int n) { return f(n); }
int twice(int n) { return 2 * n; }

static_assert(std::is_trivially_copyable_v<FunctionRef<int(int)>>);
static_assert(sizeof(FunctionRef<int(int)>) == 2 * sizeof(void*));
static_assert(!std::is_constructible_v<FunctionRef<int(int)>, int (*)(std::string)>);

TEST(FunctionRef, CallsFunctionsAndObjects) {
    EXPECT_EQ(called(twice, 4), 8);
    EXPECT_EQ(called(&twice, 5), 10);
    int calls = 0;
    EXPECT_EQ(called([&calls, sum = 0](int n) mutable { return ++calls, sum += n; }, 6), 6);
    EXPECT_EQ(calls, 1);
    const auto constant = [](int n) { return n + 1; };
    EXPECT_EQ(called(constant, 6), 7);
    std::move_only_function<int(int)> owning = [box = std::make_unique<int>(3)](int n) {
        return *box + n;
    };
    EXPECT_EQ(called(owning, 1), 4);
}

TEST(FunctionRef, KeepsTheStateOfWhatItRefersTo) {
    auto counter = [n = 0]() mutable { return ++n; };
    const FunctionRef<int()> first = counter, second = first;
    EXPECT_EQ(first(), 1);
    EXPECT_EQ(second(), 2);
    EXPECT_EQ(counter(), 3);
}

TEST(FunctionRef, PassesReferencesAndMoves) {
    std::string text = "a";
    auto append = [](std::string& s, std::unique_ptr<int> n) { return s += std::to_string(*n); };
    const FunctionRef<std::string(std::string&, std::unique_ptr<int>)> f = append;
    EXPECT_EQ(f(text, std::make_unique<int>(7)), "a7");
    EXPECT_EQ(text, "a7");
}

}  // namespace lockstep::function_ref_test
