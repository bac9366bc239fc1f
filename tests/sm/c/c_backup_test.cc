// labels: unit
// c_backup_test.cc - the C interface of backups, the log archive, and restores to a point of it.
#include <map>

#include "tests/sm/c/c_util.h"

namespace lockstep::c_backup_test {

class CBackup : public CStore {
protected:
    uint64_t put(lockstep_index* index, const char* value) {
        lockstep_txn* txn = nullptr;
        uint64_t lsn = 0;
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        EXPECT_C(lockstep_put(txn, index, lockstep_text("k"), lockstep_text(value), &error));
        EXPECT_C(lockstep_commit(txn, &lsn, &error));
        return lsn;
    }
    // The value of "k" in the store `name`.
    std::string value_in(const char* name) {
        lockstep_index* index = nullptr;
        lockstep_txn* txn = nullptr;
        open(name);
        EXPECT_C(lockstep_find_index(store, "i", &index, &error));
        EXPECT_C(lockstep_begin(store, nullptr, &txn, &error));
        const std::string value = value_of(txn, index, "k");
        EXPECT_C(lockstep_abort(txn, &error));
        EXPECT_C(lockstep_close(store, &error));
        store = nullptr;
        return value;
    }
    void open_with(const lockstep_options& options, const char* name) {
        ASSERT_C(lockstep_open((root + "/" + name).c_str(), &options, &store, &error));
    }
};

TEST_F(CBackup, Backups) {
    lockstep_index* const index = make_index("i");
    const std::string full = root + "/full", more = root + "/more", to = root + "/to";
    lockstep_backup_info info = {}, later = {};
    info.size = later.size = sizeof info;
    ASSERT_C(lockstep_backup(store, full.c_str(), nullptr, &info, &error));
    EXPECT_TRUE(info.pages > 0 && info.pages_copied == info.pages);
    lockstep_txn* txn = nullptr;
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    ASSERT_C(lockstep_put(txn, index, lockstep_text("k"), lockstep_text("v"), &error));
    ASSERT_C(lockstep_commit(txn, nullptr, &error));
    lockstep_backup_options options;
    lockstep_backup_options_init(&options, sizeof options);
    options.since = &info;
    int calls = 0;
    options.progress = [](void* arg, uint64_t, uint64_t, uint64_t) { ++*static_cast<int*>(arg); };
    options.progress_arg = &calls;
    ASSERT_C(lockstep_backup(store, more.c_str(), &options, &later, &error));
    EXPECT_TRUE(calls > 0 && later.since == info.lsn);
    ASSERT_C(lockstep_read_backup(more.c_str(), &info, &error));
    EXPECT_EQ(info.lsn, later.lsn);
    size_t faults = 1;
    ASSERT_C(lockstep_verify_backup(full.c_str(), nullptr, nullptr, &faults, &error));
    EXPECT_EQ(faults, 0u);
    const char* const both[] = {full.c_str(), more.c_str()};
    std::string told;
    const auto tell = [](void* arg, const char* fault) {
        *static_cast<std::string*>(arg) += fault;
    };
    ASSERT_C(lockstep_verify_restore(both, 2, nullptr, tell, &told, &faults, &error));
    EXPECT_TRUE(faults == 0 && told.empty()) << told;
    const char* const turned[] = {more.c_str(), full.c_str()};
    ASSERT_C(lockstep_verify_restore(turned, 2, nullptr, tell, &told, &faults, &error));
    EXPECT_TRUE(faults > 0 && told.starts_with(more)) << told;
    ASSERT_C(lockstep_restore_backup(both, 2, to.c_str(), nullptr, nullptr, &error));
    ASSERT_C(lockstep_update_backup(full.c_str(), more.c_str(), &info, &error));
    EXPECT_TRUE(info.lsn == later.lsn && info.since == 0);
    struct Sunk {
        size_t bytes = 0, pieces = 0;
        size_t most = 1 << 30;
    } sunk, cut;
    cut.most = 2;
    const auto sink = [](void* arg, const char*, uint64_t, lockstep_slice bytes) {
        auto& s = *static_cast<Sunk*>(arg);
        s.bytes += bytes.size;
        return ++s.pieces < s.most ? 0 : -9;
    };
    ASSERT_C(lockstep_backup_to(store, sink, &sunk, nullptr, nullptr, &error));
    EXPECT_GT(sunk.bytes, 100000u);
    EXPECT_EQ(lockstep_backup_to(store, sink, &cut, nullptr, nullptr, &error), -9);
    ASSERT_C(lockstep_close(store, &error));
    open("to");
    ASSERT_C(lockstep_find_index(store, "i", const_cast<lockstep_index**>(&index), &error));
    ASSERT_C(lockstep_begin(store, nullptr, &txn, &error));
    EXPECT_EQ(value_of(txn, index, "k"), "v");
    ASSERT_C(lockstep_abort(txn, &error));
}

TEST_F(CBackup, RestoresGoToAPointOfTheArchive) {
    ASSERT_C(lockstep_close(store, &error));
    const std::string archive = root + "/archive", full = root + "/full", to = root + "/to";
    lockstep_steps_options steps;
    lockstep_options options = small_options(steps);
    options.archive = archive.c_str();
    options.archive_failure = 1;
    options.archive_backlog_bytes = 8 << 20;
    open_with(options, "archived");
    lockstep_options known = {};
    known.size = sizeof known;
    ASSERT_C(lockstep_get_options(store, &known, nullptr, &error));
    EXPECT_EQ(std::string(known.archive), archive);
    EXPECT_EQ(known.archive_failure, 1);
    EXPECT_EQ(known.archive_backlog_bytes, 8u << 20);

    lockstep_index* const index = make_index("i");
    put(index, "one");
    lockstep_backup_info info = {};
    info.size = sizeof info;
    ASSERT_C(lockstep_backup(store, full.c_str(), nullptr, &info, &error));
    EXPECT_GT(info.ended_at, uint64_t{1} << 60);  // later than 2006
    const uint64_t second = put(index, "two");
    put(index, "three");
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;

    const char* const backups[] = {full.c_str()};
    lockstep_restore_options point;
    lockstep_restore_options_init(&point, sizeof point);
    point.archive = archive.c_str();
    ASSERT_C(lockstep_restore_backup(backups, 1, to.c_str(), &point, &info, &error));
    EXPECT_EQ(value_in("to"), "three");
    point.until = &second;
    ASSERT_C(lockstep_restore_backup(backups, 1, (to + "2").c_str(), &point, &info, &error));
    EXPECT_GE(info.lsn, second);
    EXPECT_EQ(value_in("to2"), "two");
    ASSERT_C(lockstep_restore_backup(backups, 1, (to + "3").c_str(), nullptr, &info, &error));
    EXPECT_EQ(value_in("to3"), "one");
    point.memory_bytes = 1;
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_ARGUMENT);
    point.memory_bytes = 1 << 20;
    const uint64_t never = UINT64_MAX, epoch = 0;
    point.until = &never;
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_ARCHIVE);
    // Zero is a point before the backup, and no choice of the archive's end.
    point.until = &epoch;
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_ARCHIVE);
    point.until = nullptr;
    point.until_time = &epoch;
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_ARCHIVE);
    point.until_time = nullptr;
    point.archive = "";
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_ARGUMENT);
    point.size = 1;
    EXPECT_EQ(lockstep_restore_backup(backups, 1, (to + "4").c_str(), &point, &info, &error),
              LOCKSTEP_BAD_OPTION);
}

// Files of the archive as a sink gets them; the first call of all fails.
struct Archived {
    std::map<std::string, std::string> files;
    int calls = 0;
};
int take_archived(void* arg, const char* file, uint64_t offset, lockstep_slice bytes) {
    auto& archived = *static_cast<Archived*>(arg);
    if (++archived.calls == 1) return -1;
    std::string& content = archived.files[file];
    if (content.size() < offset + bytes.size) content.resize(offset + bytes.size);
    content.replace(offset, bytes.size, static_cast<const char*>(bytes.data), bytes.size);
    return 0;
}

TEST_F(CBackup, ASinkTakesTheArchive) {
    ASSERT_C(lockstep_close(store, &error));
    Archived archived;
    lockstep_steps_options steps;
    lockstep_options options = small_options(steps);
    options.archive_sink = take_archived;
    options.archive_sink_arg = &archived;
    options.archive_interval = 100'000'000;  // the least
    open_with(options, "archived");
    put(make_index("i"), "a value that the archive gets");
    lockstep_stats counted = {};
    counted.size = sizeof counted;
    do {
        lockstep_sleep_for(1'000'000);
        ASSERT_C(lockstep_get_stats(store, &counted, &error));
    } while (counted.archive_pieces == 0);
    EXPECT_GE(counted.archive_failures, 1u);
    EXPECT_GT(counted.archive_bytes, 4096u);
    ASSERT_C(lockstep_close(store, &error));
    store = nullptr;
    bool found = false;
    for (const auto& [file, content] : archived.files)
        found = found || content.find("a value that the archive gets") != std::string::npos;
    EXPECT_TRUE(found);

    options.archive_failure = 2;
    EXPECT_EQ(lockstep_open((root + "/x").c_str(), &options, &store, &error), LOCKSTEP_BAD_OPTION);
    store = nullptr;
}

}  // namespace lockstep::c_backup_test
