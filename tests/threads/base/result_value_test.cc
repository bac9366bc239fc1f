// labels: unit
// result_value_test.cc - Result as a holder: what it holds after each construction and assignment,
// and that every value is destroyed once.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include <lockstep/result.h>
#include "threads/base/check.h"

namespace lockstep::result_value_test {

// Counts its live objects; a copy or a move that was forgotten, or done twice, changes the count.
struct Counted {
    static inline int live = 0;
    std::string name;
    explicit Counted(std::string n) : name(std::move(n)) { ++live; }
    Counted(const Counted& other) : name(other.name) { ++live; }
    Counted(Counted&& other) noexcept : name(std::move(other.name)) { ++live; }
    Counted& operator=(const Counted&) = default;
    Counted& operator=(Counted&&) = default;
    ~Counted() { --live; }
};

Result<Counted> value(const char* name) { return Counted(name); }
Result<Counted> failure(uint64_t a) { return fail(ErrorCode::io_error, "file", a); }
std::string shown(const Result<Counted>& r) { return r ? r->name : std::to_string(r.error().a); }

static_assert(std::is_trivially_copy_constructible_v<Result<int>>);
static_assert(std::is_trivially_destructible_v<Result<void*>>);
static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
static_assert(std::is_nothrow_move_constructible_v<Result<std::unique_ptr<int>>>);
static_assert(!std::is_convertible_v<Result<std::string>, Result<bool>>);
static_assert(!std::is_convertible_v<Error, Result<void>>);
// A reader would take it for the value.
static_assert(!std::is_constructible_v<bool, Result<bool>>);
static_assert(std::is_constructible_v<bool, Result<int>>);
static_assert(sizeof(Result<void>) == sizeof(Error) + 8 &&
              sizeof(Result<int>) == sizeof(Error) + 8);

class Results : public ::testing::Test {
protected:
    void TearDown() override { EXPECT_EQ(Counted::live, 0); }
};

TEST_F(Results, AreCopiedAndMoved) {
    for (Result<Counted> (*make)() : {+[] { return value("a"); }, +[] { return failure(1); }}) {
        Result<Counted> first = make();
        const std::string holds = shown(first);
        Result<Counted> second = first;
        EXPECT_EQ(shown(second), holds);
        EXPECT_EQ(shown(first), holds);
        const Result<Counted> third = std::move(second);
        EXPECT_EQ(shown(third), holds);
    }
}

TEST_F(Results, AreAssignedFromEachStateToEach) {
    for (const char* from : {"", "a"})
        for (const char* to : {"", "b"})
            for (const bool moved : {false, true}) {
                Result<Counted> source = *from ? value(from) : failure(3);
                Result<Counted> target = *to ? value(to) : failure(4);
                if (moved) target = std::move(source);
                else target = source;
                EXPECT_EQ(shown(target), *from ? from : "3");
                EXPECT_EQ(target.has_value(), *from != 0);
                if (!moved) {
                    EXPECT_EQ(shown(source), shown(target));
                }
                Result<Counted>& itself = target;
                target = itself;
                EXPECT_EQ(shown(target), *from ? from : "3");
            }
}

TEST_F(Results, GiveTheirValueAway) {
    std::string name = std::move(*value("a")).name;
    EXPECT_EQ(name, "a");
    EXPECT_EQ(value("b").value().name, "b");
    EXPECT_EQ(value("c").value_or(Counted("other")).name, "c");
    EXPECT_EQ(failure(1).value_or(Counted("other")).name, "other");
    const Result<int> seven = 7;
    EXPECT_EQ(seven.value_or(1) + *seven + seven.value(), 21);
    Result<std::unique_ptr<int>> box = std::make_unique<int>(5);
    const std::unique_ptr<int> taken = *std::move(box);
    EXPECT_EQ(*taken, 5);
}

TEST_F(Results, HoldWhatTheyAreMadeOf) {
    EXPECT_EQ(*Result<int>(), 0);
    EXPECT_TRUE(Result<void>());
    EXPECT_EQ(*Result<std::string>("text"), "text");
    EXPECT_EQ(*Result<std::string>(Result<const char*>("text")), "text");
    const Result<std::string> passed = Result<const char*>(fail(ErrorCode::timeout));
    EXPECT_EQ(passed.error().code, ErrorCode::timeout);
    const Result<std::optional<int>> none = std::nullopt;
    EXPECT_TRUE(none && !*none);
    const Result<bool> no = false;
    EXPECT_TRUE(no.has_value() && !*no);
    const Result<void> standard = std::unexpected(Error{.code = ErrorCode::timeout});
    EXPECT_EQ(standard.error().code, ErrorCode::timeout);
    const std::unexpected<Error> back = fail(ErrorCode::no_space);
    EXPECT_EQ(back.error().code, ErrorCode::no_space);
}

// What another library returns to fail.
template <class E>
struct Failure {
    explicit Failure(const E& error) : held(error) {}
    const E& error() const { return held; }
    E held;
};

TEST_F(Results, TakeErrorsOfOtherLibraries) {
    const Result<std::string> text = Failure<Error>(Error{.code = ErrorCode::timeout});
    EXPECT_EQ(text.error().code, ErrorCode::timeout);
    const Result<void> nothing = Failure<Error>(Error{.code = ErrorCode::forked});
    EXPECT_EQ(nothing.error().code, ErrorCode::forked);
    const Failure<Error> back = fail(ErrorCode::no_space);
    EXPECT_EQ(back.error().code, ErrorCode::no_space);
    static_assert(!std::is_constructible_v<Result<int>, Failure<int>>);
    static_assert(!std::is_convertible_v<Error, Result<int>>);
}

Result<int> plus_one(Result<int> n) { return TRY(std::move(n)) + 1; }
Result<std::string> name_of(Result<Counted> r) { return LOCKSTEP_TRY(std::move(r)).name; }

TEST_F(Results, ArePassedUp) {
    EXPECT_EQ(plus_one(1).value_or(0), 2);
    EXPECT_EQ(plus_one(fail(ErrorCode::timeout, "x", 9)).error().a, 9u);
    EXPECT_EQ(name_of(value("a")).value_or(""), "a");
    EXPECT_EQ(name_of(failure(5)).error().a, 5u);
}

// Each way to the value, with what it would have read: without the test it is the error's bytes.
TEST_F(Results, StopTheProgramIfTheirMissingValueIsTaken) {
    const char* const message = "Result.*test it first.*io_error.*file.*77";
    EXPECT_DEATH((void)failure(77).value(), message);
    Result<Counted> moved = failure(77);
    const Result<Counted> constant = failure(77);
    EXPECT_DEATH((void)moved->name.size(), message);
    EXPECT_DEATH((void)constant->name.size(), message);
    EXPECT_DEATH((void)(*moved).name.size(), message);
    EXPECT_DEATH((void)(*constant).name.size(), message);
    EXPECT_DEATH((void)Counted(*std::move(moved)), message);
    Result<std::unique_ptr<int>> owner = fail(ErrorCode::timeout, "owner");
    EXPECT_DEATH((void)**owner, "Result.*timeout.*owner");
    EXPECT_DEATH(*Result<void>(fail(ErrorCode::timeout)), "Result.*timeout");
    EXPECT_DEATH(Result<void>(fail(ErrorCode::timeout)).value(), "Result.*timeout");
}

TEST_F(Results, StopTheProgramIfTheirMissingErrorIsTaken) {
    const char* const message = "error of a Result was taken, but it holds a value";
    const Result<Counted> constant = value("a");
    Result<int> number = 1;
    EXPECT_DEATH((void)constant.error().text(), message);
    EXPECT_DEATH((void)number.error().text(), message);
    EXPECT_DEATH((void)Result<void>().error().text(), message);
}

}  // namespace lockstep::result_value_test
