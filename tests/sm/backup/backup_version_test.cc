// labels: sim
// backup_version_test.cc - backups and archives of another version are refused by their name, and
// what a restore makes has the version of today.
#include "sm/backup/backup_manifest.h"
#include "sm/backup/update_backup.h"
#include "tests/sm/backup/archive_test_util.h"
#include "tests/sm/backup/forge.h"

namespace lockstep::backup_version_test {

using threads::SimDisk;

constexpr size_t kStoreVersion =
    offsetof(sm::BackupManifest, superblock) + offsetof(sm::Superblock, version);

class BackupVersion : public ::testing::Test {
protected:
    BackupVersion() : disk_({.seed = 1}), store_(disk_) { archive_options(store_.options()); }
    void make() {
        ASSERT_OK(store_.open());
        store_.on_thread([&] { commits_.with_two_backups(*store_, rng_, 50); });
        ASSERT_OK(store_.close());
    }
    static void expect_bad_version(const auto& result, std::initializer_list<std::string> says) {
        EXPECT_EQ(code_of(result), ErrorCode::bad_version) << text_of(result);
        for (const std::string& text : says)
            EXPECT_NE(text_of(result).find(text), std::string::npos) << text_of(result);
    }
    // Every call that reads the backup in `directory` refuses it, and leaves it as it is.
    void expect_refused(const std::string& directory, std::initializer_list<std::string> says) {
        const std::string chain[] = {"/full", "/next"};
        expect_bad_version(sm::read_manifest(disk_, directory), says);
        expect_bad_version(sm::restore_on(disk_, chain, "/restored"), says);
        expect_bad_version(restore_to(disk_, directory, {}), says);
        expect_bad_version(sm::update_on(disk_, "/full", "/next"), says);
        SimStore opened(disk_, 3);
        expect_bad_version(opened.open(directory), says);
        EXPECT_FALSE(disk_.exists("/restored/data"));
        EXPECT_FALSE(disk_.exists("/full/backup.before"));
        EXPECT_TRUE(disk_.exists(directory + "/backup"));
    }

    SimDisk disk_;
    SimStore store_;
    Rng rng_{1};
    Commits commits_;
};

TEST_F(BackupVersion, OfAStoreOfAnotherFormat) {
    make();
    for (const std::string directory : {"/full", "/next"}) {
        const std::string file = directory + "/backup";
        forge(disk_, file, kStoreVersion, sm::kFormatVersion + 1);
        expect_refused(directory, {file, "format version " + std::to_string(sm::kFormatVersion + 1),
                                   "use a newer program"});
        forge(disk_, file, kStoreVersion, sm::kFormatVersionOldest - 1);
        expect_refused(directory,
                       {file, "format version " + std::to_string(sm::kFormatVersionOldest - 1),
                        "the program that made it"});
        forge(disk_, file, kStoreVersion, sm::kFormatVersion);
    }
    EXPECT_EQ(code_of(restore_to(disk_, "/full", {})), ErrorCode::none);
}

TEST_F(BackupVersion, OfAFileBackupOfAnotherVersion) {
    make();
    for (const std::string directory : {"/full", "/next"}) {
        const std::string file = directory + "/backup";
        forge(disk_, file, offsetof(sm::BackupManifest, version), sm::kManifestVersion + 1);
        expect_refused(directory, {file, "version " + std::to_string(sm::kManifestVersion + 1)});
        forge(disk_, file, offsetof(sm::BackupManifest, version), sm::kManifestVersion);
    }
}

// The version of the store may have been raised between the backup and the log of the archive.
TEST_F(BackupVersion, ARestoreWithAnArchiveHasTheVersionOfToday) {
    make();
    forge(disk_, "/full/backup", kStoreVersion, sm::kFormatVersionOldest);
    ASSERT_OK(restore_to(disk_, "/full", {}));
    const auto file = disk_.open("/restored/data", 0);
    ASSERT_OK(file);
    const auto block = sm::read_superblock(disk_, *file);
    disk_.close(*file);
    ASSERT_OK(block);
    EXPECT_EQ(block->version, sm::kFormatVersion);
    EXPECT_EQ(opened(disk_, "/restored"), commits_.at(kLsnMax));
}

TEST_F(BackupVersion, OfAnArchive) {
    make();
    constexpr size_t kVersion = offsetof(sm::ArchiveHeader, version);
    const auto refused = [&](const std::string& name) {
        const std::string file = std::string(kArchive) + "/" + name;
        forge(disk_, file, kVersion, sm::kArchiveVersion + 1);
        expect_bad_version(restore_to(disk_, "/full", {}), {file, "version 2"});
        if (name == sm::kArchiveName) {  // an open would write beside it
            const auto again = store_.open();
            expect_bad_version(again, {file, "version 2"});
            if (again) ASSERT_OK(store_.close());
        }
        forge(disk_, file, kVersion, sm::kArchiveVersion);
    };
    refused(sm::kArchiveName);
    int pieces = 0;
    for (const std::string& name : names_in(disk_, kArchive)) {
        if (!sm::PieceName::parse(name)) continue;
        refused(name);
        ++pieces;
    }
    EXPECT_EQ(pieces, 1);
    EXPECT_EQ(code_of(restore_to(disk_, "/full", {})), ErrorCode::none);
    ASSERT_OK(store_.open());
    ASSERT_OK(store_.close());
}

}  // namespace lockstep::backup_version_test
