// labels: unit
// write_backoff_test.cc - pauses between failing writes, and the common patience of threads that
// find no frame.
#include "sm/buffer/write_backoff.h"

#include <gtest/gtest.h>

namespace lockstep::sm::write_backoff_test {

constexpr Nanos kTick = kMillisecond;
const Error kWhy{.code = ErrorCode::io_error, .what = "data page"};

// How often a caller that asks every millisecond may write, while each write fails.
int allowed_in(WriteBackoff& backoff, Nanos& now, Nanos time) {
    int allowed = 0;
    for (const Nanos end = now + time; now < end; now += kTick) {
        if (!backoff.allows(now)) continue;
        ++allowed;
        backoff.failed(now, kWhy);
    }
    return allowed;
}

// WB-1.
TEST(WriteBackoffTest, PausesDoubleUpToABound) {
    WriteBackoff backoff;
    Nanos now = kSecond;
    EXPECT_TRUE(backoff.allows(now) && backoff.allows(now));
    backoff.failed(now, kWhy);
    EXPECT_TRUE(backoff.failing());
    EXPECT_FALSE(backoff.allows(now + WriteBackoff::kPauseMin - 1));
    now += WriteBackoff::kPauseMin;
    // 10 + 20 + ... + 640 ms, then once a second.
    EXPECT_EQ(allowed_in(backoff, now, 1270 * kMillisecond), 7);
    EXPECT_LE(allowed_in(backoff, now, 60 * kSecond), 61);
    EXPECT_GE(allowed_in(backoff, now, 60 * kSecond), 59);
    EXPECT_EQ(backoff.error().code, ErrorCode::io_error);
}

TEST(WriteBackoffTest, OneCallerInEachPause) {
    WriteBackoff backoff;
    backoff.failed(kSecond, kWhy);
    backoff.failed(kSecond, kWhy);  // batches that were active together
    const Nanos later = kSecond + WriteBackoff::kPauseMin;
    EXPECT_TRUE(backoff.allows(later));
    EXPECT_FALSE(backoff.allows(later));
    EXPECT_FALSE(backoff.allows(later + 2 * WriteBackoff::kPauseMin - 1));
    EXPECT_TRUE(backoff.allows(later + 2 * WriteBackoff::kPauseMin));
}

TEST(WriteBackoffTest, ASuccessEndsIt) {
    WriteBackoff backoff;
    Nanos now = kSecond;
    backoff.failed(now, kWhy);
    now += WriteBackoff::kPauseMin;
    allowed_in(backoff, now, 10 * kSecond);
    backoff.succeeded();
    EXPECT_TRUE(!backoff.failing() && backoff.allows(now) && backoff.allows(now));
    backoff.failed(now, kWhy);
    EXPECT_TRUE(backoff.allows(now + WriteBackoff::kPauseMin));
}

// WB-2.
TEST(FrameShortageTest, CountsFromTheFirstThreadThatFoundNone) {
    FrameShortage shortage;
    const Nanos first = kSecond;
    EXPECT_EQ(shortage.note(first), first);
    EXPECT_EQ(shortage.note(first + kSecond), first);
    EXPECT_EQ(shortage.note(first + 6 * kSecond), first);
    EXPECT_EQ(shortage.note(first + 7 * kSecond), first);
    shortage.over();
    EXPECT_EQ(shortage.note(first + 8 * kSecond), first + 8 * kSecond);
}

TEST(FrameShortageTest, AnOldOneIsForgotten) {
    FrameShortage shortage;
    EXPECT_EQ(shortage.note(kSecond), kSecond);
    const Nanos later = kSecond + kRoomPatience + 1;
    EXPECT_EQ(shortage.note(later), later);
}

}  // namespace lockstep::sm::write_backoff_test
