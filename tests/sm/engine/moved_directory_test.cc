// labels: unit
// moved_directory_test.cc - names move under an open store: its directory is moved or replaced, a
// symbolic link is repointed, the process changes its directory. The store goes on in its own
// directory, and another store with its old name stays as it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <lockstep/backup.h>
#include <lockstep/store.h>
#include "tests/own_directory.h"

namespace lockstep::moved_directory_test {

namespace fs = std::filesystem;

constexpr int kCommits = 100;
constexpr size_t kValueBytes = 60'000;

// The directories a/db and b/db have a store each. The process is in a, and opens a/db.
class MovedDirectory : public ::testing::Test {
protected:
    MovedDirectory() : root_(make_own_directory("moved")), before_(fs::current_path()) {
        for (const char* side : {"a", "b"}) {
            fs::create_directories(root_ / side);
            fs::current_path(root_ / side);
            Store made = *Store::open("db", options());
            put(made, side, 0, 10);
            EXPECT_TRUE(made.close());
        }
        fs::current_path(root_ / "a");
    }
    ~MovedDirectory() override {
        fs::current_path(before_);
        fs::remove_all(root_);
    }

    static Options options() {
        return {.pool_bytes = 4 << 20, .log_bytes = 4 << 20, .log_segment_bytes = 1 << 20};
    }
    static void put(Store& store, const std::string& of, int from, int to) {
        for (int n = from; n < to; ++n) {
            const Result<void> done = store.run([&](Txn& txn) -> Result<void> {
                const Index rows = LOCKSTEP_TRY(store.open_or_create_index(txn, "rows"));
                return rows.put(txn, of + std::to_string(n), std::string(kValueBytes, 'v'));
            });
            ASSERT_TRUE(done) << n << ": " << done.error().text();
        }
    }
    // The store is sound, and has the rows of `of` and no others.
    static void expect_rows(const fs::path& path, const std::string& of, int rows) {
        Result<Store> store = Store::open(path.string(), options());
        ASSERT_TRUE(store) << path << ": " << store.error().text();
        int found = 0;
        const Result<void> done = store->run([&](Txn& txn) -> Result<void> {
            const Index index = LOCKSTEP_TRY(store->index("rows"));
            found = 0;
            for (Cursor c = index.scan(txn); LOCKSTEP_TRY(c.next()); ++found)
                EXPECT_TRUE(c.key().starts_with(of)) << c.key();
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
        EXPECT_EQ(found, rows) << path;
        const auto faults = store->verify();
        ASSERT_TRUE(faults) << faults.error().text();
        EXPECT_TRUE(faults->empty()) << faults->front();
        EXPECT_TRUE(store->close());
    }
    static std::map<std::string, std::string> contents(const fs::path& path) {
        std::map<std::string, std::string> files;
        for (const auto& entry : fs::directory_iterator(path)) {
            std::ifstream file(entry.path(), std::ios::binary);
            files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
        }
        return files;
    }
    // Works after the move, with all that takes or gives log: the log turns over several times.
    void work(Store& store, const fs::path& own, const fs::path& other) {
        const auto before = contents(other);
        put(store, "a", 10, kCommits);
        EXPECT_TRUE(store.checkpoint());
        EXPECT_TRUE(store.close());
        EXPECT_FALSE(store.failure());
        EXPECT_TRUE(before == contents(other)) << "files of the other store have changed";
        expect_rows(own, "a", kCommits);
        expect_rows(other, "b", 10);
    }

    const fs::path root_, before_;
};

TEST_F(MovedDirectory, ProcessChangesItsDirectory) {
    Store store = *Store::open("db", options());
    fs::current_path(root_ / "b");
    work(store, root_ / "a/db", root_ / "b/db");
}

TEST_F(MovedDirectory, AnotherStoreTakesTheName) {
    Store store = *Store::open((root_ / "a/db").string(), options());
    fs::rename(root_ / "a/db", root_ / "a/old");
    fs::rename(root_ / "b/db", root_ / "a/db");
    work(store, root_ / "a/old", root_ / "a/db");
}

TEST_F(MovedDirectory, ParentIsMoved) {
    Store store = *Store::open((root_ / "a/db").string(), options());
    fs::rename(root_ / "a", root_ / "c");
    fs::rename(root_ / "b", root_ / "a");
    work(store, root_ / "c/db", root_ / "a/db");
}

TEST_F(MovedDirectory, LinkIsRepointed) {
    fs::create_directory_symlink(root_ / "a/db", root_ / "link");
    Store store = *Store::open((root_ / "link").string(), options());
    fs::remove(root_ / "link");
    fs::create_directory_symlink(root_ / "b/db", root_ / "link");
    work(store, root_ / "a/db", root_ / "b/db");
}

// The name alone is free: the next store there is made anew.
TEST_F(MovedDirectory, LocksFollowTheDirectory) {
    Store store = *Store::open((root_ / "a/db").string(), options());
    fs::rename(root_ / "a/db", root_ / "a/old");
    const auto second = Store::open((root_ / "a/old").string(), options());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::store_locked);
    EXPECT_NE(second.error().text().find((root_ / "a/old").string()), std::string::npos);
    Store fresh = *Store::open((root_ / "a/db").string(), options());
    put(fresh, "f", 0, 10);
    put(store, "a", 10, 20);
    EXPECT_TRUE(store.close());
    put(fresh, "f", 10, 20);
    EXPECT_TRUE(fresh.close());
    expect_rows(root_ / "a/db", "f", 20);
    expect_rows(root_ / "a/old", "a", 20);
}

TEST_F(MovedDirectory, RemovedDirectoryIsNamedByTheError) {
    Options few = options();
    std::string said;
    few.logger = [&](int, std::string_view text) { said += std::string(text) + "\n"; };
    Store store = *Store::open("db", few);
    fs::remove_all(root_ / "a/db");
    fs::create_directory(root_ / "a/db");
    bool failed = false;
    for (int n = 0; n < kCommits && !failed; ++n)
        failed = !store.run([&](Txn& txn) -> Result<void> {
            const Index rows = LOCKSTEP_TRY(store.index("rows"));
            return rows.put(txn, "x" + std::to_string(n), std::string(kValueBytes, 'v'));
        });
    EXPECT_TRUE(failed);
    (void)store.close();
    EXPECT_TRUE(fs::is_empty(root_ / "a/db"));
    EXPECT_NE(said.find("db (deleted)"), std::string::npos) << said;
}

// Relative names of archive and backup mean the process's directory at open and at the call.
TEST_F(MovedDirectory, ArchiveAndBackupKeepTheirPlace) {
    Options with = options();
    with.archive = "archive";
    with.archive_interval = 100 * kMillisecond;
    Store store = *Store::open("db", with);
    fs::current_path(root_ / "b");
    put(store, "a", 10, 50);
    EXPECT_TRUE(store.backup("full"));  // in b
    fs::rename(root_ / "a/archive", root_ / "a/kept");
    fs::rename(root_ / "a/db", root_ / "a/old");
    put(store, "a", 50, 120);
    EXPECT_TRUE(store.close());
    EXPECT_FALSE(fs::exists(root_ / "a/archive"));
    EXPECT_FALSE(fs::exists(root_ / "b/archive"));
    const std::string full[] = {"full"};
    const auto restored =
        restore_backup(full, "restored", {.archive = (root_ / "a/kept").string()});
    ASSERT_TRUE(restored) << restored.error().text();
    expect_rows(root_ / "b/restored", "a", 120);
    expect_rows(root_ / "a/old", "a", 120);
}

// The archive's directory is removed and made again: nothing is written to the old one, and the
// new one becomes an archive.
TEST_F(MovedDirectory, ArchiveIsMadeAgain) {
    Options with = options();
    with.archive = (root_ / "archive").string();
    Store store = *Store::open("db", with);
    fs::remove_all(root_ / "archive");
    fs::create_directory(root_ / "archive");
    for (int n = 0; n < 500 && !fs::exists(root_ / "archive/archive"); ++n) {
        (void)store.run([&](Txn& txn) -> Result<void> {  // may be refused while the archive fails
            return LOCKSTEP_TRY(store.index("rows")).put(txn, "a0", std::string(kValueBytes, 'w'));
        });
        usleep(20'000);
    }
    EXPECT_TRUE(fs::exists(root_ / "archive/archive"));
    EXPECT_TRUE(store.close());
}

TEST_F(MovedDirectory, BackupIntoTheMovedStoreIsRefused) {
    Store store = *Store::open("db", options());
    fs::rename(root_ / "a/db", root_ / "a/old");
    const auto refused = store.backup((root_ / "a/old/copy").string());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::bad_path);
    EXPECT_TRUE(store.backup((root_ / "a/db/copy").string()).error().code ==
                ErrorCode::bad_path);  // its parent is missing
    EXPECT_TRUE(store.close());
}

// The socket is removed where it was made, and another store's stays.
TEST_F(MovedDirectory, ControlSocketFollows) {
    Options with = options();
    with.control = true;
    Store store = *Store::open("db", with);
    fs::rename(root_ / "a/db", root_ / "a/old");
    fs::rename(root_ / "b/db", root_ / "a/db");
    Store other = *Store::open("db", with);
    EXPECT_TRUE(store.close());
    EXPECT_FALSE(fs::exists(root_ / "a/old/control"));
    EXPECT_TRUE(fs::exists(root_ / "a/db/control"));
    EXPECT_TRUE(other.close());
    EXPECT_FALSE(fs::exists(root_ / "a/db/control"));
}

}  // namespace lockstep::moved_directory_test
