// labels: unit
// process_limits_test.cc - a store in a process that may have few descriptors, short files or
// little address space. It opens, or an error names what is missing. Later it opens as ever.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "threads/base/sanitized.h"

namespace lockstep::process_limits_test {

class ProcessLimits : public ::testing::Test {
protected:
    ProcessLimits() : directory_(make_own_directory("limits")) {}
    ~ProcessLimits() override { std::filesystem::remove_all(directory_); }
    void SetUp() override {
        if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs addresses and descriptors";
    }

    static Options small() {
        return {.pool_bytes = 4 << 20, .log_bytes = 4 << 20, .lock_table_bytes_log2 = 16};
    }
    static Result<void> put(Store& store, int n) {
        return store.run([&](Txn& txn) -> Result<void> {
            const Index rows = LOCKSTEP_TRY(store.open_or_create_index(txn, "rows"));
            return rows.put(txn, std::to_string(n), std::string(60'000, 'v'));
        });
    }
    std::string path() const { return directory_ + "/db"; }
    // Runs fn in a child, whose limits end with it. fn says what is wrong, or nothing.
    static void in_child(const std::function<std::string()>& fn) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const std::string wrong = fn();
            if (!wrong.empty()) fprintf(stderr, "%s\n", wrong.c_str());
            _exit(wrong.empty() ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
        EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    // Of this process: lowers the soft limit.
    static void limit(__rlimit_resource which, rlim_t value) {
        rlimit now{};
        getrlimit(which, &now);
        now.rlim_cur = std::min(value, now.rlim_max);
        setrlimit(which, &now);
    }
    static uint64_t addresses() {
        uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    }

    const std::string directory_;
};

TEST_F(ProcessLimits, FewDescriptors) {
    in_child([&]() -> std::string {
        const int used = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (int n = 0; n <= 20; ++n) {
            rlimit before{};
            getrlimit(RLIMIT_NOFILE, &before);
            limit(RLIMIT_NOFILE, static_cast<rlim_t>(used + n));
            {
                Result<Store> store = Store::open(path(), small());
                if (!store && store.error().code != ErrorCode::too_many)
                    return std::to_string(n) + " descriptors: " + store.error().text();
            }
            setrlimit(RLIMIT_NOFILE, &before);
            Result<Store> again = Store::open(path(), small());
            if (!again) return "after " + std::to_string(n) + ": " + again.error().text();
            if (const auto done = put(*again, n); !done) return done.error().text();
            if (const auto closed = again->close(); !closed) return closed.error().text();
        }
        return "";
    });
}

// The signal's default action would end the process.
TEST_F(ProcessLimits, ShortFiles) {
    for (const IoMethod io : {IoMethod::pool, IoMethod::automatic}) {
        in_child([&]() -> std::string {
            signal(SIGXFSZ, SIG_DFL);
            Options options = small();
            options.io = io;
            options.logger = nullptr;  // each failed checkpoint is told
            for (const rlim_t bytes : {rlim_t{0}, rlim_t{100'000}, rlim_t{3 << 20}}) {
                rlimit before{};
                getrlimit(RLIMIT_FSIZE, &before);
                limit(RLIMIT_FSIZE, bytes);
                Result<Store> store = Store::open(path(), options);
                Result<void> done;
                for (int n = 0; store && done && n < 200; ++n) done = put(*store, n);
                if (store && done) return "no error at " + std::to_string(bytes);
                if (store) (void)store->close();
                setrlimit(RLIMIT_FSIZE, &before);
                Result<Store> again = Store::open(path(), options);
                if (!again) return "after " + std::to_string(bytes) + ": " + again.error().text();
                if (const auto put_again = put(*again, 0); !put_again)
                    return put_again.error().text();
            }
            return "";
        });
    }
}

TEST_F(ProcessLimits, LittleAddressSpace) {
    in_child([&]() -> std::string {
        limit(RLIMIT_AS, addresses() + (700ull << 20));
        Result<Store> store = Store::open(path(), small());
        if (!store) return store.error().text();
        for (int n = 0; n < 100; ++n)
            if (const auto done = put(*store, n); !done) return done.error().text();
        return "";
    });
    in_child([&]() -> std::string {
        limit(RLIMIT_AS, addresses() + (100ull << 20));
        const Result<Store> store = Store::open(path(), small());
        if (store) return "";  // it needs little more than its stacks
        const std::string text = store.error().text();
        return store.error().code == ErrorCode::out_of_memory && text.contains("ulimit") ? ""
                                                                                         : text;
    });
}

TEST_F(ProcessLimits, LittleData) {
    in_child([&]() -> std::string {
        limit(RLIMIT_DATA, 512ull << 20);
        Result<Store> store = Store::open(path(), small());
        if (!store) return store.error().text();
        for (int n = 0; n < 100; ++n)
            if (const auto done = put(*store, n); !done) return done.error().text();
        return "";
    });
}

}  // namespace lockstep::process_limits_test
