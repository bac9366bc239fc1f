// labels: unit
// backup_pace_test.cc - how fast backups copy, which log they keep for how long, and how they end.
#include <atomic>

#include "sm/store/engine_of.h"
#include "tests/code_of.h"
#include "tests/sm/backup/backup_test_util.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class BackupPace : public BackupFixture {};

TEST_F(BackupPace, KeepsLogUntilItIsCopiedAndNoLonger) {
    Options options = small_options();
    options.log_bytes = 16 << 20;
    options.log_segment_bytes = 1 << 20;
    Store store = open("s", options);
    make(store, "i", "h");
    for (int part = 0; part < 16; ++part)
        ASSERT_OK(put(store, part * 1000, part * 1000 + 1000, 'a'));
    ASSERT_OK(store.checkpoint());
    auto& log = *sm::engine_of(store).log;
    std::atomic<bool> stop{false};
    auto writer = store.start([&]() -> Result<void> {
        for (int turn = 0; !stop; ++turn) {
            TRY(put(store, 0, 300, static_cast<char>('b' + turn % 20), 1000));
            yield();
        }
        return {};
    });
    // Far more log than fits is written while the backup runs, a quarter of it at a time.
    uint64_t written = log.tail().value, most = 0;
    BackupOptions how;
    how.progress = [&](const BackupProgress&) {
        const uint64_t until = log.tail().value + (4 << 20);
        while (log.tail().value < until) sleep_for(kMillisecond);
        most = std::max(most, log.used_bytes());
    };
    const auto info = store.backup(path("b"), how);
    stop = true;
    ASSERT_OK(writer.join());
    written = log.tail().value - written;
    EXPECT_GT(written, 17u << 20);
    ASSERT_OK(info);
    EXPECT_GT(info->log_bytes, 16u << 20);
    EXPECT_LT(most, 16u << 20);
    ASSERT_OK(store.checkpoint());
    EXPECT_LT(log.used_bytes(), 1u << 20);  // the hold is gone
    expect_whole("b");
    const Content then = restored("b");
    EXPECT_EQ(then.size(), 16000u);
    ASSERT_OK(store.close());
    // The backup's log is larger than what this store may use, and still it opens.
    options.log_bytes = 4 << 20;
    options.log_ring_bytes = 1 << 20;
    Store small = open("b", options);
    EXPECT_EQ(index_content(small, "i"), then);
    ASSERT_OK(put(small, 0, 100, 'z', 100));
    expect_sound(small);
    ASSERT_OK(small.close());
}

TEST_F(BackupPace, TakesTheTimeThatItsRateAsksFor) {
    Store store = filled("s", 3000);
    ASSERT_OK(put(store, 0, 2000, 'b'));
    BackupOptions how;
    how.bytes_per_second = 4 << 20;
    const auto info = store.backup(path("b"), how);
    ASSERT_OK(info);
    EXPECT_GT(info->log_bytes, info->bytes / 10) << "too little log to judge";
    EXPECT_GE(static_cast<double>(info->time) / kSecond,
              static_cast<double>(info->bytes - (256 << 10)) / (4 << 20));
    ASSERT_OK(store.close());
}

TEST_F(BackupPace, ASlowOneDoesNotHoldUpTheLog) {
    Options options = small_options();
    options.log_bytes = 16 << 20;
    options.log_segment_bytes = 1 << 20;
    Store store = open("s", options);
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 1000, 'a'));
    std::atomic<bool> running{false};
    Result<BackupInfo> info = fail(ErrorCode::cancelled, "not yet");
    auto backup = store.start([&]() -> Result<void> {
        BackupOptions how;
        how.bytes_per_second = 1000;
        how.progress = [&](const BackupProgress&) { running = true; };
        info = store.backup(path("b"), how);
        return {};
    });
    while (!running) sleep_for(kMillisecond);
    const uint64_t goal = store.stats().log_bytes + 3 * options.log_bytes;
    for (int round = 0; store.stats().log_bytes < goal; ++round)
        ASSERT_OK(put(store, 0, 1000, static_cast<char>('a' + round % 26)));
    ASSERT_OK(store.close());
    EXPECT_EQ(code_of(info), ErrorCode::store_closed) << "it still ran";
}

TEST_F(BackupPace, CloseEndsIt) {
    Store store = filled("s", 3000);
    Result<BackupInfo> info = fail(ErrorCode::cancelled, "not yet");
    std::atomic<bool> running{false};
    auto backup = store.start([&]() -> Result<void> {
        BackupOptions how;
        how.bytes_per_second = 1000;  // would take for hours
        how.progress = [&](const BackupProgress&) { running = true; };
        info = store.backup(path("b"), how);
        return {};
    });
    while (!running) sleep_for(kMillisecond);
    ASSERT_OK(store.close());
    EXPECT_EQ(code_of(info), ErrorCode::store_closed);
    EXPECT_TRUE(fs::is_empty(path("b")));
}

}  // namespace
}  // namespace lockstep
