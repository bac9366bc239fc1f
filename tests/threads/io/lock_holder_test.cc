// lock_holder_test.cc - the process that holds a file's lock.
#include "threads/io/lock_holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lockstep::lock_holder_test {

using threads::lock_holder;

class LockHolder : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/lock-holder-XXXXXX";
        file_ = mkstemp(name);
        ASSERT_GE(file_, 0);
        path_ = name;
        const int other = open(path_.c_str(), O_RDWR);
        ASSERT_GE(other, 0);
        ASSERT_EQ(flock(other, LOCK_EX), 0);
        told_ = table_has_file();
        close(other);
    }
    void TearDown() override {
        close(file_);
        std::filesystem::remove(path_);
    }

    // By the table's own text, so that a lookup that finds nothing fails the tests below.
    bool table_has_file() const {
        struct stat file {};
        EXPECT_EQ(fstat(file_, &file), 0);
        std::ifstream table("/proc/locks");
        const std::string text(std::istreambuf_iterator<char>(table), {});
        return text.find(":" + std::to_string(file.st_ino) + " ") != std::string::npos;
    }

    int file_ = -1;
    std::string path_;
    bool told_ = false;  // this system tells who holds a lock of such a file
};

TEST_F(LockHolder, AFreeFileHasNone) { EXPECT_FALSE(lock_holder(file_)); }

TEST_F(LockHolder, ThisProcess) {
    if (!told_) GTEST_SKIP() << "/proc/locks does not tell";
    for (const int mode : {LOCK_EX, LOCK_SH}) {
        ASSERT_EQ(flock(file_, mode), 0);
        const auto holder = lock_holder(file_);
        ASSERT_TRUE(holder);
        EXPECT_EQ(holder->pid, getpid());
        EXPECT_EQ(holder->exclusive, mode == LOCK_EX);
        EXPECT_EQ(holder->text(), "this process");
    }
}

TEST_F(LockHolder, AnotherProcessByNumberAndName) {
    if (!told_) GTEST_SKIP() << "/proc/locks does not tell";
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const int own = open(path_.c_str(), O_RDWR);
        const char answer = flock(own, LOCK_EX) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &answer, 1);
        for (;;) pause();
    }
    ASSERT_GT(child, 0);
    char answer = 0;
    ASSERT_EQ(read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    const auto holder = lock_holder(file_);
    EXPECT_TRUE(holder && holder->exclusive);
    const std::string text = holder ? holder->text() : "";
    // The kernel keeps 15 characters of a name.
    const std::string name = std::string(program_invocation_short_name).substr(0, 15);
    EXPECT_EQ(text.find("process " + std::to_string(child) + " (" + name), 0u) << text;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
}

}  // namespace lockstep::lock_holder_test
