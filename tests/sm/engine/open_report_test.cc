// labels: unit
// open_report_test.cc - what a store says when it is opened: to stderr by default, about memory and
// archives, and in errors of options that are fixed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <string>

#include "sm/engine/memory_limit.h"
#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::open_report_test {

// What `body` writes to stderr.
template <class Body>
std::string stderr_of(Body body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
}

TEST(StderrLog, HasErrorsAndWarnings) {
    const auto all = [] {
        for (int level = 0; level < 3; ++level) Options{}.logger(level, std::to_string(level));
    };
    EXPECT_EQ(stderr_of(all), "lockstep: error: 0\nlockstep: warning: 1\n");
}

class OpenReport : public StoreCrash {
protected:
    // Opens and closes; what is written to stderr meanwhile.
    std::string said(const Options& options) {
        return stderr_of([&] { EXPECT_TRUE(open("a", options).close()); });
    }
};

TEST_F(OpenReport, AnArchiveThatCannotBeMadeIsWarnedOf) {
    Options options = small_options();
    options.logger = Options{}.logger;
    options.archive = "/nonexist/x/y";
    const std::string text = said(options);
    EXPECT_TRUE(text.starts_with("lockstep: warning: archive: ")) << text;
    EXPECT_TRUE(text.contains("/nonexist/x/y")) << text;
    EXPECT_TRUE(text.contains("No such file or directory")) << text;
    options.logger = nullptr;
    EXPECT_EQ(said(options), "");
}

// The newer copy of the durable-end record is lost, and what it vouched for may be as well.
TEST_F(OpenReport, ADamagedCopyOfTheMarkIsWarnedOfOnce) {
    Options options = small_options();
    options.logger = Options{}.logger;
    EXPECT_EQ(said(options), "");
    EXPECT_EQ(said(options), "");
    for (const int slot : {0, 1}) {
        const std::string zeros(4096, '\0');
        std::fstream mark(path("a/log.mark"), std::ios::in | std::ios::out | std::ios::binary);
        mark.seekp(slot * 4096);
        mark.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
        mark.close();
        const std::string text = said(options);
        EXPECT_TRUE(text.starts_with("lockstep: warning: one copy of log.mark is damaged")) << text;
        EXPECT_TRUE(text.contains("up to LSN ")) << text;
        EXPECT_EQ(said(options), "");
    }
    // A backup has one copy, which says nothing.
    {
        Store store = open("a", options);
        ASSERT_TRUE(store.backup(path("b")));
        ASSERT_OK(store.close());
    }
    EXPECT_EQ(stderr_of([&] { EXPECT_TRUE(open("b", options).close()); }), "");
}

TEST_F(OpenReport, MoreThanTheMemoryIsWarnedOf) {
    Options options = small_options();
    options.logger = Options{}.logger;
    EXPECT_EQ(said(options), "");
    constexpr uint64_t kVersions = 1ull << 40;
    options.version_bytes = kVersions;
    const uint64_t limit = sm::memory_limit();
    ASSERT_LT(limit, kVersions);
    EXPECT_GE(limit, 64ull << 20);
    const std::string text = said(options);
    EXPECT_TRUE(text.contains(std::to_string(options.pool_bytes + kVersions))) << text;
    EXPECT_TRUE(text.contains(std::to_string(limit))) << text;
}

TEST_F(OpenReport, TheLogNeedsFourOfItsOwnSegments) {
    Options options = small_options();
    options.log_segment_bytes = 16ull << 20;
    EXPECT_TRUE(open("a", options).close());
    options.log_bytes = 32ull << 20;
    options.log_segment_bytes = 1ull << 20;
    const auto refused = Store::open(path("a"), options);
    ASSERT_EQ(code_of(refused), ErrorCode::bad_option);
    const std::string text = refused.error().text();
    for (const char* part : {"log_bytes", "33554432", "67108864 or more", "log_segment_bytes"})
        EXPECT_TRUE(text.contains(part)) << text;
    options.log_bytes = 64ull << 20;
    Store store = open("a", options);
    EXPECT_EQ(store.options().log_segment_bytes, 16ull << 20);
}

// The other sizes of the log follow from it, and those in use are told.
TEST_F(OpenReport, LogBytesAlone) {
    constexpr uint64_t kMiB = 1 << 20;
    struct Case {
        uint64_t log, segment, ring;
    };
    for (const Case& of :
         {Case{4 * kMiB, kMiB, kMiB}, Case{6 * kMiB + 1, 3 * kMiB / 2, kMiB},
          Case{100 * kMiB, 25 * kMiB, 16 * kMiB}, Case{2048 * kMiB, 64 * kMiB, 32 * kMiB}}) {
        Options options;
        options.pool_bytes = 4 * kMiB;
        options.log_bytes = of.log;
        Store store = open("log" + std::to_string(of.log), options);
        EXPECT_EQ(store.options().log_segment_bytes, of.segment) << of.log;
        EXPECT_EQ(store.options().log_ring_bytes, of.ring) << of.log;
        EXPECT_TRUE(store.close());
    }
}

}  // namespace lockstep::open_report_test
