// labels: unit
// result_test.cc - what errors say: every code has a name and a meaning of its own,
// and the text holds all that is known.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include <lockstep/result.h>
#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep::result_test {

TEST(Errors, EveryCodeHasANameAndAMeaning) {
    std::set<std::string> names, meanings;
    constexpr ErrorCode kAll[] = {ErrorCode::none,
#define X(name, text) ErrorCode::name,
                                  LOCKSTEP_ERRORS(X)
#undef X
    };
    for (const ErrorCode code : kAll) {
        EXPECT_TRUE(names.insert(error_name(code)).second) << error_name(code);
        EXPECT_TRUE(meanings.insert(error_meaning(code)).second) << error_meaning(code);
        EXPECT_EQ(Error{.code = code}.text(),
                  std::string(error_name(code)) + ": " + error_meaning(code));
    }
    EXPECT_FALSE(names.contains("unknown"));
    EXPECT_STREQ(error_name(static_cast<ErrorCode>(255)), "unknown");
    EXPECT_STREQ(error_meaning(static_cast<ErrorCode>(255)), "unknown error");
}

TEST(Errors, TheTextHoldsWhatIsKnown) {
    const std::string start = std::string("io_error: ") + error_meaning(ErrorCode::io_error);
    EXPECT_EQ(fail(ErrorCode::io_error, "file").error().text(), start + " [file]");
    EXPECT_EQ(fail(ErrorCode::io_error, nullptr, 7).error().text(), start + " (7)");
    EXPECT_EQ(fail(ErrorCode::io_error, "file", 0, 8).error().text(), start + " [file] (0, 8)");
    EXPECT_EQ(fail(ErrorCode::io_error, "file", 0, 0, 9).error().text(),
              start + " [file] (0, 0, 9)");
    EXPECT_EQ(fail_os(ErrorCode::io_error, EIO, "file", 1, 2).error().text(),
              start + " [file] (1, 2): " + std::strerror(EIO));
}

TEST(Errors, ALongerTextReplacesTheNumbers) {
    Error error = fail(ErrorCode::lock_timeout, "lock", 7).error();
    set_error_detail(error, "held by another");
    const std::string start = std::string("lock_timeout: ") + error_meaning(error.code) + " [lock]";
    EXPECT_EQ(error.text(), start + ": held by another");
    Error second = error;
    set_error_detail(second, std::string(2 * kErrorDetailBytesMax, 'x'));
    EXPECT_EQ(error_detail(second), std::string(kErrorDetailBytesMax, 'x'));
    EXPECT_EQ(error_detail(error), "held by another");
    for (size_t i = 0; i < kErrorDetailsKept; ++i) {
        Error other = error;
        set_error_detail(other, std::to_string(i));
        EXPECT_EQ(error_detail(other), std::to_string(i));
    }
    EXPECT_EQ(error.text(), start + " (7)");
    EXPECT_EQ(error_detail({}), "");
}

TEST(Errors, AFailedCheckNamesItself) {
    EXPECT_DEATH(CHECK(1 + 1 == 3), "CHECK failed: 1 \\+ 1 == 3 at .*result_test.cc");
}

}  // namespace lockstep::result_test
