// labels: unit
// refused_path_test.cc - a path that cannot be used: the error names it, and says what to do.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>

#include "tests/sm/store_crash_util.h"

namespace lockstep::refused_path_test {

using RefusedPath = StoreCrash;

// The parts that the text of the error must have.
void expect_refused(ErrorCode code, const auto& result, std::initializer_list<std::string> parts) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code);
    const std::string text = result.error().text();
    for (const std::string& part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "no " << part << " in " << text;
}

TEST_F(RefusedPath, OfAnOpen) {
    Options o = small_options(), reading = small_options();
    o.create = false;
    reading.read_only = true;
    expect_refused(ErrorCode::bad_path, Store::open(path("none"), o),
                   {path("none"), "check the path", "option create is off"});
    expect_refused(ErrorCode::bad_path, Store::open(path("none"), reading),
                   {path("none"), "check the path"});
    expect_refused(ErrorCode::bad_path, Store::open(path("no/parent"), small_options()),
                   {path("no/parent"), "No such file"});
    std::ofstream(path("file")) << "text";
    expect_refused(ErrorCode::bad_path, Store::open(path("file"), small_options()),
                   {path("file"), "Not a directory"});
}

TEST_F(RefusedPath, OfAStoreThatIsOpen) {
    const Store store = open("s");
    expect_refused(ErrorCode::store_locked, Store::open(path("s"), small_options()),
                   {path("s"), "is open in"});
    Options reading = small_options();
    reading.read_only = true;
    expect_refused(ErrorCode::store_locked, Store::open(path("s"), reading),
                   {path("s"), "is open in"});
}

TEST_F(RefusedPath, OfOtherFiles) {
    std::filesystem::create_directories(path("logs"));
    std::ofstream(path("logs/log.000001")) << "text";
    expect_refused(ErrorCode::bad_path, Store::open(path("logs"), small_options()),
                   {path("logs/log.000001"), "backup", "another directory"});
    std::filesystem::create_directories(path("odd/data"));
    expect_refused(ErrorCode::bad_path, Store::open(path("odd"), small_options()),
                   {path("odd/data")});
    std::filesystem::create_directories(path("text"));
    std::ofstream(path("text/data")) << std::string(100'000, 'x');
    expect_refused(ErrorCode::corrupt_superblock, Store::open(path("text"), small_options()),
                   {"pages 0 and 1", "restore the store from a backup"});
}

TEST_F(RefusedPath, OfABackupAndARestore) {
    Store store = open("s");
    ASSERT_TRUE(store.backup(path("b")));
    expect_refused(ErrorCode::bad_path, store.backup(path("b")), {path("b"), "empty"});
    expect_refused(ErrorCode::bad_path, store.backup(path("no/parent")), {path("no/parent")});
    const std::vector<std::string> backups{path("b")};
    expect_refused(ErrorCode::bad_path, restore_backup(backups, path("b")),
                   {path("b"), "lies in what is restored", "name a new or an empty directory"});
    expect_refused(ErrorCode::bad_path, restore_backup(backups, path("s")),
                   {path("s"), "not empty", "name a new or an empty one"});
}

TEST_F(RefusedPath, OfATargetWithinTheStore) {
    Store store = open("s");
    for (const char* target : {"s", "s/b", "s/../s/b", "none/../s/b"})
        expect_refused(ErrorCode::bad_path, store.backup(path(target)),
                       {path(target), "in the store's directory"});
    EXPECT_FALSE(std::filesystem::exists(path("s/b")));
    ASSERT_OK(store.backup(path("sb")));
}

TEST_F(RefusedPath, WithAZeroByte) {
    const std::string cut = path("cut");
    // From a short place: the text is cut, and TMPDIR may be long.
    expect_refused(ErrorCode::bad_path,
                   Store::open(std::string("/proc/cut") + '\0' + "x", small_options()),
                   {"zero byte", "cut\\x00x"});
    EXPECT_FALSE(Store::open(cut + '\0' + "x", small_options()));
    EXPECT_FALSE(std::filesystem::exists(cut));
}

TEST_F(RefusedPath, OfAChainOfBackups) {
    Store store = open("s"), other = open("other");
    const auto full = store.backup(path("full"));
    ASSERT_TRUE(full);
    BackupOptions since;
    since.since = &*full;
    ASSERT_TRUE(store.backup(path("first"), since));
    ASSERT_TRUE(store.backup(path("second")));
    ASSERT_TRUE(other.backup(path("foreign")));
    const auto restored = [&](std::initializer_list<std::string> names) {
        std::vector<std::string> backups;
        for (const std::string& name : names) backups.push_back(path(name));
        return restore_backup(backups, path("to"));
    };
    expect_refused(ErrorCode::bad_backup, restored({"missing"}), {path("missing")});
    const std::vector<std::string> empty{""};
    expect_refused(ErrorCode::bad_backup, restore_backup(empty, path("to")), {"no backup"});
    expect_refused(ErrorCode::bad_backup, restored({"first"}), {path("first"), "a full one"});
    expect_refused(ErrorCode::bad_backup, restored({"full", "second"}), {path("second")});
    expect_refused(ErrorCode::bad_backup, restored({"foreign", "first"}), {path("first")});
    const auto updated = [&](const char* backup, const char* next) {
        return update_backup(path(backup), path(next));
    };
    expect_refused(ErrorCode::bad_backup, updated("missing", "first"), {path("missing")});
    expect_refused(ErrorCode::bad_backup, updated("full", "missing"), {path("missing")});
    expect_refused(ErrorCode::bad_backup, updated("first", "first"), {path("first"), "full"});
    expect_refused(ErrorCode::bad_backup, updated("full", "second"),
                   {path("second"), "incremental"});
    expect_refused(ErrorCode::bad_backup, updated("foreign", "first"), {path("first")});
    std::fstream(path("full/backup"), std::ios::in | std::ios::out) << "damage";
    expect_refused(ErrorCode::bad_backup, restored({"full"}), {path("full/backup"), "is damaged"});
}

// A directory that is gone makes no segment: the log is not full, and the error says so.
TEST_F(RefusedPath, OfADeletedDirectory) {
    Options o = small_options();
    o.log_segment_bytes = 1 << 20;
    Store store = open("s", o);
    const auto rows = store.run([&](Txn& txn) { return store.create_index(txn, "rows"); });
    ASSERT_OK(rows);
    std::filesystem::remove_all(path("s"));
    const std::string value(2000, 'v');
    Result<void> last;
    for (uint64_t n = 0; last && n < 100'000; n += 100)
        last = store.run([&](Txn& txn) -> Result<void> {
            for (uint64_t i = n; i < n + 100; ++i) TRY(rows->insert(txn, Key().u64(i), value));
            return {};
        });
    expect_refused(ErrorCode::bad_path, last, {path("s"), "log segment", "No such file"});
    EXPECT_NE(store.stats().commits, 0u);
}

// RS-4.
TEST_F(RefusedPath, OfARestoreBesideAnother) {
    Store store = open("s");
    ASSERT_TRUE(store.backup(path("b")));
    const std::vector<std::string> backups{path("b")};
    std::filesystem::create_directories(path("to"));
    const int other = ::open(path("to/backup").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_GE(other, 0);
    ASSERT_EQ(flock(other, LOCK_EX), 0);  // as a restore that is at work
    std::ofstream(path("to/data")) << "half";
    expect_refused(ErrorCode::store_locked, restore_backup(backups, path("to")),
                   {path("to"), "another one works"});
    EXPECT_TRUE(std::filesystem::exists(path("to/data")));
    ::close(other);
    ASSERT_TRUE(restore_backup(backups, path("to")));  // what was cut off is begun again
    ASSERT_OK(store.close());
}

}  // namespace lockstep::refused_path_test
