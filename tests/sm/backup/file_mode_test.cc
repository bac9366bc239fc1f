// labels: unit
// file_mode_test.cc - permissions and owners of all files of a store, its archive, its backups and
// their restores, whatever the umask and the user of the process that makes them.
#include <lockstep/backup.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sm/backup/backup_test_util.h"

namespace lockstep::file_mode_test {

namespace fs = std::filesystem;

class FileMode : public BackupFixture {
protected:
    struct Rights {
        unsigned files, directories, user;
        bool operator==(const Rights&) const = default;
    };
    Options options(uint32_t mode, mode_t mask) {
        umask(mask);
        Options o = small_options();
        o.file_mode = mode;
        o.archive = path("archive");
        return o;
    }
    void SetUp() override {
        BackupFixture::SetUp();
        umask_ = umask(022);
    }
    void TearDown() override {
        umask(umask_);
        BackupFixture::TearDown();
    }
    // Of everything below; each path that differs is a failure. How many files there are.
    size_t expect_all(const std::string& name, const Rights& wanted) const {
        size_t files = 0;
        std::vector<fs::path> all{path(name)};
        for (const auto& entry : fs::recursive_directory_iterator(path(name)))
            all.push_back(entry.path());
        for (const fs::path& one : all) {
            struct stat status {};
            EXPECT_EQ(::stat(one.c_str(), &status), 0) << one;
            const bool directory = S_ISDIR(status.st_mode);
            EXPECT_EQ(status.st_mode & 0777, directory ? wanted.directories : wanted.files) << one;
            EXPECT_EQ(status.st_uid, wanted.user) << one;
            files += !directory;
        }
        return files;
    }
    // A store whose log has gone round, so that segments, archive and marks were made after the
    // open.
    void work(const Options& with) {
        Store store = open("s", with);
        if (!store.index("i")) make(store, "i", "h");
        for (char letter = 'a'; letter < 'e'; ++letter) {
            ASSERT_OK(put(store, 0, 2000, letter, 2500));
            ASSERT_OK(store.checkpoint());
        }
        ASSERT_OK(store.backup(path("full" + std::to_string(++backups_))));
        ASSERT_OK(store.close());
    }
    void restore() {
        const std::vector<std::string> chain{path("full1")};
        RestoreOptions how;
        const std::string archive = path("archive");
        how.archive = archive;
        ASSERT_OK(restore_backup(chain, path("restored"), how));
    }

    mode_t umask_ = 0;
    int backups_ = 0;
};

TEST_F(FileMode, FilesAreForTheirOwnerAlone) {
    ASSERT_NO_FATAL_FAILURE(work(options(Options{}.file_mode, 0)));
    ASSERT_NO_FATAL_FAILURE(restore());
    const Rights own{0600, 0700, geteuid()};
    EXPECT_GT(expect_all("s", own), 4u);
    for (const char* name : {"archive", "full1", "restored"}) EXPECT_GT(expect_all(name, own), 2u);
}

TEST_F(FileMode, OrForWhomTheStoresFirstFileIs) {
    ASSERT_NO_FATAL_FAILURE(work(options(0640, 077)));
    ASSERT_NO_FATAL_FAILURE(work(options(0600, 0)));  // an existing store keeps its own
    ASSERT_NO_FATAL_FAILURE(restore());
    const Rights group{0640, 0750, geteuid()};
    for (const char* name : {"s", "archive", "full1", "full2", "restored"})
        EXPECT_GT(expect_all(name, group), 2u) << name;
}

// An operator's tool runs as root; the store's own user must be able to open what it leaves.
TEST_F(FileMode, RootLeavesFilesOfTheStoresOwner) {
    if (geteuid() != 0) GTEST_SKIP() << "needs the rights of root";
    constexpr uid_t kNobody = 65534;
    ASSERT_NO_FATAL_FAILURE(work(options(0600, 022)));
    for (const char* name : {"s", "archive", "full1"}) {
        ASSERT_EQ(::chown(path(name).c_str(), kNobody, kNobody), 0);
        for (const auto& entry : fs::recursive_directory_iterator(path(name)))
            ASSERT_EQ(::chown(entry.path().c_str(), kNobody, kNobody), 0);
    }
    ASSERT_NO_FATAL_FAILURE(work(options(0600, 022)));
    ASSERT_NO_FATAL_FAILURE(restore());
    const Rights nobody{0600, 0700, kNobody};
    for (const char* name : {"s", "archive", "full2", "restored"})
        EXPECT_GT(expect_all(name, nobody), 2u) << name;
}

}  // namespace lockstep::file_mode_test
