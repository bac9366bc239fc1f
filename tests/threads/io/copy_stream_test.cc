// labels: unit tsan
// copy_stream_test.cc - the three steps of a copy, in turn and on threads of their own.
#include "threads/io/copy_stream.h"

#include <pthread.h>

#include <atomic>
#include <vector>

#include "tests/code_of.h"
#include "tests/sm/test_util.h"
#include "threads/base/try.h"

namespace lockstep::threads::copy_stream_test {

constexpr uint64_t kMany = 100;

// Buffers numbered from 0, each filled with its number; the steps can fail or end at one of them.
struct Numbers {
    uint64_t count = kMany;
    uint64_t read_fails = UINT64_MAX, look_fails = UINT64_MAX, write_fails = UINT64_MAX;
    uint64_t last = UINT64_MAX;
    std::vector<uint64_t> read = {}, looked = {}, written = {};
    pthread_t reader{}, looker{}, writer{};

    static bool is_whole(const CopyBuffer& buffer) {
        for (size_t i = 0; i < buffer.size; ++i)
            if (buffer.bytes[i] != static_cast<std::byte>(buffer.at)) return false;
        return buffer.size > 0;
    }
    Result<void> run(CopySteps steps) {
        CopyStream stream = TRY(CopyStream::create(steps));
        const auto read_step = [&](CopyBuffer& buffer) -> Result<bool> {
            reader = pthread_self();
            const uint64_t number = read.size();
            if (number == read_fails) return fail(ErrorCode::io_error, "read", number);
            if (number == count) return false;
            read.push_back(number);
            buffer.at = number;
            buffer.size = 1 + number * 997 % CopyBuffer::kBytes;
            std::fill_n(buffer.bytes, buffer.size, static_cast<std::byte>(number));
            return true;
        };
        const auto look_step = [&](CopyBuffer& buffer) -> Result<bool> {
            looker = pthread_self();
            if (buffer.at == look_fails) return fail(ErrorCode::corrupt_log, "look", buffer.at);
            EXPECT_TRUE(is_whole(buffer));
            looked.push_back(buffer.at);
            return buffer.at != last;
        };
        const auto write_step = [&](CopyBuffer& buffer) -> Result<void> {
            writer = pthread_self();
            if (buffer.at == write_fails) return fail(ErrorCode::no_space, "write", buffer.at);
            EXPECT_TRUE(is_whole(buffer));
            written.push_back(buffer.at);
            return {};
        };
        return stream.run(read_step, look_step, write_step);
    }
};

std::vector<uint64_t> first(uint64_t n) {
    std::vector<uint64_t> numbers(n);
    for (uint64_t i = 0; i < n; ++i) numbers[i] = i;
    return numbers;
}

class CopyStreamSteps : public testing::TestWithParam<CopySteps> {};
INSTANTIATE_TEST_SUITE_P(, CopyStreamSteps,
                         testing::Values(CopySteps::alternate, CopySteps::overlap),
                         [](const auto& info) {
                             return info.param == CopySteps::overlap ? "Overlap" : "Alternate";
                         });

TEST_P(CopyStreamSteps, EachBufferPassesAllStepsInOrder) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{4}, uint64_t{5}, kMany}) {
        Numbers numbers{.count = count};
        ASSERT_OK(numbers.run(GetParam()));
        EXPECT_EQ(numbers.looked, first(count));
        EXPECT_EQ(numbers.written, first(count));
    }
}

TEST_P(CopyStreamSteps, TheCallersThreadWrites) {
    Numbers numbers;
    ASSERT_OK(numbers.run(GetParam()));
    EXPECT_TRUE(pthread_equal(numbers.writer, pthread_self()));
    EXPECT_EQ(!pthread_equal(numbers.reader, numbers.writer), GetParam() == CopySteps::overlap);
    EXPECT_EQ(!pthread_equal(numbers.looker, numbers.writer), GetParam() == CopySteps::overlap);
}

// CS-1: for each step and each place.
TEST_P(CopyStreamSteps, WhatIsWrittenEndsBeforeTheBufferThatFailed) {
    for (const uint64_t at : {0, 1, 3, 4, 7, 50}) {
        Numbers reads{.read_fails = at}, looks{.look_fails = at}, writes{.write_fails = at};
        EXPECT_EQ(code_of(reads.run(GetParam())), ErrorCode::io_error);
        EXPECT_EQ(reads.written, first(at));
        EXPECT_EQ(code_of(looks.run(GetParam())), ErrorCode::corrupt_log);
        EXPECT_EQ(looks.written, first(at));
        EXPECT_EQ(code_of(writes.run(GetParam())), ErrorCode::no_space);
        EXPECT_EQ(writes.written, first(at));
    }
}

TEST_P(CopyStreamSteps, TheEarliestBufferThatFailedGivesTheError) {
    for (int round = 0; round < 50; ++round) {
        Numbers all{.read_fails = 12, .look_fails = 11, .write_fails = 10};
        EXPECT_EQ(code_of(all.run(GetParam())), ErrorCode::no_space);
        Numbers looks{.read_fails = 11, .look_fails = 10};
        EXPECT_EQ(code_of(looks.run(GetParam())), ErrorCode::corrupt_log);
    }
}

// The reader is ahead, and may fail behind the last buffer.
TEST_P(CopyStreamSteps, TheLastBufferIsWrittenAndNothingBehindIt) {
    for (int round = 0; round < 50; ++round) {
        Numbers numbers{.read_fails = 21, .last = 20};
        ASSERT_OK(numbers.run(GetParam()));
        EXPECT_EQ(numbers.looked, first(21));
        EXPECT_EQ(numbers.written, first(21));
    }
}

}  // namespace lockstep::threads::copy_stream_test
