// labels: sim
// disk_calls_test.cc - the n-th call of the disk fails while a store is made, opened or
// closed, for every n: an error, and afterwards nothing is missing.
//
// Concepts   What goes through the queues fails in nth_fault_test and restart_refused_test. Here it
//            is names, sizes, locks and blocking transfers.
#include <gtest/gtest.h>

#include "tests/sim_store.h"

namespace lockstep::disk_calls_test {

using threads::Disk;
using threads::FileId;
using threads::SimCrash;
using threads::SimDisk;

// Hands everything on to a simulated disk, except its n-th call.
class FailingDisk final : public Disk {
public:
    FailingDisk(SimDisk& disk, uint64_t nth) : disk_(disk), nth_(nth) {}
    uint64_t calls() const { return calls_; }

    Result<FileId> open(const threads::Place& path, uint32_t flags) override {
        return fails() ? broken() : disk_.open(path, flags);
    }
    void close(FileId file) override { disk_.close(file); }
    Result<uint64_t> size(FileId file) override { return fails() ? broken() : disk_.size(file); }
    Result<void> allocate(FileId file, uint64_t bytes) override {
        return fails() ? broken() : disk_.allocate(file, bytes);
    }
    Result<void> truncate(FileId file, uint64_t bytes) override {
        return fails() ? broken() : disk_.truncate(file, bytes);
    }
    Result<void> rename(const threads::Place& from, const threads::Place& to) override {
        return fails() ? broken() : disk_.rename(from, to);
    }
    Result<void> unlink(const threads::Place& path) override {
        return fails() ? broken() : disk_.unlink(path);
    }
    Result<void> make_directory(const threads::Place& path) override {
        return fails() ? broken() : disk_.make_directory(path);
    }
    Result<std::vector<std::string>> list(const threads::Place& directory) override {
        return fails() ? broken() : disk_.list(directory);
    }
    bool exists(const threads::Place& path) override { return disk_.exists(path); }
    Result<void> sync_directory(const threads::Place& path) override {
        return fails() ? broken() : disk_.sync_directory(path);
    }
    Result<threads::DirectoryId> open_directory(const threads::Place& directory) override {
        return fails() ? broken() : disk_.open_directory(directory);
    }
    void close_directory(threads::DirectoryId directory) override {
        disk_.close_directory(directory);
    }
    std::string path_of(threads::DirectoryId directory) override {
        return disk_.path_of(directory);
    }
    Result<void> lock_exclusive(FileId file) override {
        return fails() ? broken() : disk_.lock_exclusive(file);
    }
    Result<size_t> read_now(FileId file, uint64_t offset, void* data, size_t bytes) override {
        return fails() ? broken() : disk_.read_now(file, offset, data, bytes);
    }
    Result<void> write_now(FileId file, uint64_t offset, const void* data, size_t bytes) override {
        return fails() ? broken() : disk_.write_now(file, offset, data, bytes);
    }
    Result<void> sync_now(FileId file) override {
        return fails() ? broken() : disk_.sync_now(file);
    }
    Result<std::unique_ptr<threads::IoQueue>> make_queue(uint32_t worker,
                                                         const Clock& clock) override {
        if (fails()) return broken();
        return disk_.make_queue(worker, clock);
    }

private:
    bool fails() { return ++calls_ == nth_; }
    static std::unexpected<Error> broken() {
        return fail_os(ErrorCode::io_error, EIO, "the n-th call");
    }

    SimDisk& disk_;
    const uint64_t nth_;
    uint64_t calls_ = 0;
};

constexpr int kKeys = 40;
std::string key_of(int n) { return "key" + std::to_string(100 + n); }

Result<void> put_all(Store& store) {
    return store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.create_index(txn, "i"));
        for (int n = 0; n < kKeys; ++n) TRY(index.put(txn, key_of(n), std::string(3'000, 'v')));
        return {};
    });
}

Result<int> count_all(Store& store) {
    int keys = 0;
    TRY(store.run([&](Txn& txn) -> Result<void> {
        for (Cursor cursor = TRY(store.index("i")).scan(txn); TRY(cursor.next()); ++keys)
            EXPECT_EQ(cursor.key(), key_of(keys));
        return {};
    }));
    for (const std::string& fault : TRY(store.verify())) ADD_FAILURE() << fault;
    return keys;
}

class DiskCalls : public ::testing::Test {
protected:
    static void small(SimStore& store) {
        store.options().log_bytes = 8 << 20;
        store.options().log_segment_bytes = 1 << 20;
    }
    // The store is there with all keys, or, if it may be, there is none yet.
    static void expect_whole(SimDisk& disk, bool may_be_new) {
        disk.close_all();
        SimStore store(disk);
        small(store);
        const auto opened = store.open();
        ASSERT_TRUE(opened) << opened.error().text();
        store.on_thread([&] {
            if (may_be_new && store->list().empty()) {
                const auto filled = put_all(*store);
                EXPECT_TRUE(filled) << filled.error().text();
            }
            const auto keys = count_all(*store);
            ASSERT_TRUE(keys) << keys.error().text();
            EXPECT_EQ(*keys, kKeys);
        });
        EXPECT_TRUE(store.close());
    }
    // Opens, works and closes with the n-th call failing, for each n. How many openings were
    // refused.
    int fail_each(const SimDisk& base, bool fresh, bool work) {
        int refused = 0;
        for (uint64_t n = 1; !HasFailure(); ++n) {
            SCOPED_TRACE("call " + std::to_string(n));
            const auto image = base.image(n, SimCrash::keep_all);
            FailingDisk disk(*image, n);
            bool written = !fresh;
            {
                SimStore store(*image);
                small(store);
                store.options().test_hooks->disk = &disk;
                const auto opened = store.open();
                refused += !opened;
                if (opened) {
                    if (work)
                        store.on_thread([&] {
                            const auto done = fresh ? put_all(*store) : store->checkpoint();
                            written |= fresh && done;
                            EXPECT_TRUE(done || disk.calls() >= n) << done.error().text();
                        });
                    const auto closed = store.close();
                    EXPECT_TRUE(closed || disk.calls() >= n) << closed.error().text();
                } else {
                    // store_failed: it was the log's.
                    const ErrorCode code = opened.error().code;
                    EXPECT_TRUE(code == ErrorCode::io_error || code == ErrorCode::store_failed)
                        << opened.error().text();
                }
            }
            expect_whole(*image, !written);
            if (disk.calls() < n) return refused;
        }
        return refused;
    }
};

TEST_F(DiskCalls, WhileAStoreIsMade) { EXPECT_GT(fail_each(SimDisk(), true, true), 10); }

TEST_F(DiskCalls, WhileAStoreIsOpened) {
    SimDisk base;
    SimStore store(base);
    small(store);
    ASSERT_TRUE(store.open());
    store.on_thread([&] { EXPECT_TRUE(put_all(*store)); });
    const auto killed = base.image(1, SimCrash::keep_all);
    ASSERT_TRUE(store.close());
    EXPECT_GT(fail_each(base, false, true), 5);
    EXPECT_GT(fail_each(*killed, false, true), 5);
}

// A creation that a crash interrupted at any call is begun again, whatever fails then.
TEST_F(DiskCalls, WhileAnUnfinishedCreationIsBegunAgain) {
    for (const uint64_t cut : {9u, 17u}) {
        SimDisk base;
        FailingDisk disk(base, cut);
        {
            SimStore store(base);
            small(store);
            store.options().test_hooks->disk = &disk;
            ASSERT_FALSE(store.open()) << cut;
        }
        base.close_all();
        EXPECT_GT(fail_each(base, true, false), 5) << cut;
    }
}

// Files of a log without the store's other files are somebody's: they stay.
TEST_F(DiskCalls, FilesOfAStoreThatIsNotWholeAreLeftAlone) {
    SimDisk disk;
    ASSERT_TRUE(disk.make_directory("/store"));
    disk.close(*disk.open("/store/log.7", Disk::kCreate));
    SimStore store(disk);
    small(store);
    const auto opened = store.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::bad_path);
    EXPECT_TRUE(disk.exists("/store/log.7"));
}

}  // namespace lockstep::disk_calls_test
