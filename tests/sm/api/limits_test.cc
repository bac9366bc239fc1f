// labels: unit
// limits_test.cc - the system says no: a full file system, little memory, refused
// io_uring. Clear errors, nothing lost, and work goes on.
//
// The full file system is a small tmpfs, which takes the right to mount; without it that test says
// so and is skipped.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "tests/end_child.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::limits_test {

class Limits : public StoreCrash {
protected:
    static Options tiny_options() {
        Options o = small_options();
        o.pool_bytes = 4 << 20;
        o.log_bytes = 8 << 20;
        o.log_segment_bytes = 1 << 20;
        o.log_ring_bytes = 1 << 20;
        o.sync = false;
        o.logger = {};
        return o;
    }
};

// A file system of its own, gone with the object.
class SmallFileSystem {
public:
    SmallFileSystem(std::string at, const char* size) : at_(std::move(at)) {
        std::filesystem::create_directory(at_);
        mounted_ =
            mount("tmpfs", at_.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
    }
    ~SmallFileSystem() {
        if (mounted_) umount2(at_.c_str(), MNT_DETACH);
    }
    bool mounted() const { return mounted_; }

private:
    std::string at_;
    bool mounted_ = false;
};

bool means_full(ErrorCode code) {
    return code == ErrorCode::no_space || code == ErrorCode::log_full ||
           code == ErrorCode::pool_full;
}

std::string row(int n) { return std::string(900, static_cast<char>('a' + n % 26)); }

// Inserts until nothing goes any more; what was committed is counted.
Result<void> insert_batch(Store& store, const Index& index, int from, int count) {
    return store.run(
        [&](Txn& txn) -> Result<void> {
            for (int n = from; n < from + count; ++n)
                TRY(index.insert(txn, Key().u32(static_cast<uint32_t>(n)), row(n)));
            return {};
        },
        {.durability = Durability::lazy});
}

int count_rows(Store& store, const Index& index) {
    int rows = 0;
    const auto read = store.run([&](Txn& txn) -> Result<void> {
        rows = 0;
        for (Cursor c = index.scan(txn); TRY(c.next()); ++rows) EXPECT_EQ(c.value(), row(rows));
        return {};
    });
    EXPECT_TRUE(read) << read.error().text();
    return rows;
}

TEST_F(Limits, FullFileSystem) {
    const SmallFileSystem disk(path("small"), "40m");
    if (!disk.mounted()) GTEST_SKIP() << "no right to mount a tmpfs: " << std::strerror(errno);
    std::ofstream(path("small/ballast")) << std::string(6 << 20, 'x') << std::flush;
    int committed = 0;
    {
        Store store = open("small/db", tiny_options());
        auto made = store.run([&](Txn& txn) { return store.create_index(txn, "i"); });
        ASSERT_OK(made);
        Result<void> last;
        while ((last = insert_batch(store, *made, committed, 200)) && committed < 100'000)
            committed += 200;
        ASSERT_FALSE(last) << "the disk is not full";
        EXPECT_TRUE(means_full(last.error().code)) << last.error().text();
        ASSERT_GT(committed, 1000);
        // Reads go on; what failed was rolled back.
        EXPECT_EQ(count_rows(store, *made), committed);

        // A transaction that runs into the wall after many changes can still be rolled back.
        const auto updates = store.run([&](Txn& txn) -> Result<void> {
            for (int n = 0; n < committed; ++n)
                TRY(made->update(txn, Key().u32(static_cast<uint32_t>(n)), std::string(1100, 'U')));
            return {};
        });
        EXPECT_FALSE(updates);
        EXPECT_TRUE(updates || means_full(updates.error().code)) << updates.error().text();
        EXPECT_EQ(count_rows(store, *made), committed);

        std::filesystem::remove(path("small/ballast"));  // space returns
        int more = 0;
        for (int tries = 0; tries < 50 && more < 1000; ++tries) {
            last = insert_batch(store, *made, committed + more, 200);
            if (last) more += 200;
            else usleep(100'000);
        }
        EXPECT_GE(more, 1000) << "work does not resume: " << (last ? "" : last.error().text());
        committed += more;
        EXPECT_EQ(count_rows(store, *made), committed);
        ASSERT_OK(store.close());
    }
    Store again = open("small/db", tiny_options());
    EXPECT_EQ(count_rows(again, *again.index("i")), committed);
    const auto faults = again.verify();
    ASSERT_OK(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
}

TEST_F(Limits, ABackupToAFullFileSystemNamesItsTarget) {
    const SmallFileSystem disk(path("small"), "1m");
    if (!disk.mounted()) GTEST_SKIP() << "no right to mount a tmpfs: " << std::strerror(errno);
    Store store = open("db", tiny_options());
    const auto made = store.run([&](Txn& txn) { return store.create_index(txn, "i"); });
    ASSERT_OK(made);
    ASSERT_OK(insert_batch(store, *made, 0, 1000));
    const auto refused = store.backup(path("small/backup"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::no_space);
    EXPECT_NE(refused.error().text().find(path("small/backup")), std::string::npos)
        << refused.error().text();
    ASSERT_OK(store.close());
}

// In a child, so that the limit is its own. The status names the broken promise.
void with_little_memory(const std::string& directory, Options options) {
    const rlimit limit{.rlim_cur = 400ull << 20, .rlim_max = 400ull << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) end_child(1);
    options.pool_bytes = 2ull << 30;
    const auto refused = Store::open(directory, options);
    if (refused) end_child(2);
    if (refused.error().code != ErrorCode::out_of_memory) end_child(3);
    if (refused.error().text().find("pool_bytes") == std::string::npos) end_child(4);
    end_child(0);
}

TEST_F(Limits, PoolLargerThanTheMemoryAllowed) {
    if (kAddressSanitizer) GTEST_SKIP() << "the address sanitizer needs address space itself";
    EXPECT_EXIT(with_little_memory(path("db"), small_options()), testing::ExitedWithCode(0), "");
}

bool refuse_call(unsigned call) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void without_io_uring(const std::string& directory, Options options) {
    if (!refuse_call(__NR_io_uring_setup)) end_child(1);
    options.io = IoMethod::io_uring;
    if (const auto refused = Store::open(directory + ".no", options);
        refused || refused.error().text().find("io_uring") == std::string::npos)
        end_child(2);
    options.io = IoMethod::automatic;
    auto store = Store::open(directory, options);
    if (!store) end_child(3);
    if (store->stats().io_backend != "pool") end_child(4);
    const auto done = store->run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store->create_index(txn, "i"));
        for (int n = 0; n < 5000; ++n)
            TRY(index.put(txn, Key().u32(static_cast<uint32_t>(n)), row(n)));
        return {};
    });
    if (!done) end_child(5);
    if (!store->close()) end_child(6);
    store = Store::open(directory, options);
    if (!store || count_rows(*store, *store->index("i")) != 5000) end_child(7);
    end_child(store->close() ? 0 : 8);
}

TEST_F(Limits, RefusedIoUringLeadsToThePool) {
    Options options = small_options();
    options.pool_bytes = 4 << 20;
    EXPECT_EXIT(without_io_uring(path("db"), options), testing::ExitedWithCode(0), "");
}

}  // namespace lockstep::limits_test
