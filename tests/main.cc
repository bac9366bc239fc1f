// main.cc - the main() of the test programs.
//
// A folder's tests are one program, `<layer>_<folder>_tests`. For each of their sources there is a
// link to it, `<layer>_<source>`. Called by such a name, the program runs that source's tests only.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "threads/base/limits.h"

namespace lockstep {

// sm/host/test_hooks.h: a store has closed, and everything that it had noted must be gone.
void observe_rest(std::string_view fault);
void observe_rest(std::string_view fault) {
    if (!fault.empty()) ADD_FAILURE() << "a store that closes is not at rest: " << fault;
}

}  // namespace lockstep

namespace {

// Whether the test is one of tests/<layer>/.../<source>.cc, given "<layer>_<source>".
bool is_of(const std::string& called, const testing::TestInfo& test) {
    const std::filesystem::path file = test.file();
    const auto folder = file.string().rfind("tests/");
    if (folder == std::string::npos) return false;
    const std::filesystem::path inside = file.string().substr(folder + sizeof "tests/" - 1);
    return inside.begin()->string() + "_" + inside.stem().string() == called;
}

// Leaves out what is not a test of the called source. False: it has none. Whole suites where that
// says the same: GoogleTest prints the list.
bool keep_tests_of(const std::string& called) {
    std::string own, others;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    const auto add = [](std::string& list, const char* suite, const char* test) {
        list.append(":").append(suite).append(".").append(test);
    };
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        const int count = suite.total_test_count();
        int owned = 0;
        for (int j = 0; j < count; ++j) owned += is_of(called, *suite.GetTestInfo(j));
        if (owned == 0 || owned == count) {
            add(owned != 0 ? own : others, suite.name(), "*");
            continue;
        }
        for (int j = 0; j < count; ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            add(is_of(called, test) ? own : others, suite.name(), test.name());
        }
    }
    std::string& filter = GTEST_FLAG_GET(filter);
    if (filter == "*") {
        filter = own;
    } else if (!others.empty()) {
        if (filter.find('-') == std::string::npos) others[0] = '-';
        filter += others;
    }
    return !own.empty();
}

}  // namespace

namespace {

// What one test has drawn for itself is not for the next one.
class LimitsOfTests : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo&) override { lockstep::limits::reset(); }
};

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const std::string called = std::filesystem::path(argv[0]).filename();
    if (called.ends_with("_test") && !keep_tests_of(called)) {
        std::fprintf(stderr, "%s: no test of this program stands in a source of that name\n",
                     called.c_str());
        return 2;
    }
    testing::UnitTest::GetInstance()->listeners().Append(new LimitsOfTests);
    return RUN_ALL_TESTS();
}
