// labels: unit
// backup_update_test.cc - full backups that incremental ones bring up to date in place.
#include "sm/backup/backup_manifest.h"
#include "tests/code_of.h"
#include "tests/sm/backup/backup_test_util.h"

namespace lockstep::backup_update_test {

namespace fs = std::filesystem;

class BackupUpdate : public BackupFixture {
protected:
    // A store and its full backup, `full`; its state changes and is backed up as `one`.
    void make_two(Store& store) {
        make(store, "i", "h");
        ASSERT_OK(put(store, 0, 4000, 'a'));
        ASSERT_OK(store.checkpoint());
        const auto full = store.backup(path("full"));
        ASSERT_OK(full);
        at_full_ = index_content(store, "i");
        ASSERT_OK(step(store, *full, "one", 'b'));
        at_one_ = index_content(store, "i");
    }
    // Changes some records, and makes an incremental backup of that name.
    Result<BackupInfo> step(Store& store, const BackupInfo& since, const std::string& name,
                            char letter) {
        const int first = 1000 + letter;
        TRY(put(store, first, first + 20, letter));
        TRY(store.checkpoint());
        TRY(put(store, first + 10, first + 15, 'z'));  // only its log has these
        BackupOptions how;
        how.since = &since;
        return store.backup(path(name), how);
    }
    Result<BackupInfo> update(const std::string& full, const std::string& next) {
        return update_backup(path(full), path(next));
    }
    void flip(const std::string& file, uint64_t at) {
        std::fstream bytes(path(file), std::ios::in | std::ios::out | std::ios::binary);
        bytes.seekg(static_cast<std::streamoff>(at));
        const char was = static_cast<char>(bytes.get());
        bytes.seekp(static_cast<std::streamoff>(at));
        bytes.put(static_cast<char>(was ^ 1));
        ASSERT_TRUE(bytes);
    }

    Content at_full_, at_one_;
};

TEST_F(BackupUpdate, BringsAFullBackupForwardStepByStep) {
    Store store = open("s");
    make_two(store);
    auto last = read_backup(path("one"));
    ASSERT_OK(last);
    copy("full", "kept");
    for (const char* name : {"two", "three", "four"}) {
        const auto made = step(store, *last, name, name[1]);
        ASSERT_OK(made);
        last = made;
    }
    ASSERT_OK(put(store, 4000, 9000, 'n'));  // the volume grows
    const auto made = step(store, *last, "five", 'f');
    ASSERT_OK(made);
    const Content content = index_content(store, "i");
    ASSERT_OK(store.close());
    for (const char* name : {"one", "two", "three", "four", "five"}) {
        const auto info = update("full", name);
        ASSERT_OK(info);
        const auto next = read_backup(path(name));
        ASSERT_OK(next);
        EXPECT_EQ(info->lsn, next->lsn);
        EXPECT_EQ(info->since, kLsnNone);
        EXPECT_EQ(info->pages_copied, info->pages);
        expect_whole("full");
        fs::remove_all(path(name));
    }
    EXPECT_EQ(restored("full"), content);
    const std::string from[] = {path("kept")};
    ASSERT_OK(restore_backup(from, path("r")));
    EXPECT_EQ(restored("r"), at_full_);
}

TEST_F(BackupUpdate, FollowsAVolumeThatShrinks) {
    Store store = open("s");
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 9000, 'a'));
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.create_index(txn, "large"));
        return {};
    }));
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index large = TRY(store.index("large"));
        for (int i = 0; i < 300; ++i) TRY(large.put(txn, key(i), std::string(50'000, 'l')));
        return {};
    }));
    ASSERT_OK(store.checkpoint());
    const auto full = store.backup(path("full"));
    ASSERT_OK(full);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> { return store.drop(txn, "large"); }));
    ASSERT_OK(store.give_back_space());
    const auto made = step(store, *full, "one", 'b');
    ASSERT_OK(made);
    ASSERT_LT(made->pages, full->pages / 2);
    const Content content = index_content(store, "i");
    ASSERT_OK(store.close());
    ASSERT_OK(update("full", "one"));
    EXPECT_EQ(fs::file_size(path("full") + "/data"), made->pages * kPageBytes);
    expect_whole("full");
    EXPECT_EQ(restored("full"), content);
}

TEST_F(BackupUpdate, RepeatedItChangesNothing) {
    Store store = open("s");
    make_two(store);
    ASSERT_OK(store.close());
    const auto first = update("full", "one");
    ASSERT_OK(first);
    const auto again = update("full", "one");
    ASSERT_OK(again);
    EXPECT_EQ(again->lsn, first->lsn);
    expect_whole("full");
    EXPECT_EQ(restored("full"), at_one_);
}

// Both end at the same LSN, because nothing was logged between them. The next one has only what
// changed since the checkpoint that `one` began with.
TEST_F(BackupUpdate, AnIdleStoreDoesNotMakeItDone) {
    Store store = open("s");
    const BackupInfo full = full_with_early_copies(store);
    BackupOptions how;
    how.since = &full;
    const auto one = store.backup(path("one"), how);
    ASSERT_OK(one);
    ASSERT_EQ(one->lsn, full.lsn);
    const auto updated = update("full", "one");
    ASSERT_OK(updated);
    EXPECT_EQ(updated->redo_from, one->redo_from);
    const auto again = update("full", "one");
    ASSERT_OK(again);
    EXPECT_EQ(again->redo_from, one->redo_from);
    ASSERT_OK(put(store, 0, 1, 'c'));
    how.since = &*one;
    ASSERT_OK(store.backup(path("two"), how));
    const Content content = index_content(store, "i");
    ASSERT_OK(store.close());
    ASSERT_OK(update("full", "two"));
    expect_whole("full");
    EXPECT_EQ(restored("full"), content);
}

TEST_F(BackupUpdate, RefusesWhatDoesNotFitAndChangesNothing) {
    Store store = open("s");
    make_two(store);
    const auto one = read_backup(path("one"));
    ASSERT_OK(one);
    ASSERT_OK(step(store, *one, "two", 'w'));
    ASSERT_OK(store.close());
    Store other = open("t");
    make(other, "i", "h");
    ASSERT_OK(put(other, 0, 10, 'o'));
    ASSERT_OK(other.backup(path("of_other")));
    ASSERT_OK(other.close());

    EXPECT_EQ(code_of(update("full", "two")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("full", "full")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("one", "two")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("of_other", "one")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("s", "one")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("full", "no")), ErrorCode::bad_backup);
    EXPECT_EQ(code_of(update("no", "one")), ErrorCode::bad_backup);
    EXPECT_FALSE(fs::exists(path("no")));
    flip("one/pages", 4000);
    const auto damaged = update("full", "one");
    EXPECT_EQ(code_of(damaged), ErrorCode::bad_backup);
    EXPECT_NE(damaged.error().text().find("has a wrong checksum"), std::string::npos);
    expect_whole("full");
    EXPECT_EQ(restored("full"), at_full_);
}

// `full` was opened and went on by itself, and so did the store that it is a backup of.
TEST_F(BackupUpdate, RefusesAnotherHistory) {
    Store store = open("s");
    make_two(store);
    ASSERT_OK(store.close());
    copy("full", "r");
    Store restored_store = open("r");
    for (int round = 0; round < 10; ++round) ASSERT_OK(put(restored_store, 0, 500, 'c'));
    ASSERT_OK(restored_store.checkpoint());
    const auto own = restored_store.backup(path("own"));
    ASSERT_OK(own);
    BackupInfo claimed = *own;
    const auto one = read_backup(path("one"));
    ASSERT_OK(one);
    claimed.lsn = one->lsn;
    claimed.redo_from = one->redo_from;
    BackupOptions how;
    how.since = &claimed;
    ASSERT_OK(restored_store.backup(path("forged"), how));
    ASSERT_OK(restored_store.close());
    ASSERT_OK(update("full", "one"));
    const auto mixed = update("full", "forged");
    ASSERT_FALSE(mixed);
    EXPECT_EQ(code_of(mixed), ErrorCode::bad_backup);
    EXPECT_NE(mixed.error().text().find("of another history"), std::string::npos)
        << mixed.error().text();
    EXPECT_EQ(restored("full"), at_one_);
}

// An incremental backup says nothing of the pages that it has not read. The full one still does.
TEST_F(BackupUpdate, StillKnowsAnOldStateOfAPageThatHasNotChanged) {
    Store store = open("s");
    make(store, "i", "h");
    ASSERT_OK(put(store, 0, 4000, 'a'));
    ASSERT_OK(store.checkpoint());
    ASSERT_OK(store.backup(path("old")));
    ASSERT_OK(put(store, 0, 4000, 'b'));
    ASSERT_OK(store.checkpoint());
    const auto full = store.backup(path("full"));
    ASSERT_OK(full);
    ASSERT_OK(step(store, *full, "one", 'c'));
    ASSERT_OK(store.close());
    ASSERT_OK(update("full", "one"));
    expect_whole("full");
    std::vector<char> page(kPageBytes);
    const auto at = static_cast<std::streamoff>((full->pages / 2) * kPageBytes);
    std::ifstream old(path("old") + "/data", std::ios::binary);
    old.seekg(at);
    old.read(page.data(), kPageBytes);
    ASSERT_TRUE(old);
    {
        std::fstream data(path("full") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        data.seekp(at);
        data.write(page.data(), kPageBytes);
    }
    const auto faults = verify_backup(path("full"));
    ASSERT_OK(faults);
    ASSERT_EQ(faults->size(), 1u);
    EXPECT_NE(faults->front().find("older state"), std::string::npos) << faults->front();
}

}  // namespace lockstep::backup_update_test
