// labels: unit
// backup_pace_test.cc - how fast backups copy, which log they keep for how long, and how they end.
#include <lockstep/offload.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sm/api/engine_of.h"
#include "tests/code_of.h"
#include "tests/sm/backup/backup_test_util.h"

namespace lockstep::backup_pace_test {

namespace fs = std::filesystem;

class BackupPace : public BackupFixture {
protected:
    static constexpr uint64_t kLogBytes = 16 << 20;

    static Options small_log() {
        Options options = small_options();
        options.log_bytes = kLogBytes;
        options.log_segment_bytes = 1 << 20;
        return options;
    }
    Store open_with_small_log() {
        Store store = open("s", small_log());
        make(store, "i", "h");
        return store;
    }
    // Begins a backup to `b` that would take for hours; its result is in info_.
    void begin_slow_backup(Store& store) {
        std::atomic<bool> running{false};
        slow_ = store.start([&]() -> Result<void> {
            BackupOptions how;
            how.bytes_per_second = 1000;
            how.progress = [&](const BackupProgress&) { running = true; };
            info_ = store.backup(path("b"), how);
            return {};
        });
        while (!running) sleep_for(kMillisecond);
    }

    Handle<void> slow_;
    Result<BackupInfo> info_ = fail(ErrorCode::cancelled, "not yet");
};

TEST_F(BackupPace, KeepsLogUntilItIsCopiedAndNoLonger) {
    Store store = open_with_small_log();
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
        // Not for ever: if a copy took long, the log may be full already.
        for (int ms = 0; ms < 1000 && log.tail().value < until; ++ms) sleep_for(kMillisecond);
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
    Options options = small_log();
    options.log_bytes = 4 << 20;
    options.log_ring_bytes = 1 << 20;
    Store small = open("b", options);
    EXPECT_EQ(index_content(small, "i"), then);
    ASSERT_OK(put(small, 0, 100, 'z', 100));
    expect_sound(small);
    ASSERT_OK(small.close());
}

// Pages and log count. What is written behind the last pause is small here.
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

// The log grows faster than the pace allows, and what is copied for that reason does not count.
TEST_F(BackupPace, EndsAlthoughTheLogGrowsFaster) {
    Store store = open_with_small_log();
    ASSERT_OK(put(store, 0, 3000, 'a'));
    std::atomic<bool> stop{false};
    auto writer = store.start([&]() -> Result<void> {
        for (int round = 0; !stop; ++round)
            TRY(put(store, 0, 1000, static_cast<char>('a' + round % 26)));
        return {};
    });
    BackupOptions how;
    how.bytes_per_second = 2 << 20;
    const auto info = store.backup(path("b"), how);
    stop = true;
    ASSERT_OK(writer.join());
    ASSERT_OK(info);
    const double seconds = static_cast<double>(info->time) / kSecond;
    EXPECT_GT(static_cast<double>(info->log_bytes), 2 * seconds * (2 << 20)) << "the log was slow";
    expect_whole("b");
    ASSERT_OK(store.close());
}

// BK-3: the log goes round three times while a backup copies next to nothing.
TEST_F(BackupPace, ASlowOneDoesNotHoldUpTheLog) {
    Store store = open_with_small_log();
    ASSERT_OK(put(store, 0, 1000, 'a'));
    begin_slow_backup(store);
    const uint64_t goal = store.stats().log_bytes + 3 * kLogBytes;
    auto writer = store.start([&]() -> Result<void> {
        for (int round = 0; store.stats().log_bytes < goal; ++round)
            TRY(put(store, 0, 1000, static_cast<char>('a' + round % 26)));
        return {};
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!writer.ready() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(writer.ready()) << "writers wait for the backup";
    ASSERT_OK(store.close());
    EXPECT_TRUE(writer.join());
    EXPECT_EQ(code_of(info_), ErrorCode::store_closed) << "it had ended";
}

// An application's functions block all kernel threads of offload() meanwhile.
TEST_F(BackupPace, OffloadedFunctionsHoldUpNeitherABackupNorTheArchive) {
    Options options = small_log();
    options.offload_threads = 1;
    options.archive = path("archive");
    Store store = open("s", options);
    make(store, "i", "h");
    std::atomic<bool> blocks{false}, release{false};
    auto blocker = store.start([&]() -> Result<void> {
        return offload([&] {
            blocks = true;
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (!release && std::chrono::steady_clock::now() < until)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            release = true;
        });
    });
    while (!blocks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const uint64_t goal = store.stats().log_bytes + 3 * kLogBytes;
    for (int round = 0; store.stats().log_bytes < goal && !release; ++round)
        ASSERT_OK(put(store, 0, 1000, static_cast<char>('a' + round % 26)));
    const auto info = store.backup(path("b"));
    EXPECT_FALSE(release) << "they waited for it";
    release = true;
    ASSERT_OK(info);
    ASSERT_OK(blocker.join());
    expect_whole("b");
    ASSERT_OK(store.close());
}

TEST_F(BackupPace, CloseEndsIt) {
    Store store = filled("s", 3000);
    begin_slow_backup(store);
    ASSERT_OK(store.close());
    EXPECT_EQ(code_of(info_), ErrorCode::store_closed);
    EXPECT_TRUE(fs::is_empty(path("b")));
}

}  // namespace lockstep::backup_pace_test
