// labels: sim
// archive_rebuild_test.cc - pages that the live log cannot rebuild any more come back from the
// newest backup and the archive, while the store runs.
#include "sm/backup/archiver.h"
#include "sm/backup/update_backup.h"
#include "sm/buffer/buffer_pool.h"
#include "sm/space/space_map.h"
#include "tests/sm/backup/archive_test_util.h"

namespace lockstep {
namespace {

using threads::SimDisk;

// A backup, changes behind it, then so much log that nothing of all that is live.
class ArchiveRebuild : public ::testing::Test {
protected:
    ArchiveRebuild() : disk_({.seed = 1}) {}
    void make(bool incremental) {
        SimStore store(disk_);
        archive_options(store.options());
        ASSERT_OK(store.open());
        store.on_thread([&] {
            Commits::make_index(*store);
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                TRY(store->create_index(txn, "junk"));
                const Heap heap = TRY(store->create_heap(txn, "h"));
                for (int i = 0; i < 100; ++i) TRY(heap.insert(txn, std::string(300, 'h')));
                return {};
            }));
            commits_.many(*store, rng_, 100, 3000);
            ASSERT_OK(store->checkpoint());
            const auto full = store->backup("/full");
            ASSERT_OK(full);
            commits_.many(*store, rng_, 10);
            BackupOptions how;
            how.since = &*full;
            if (incremental) {
                ASSERT_OK(store->backup("/next", how));
            }
            commits_.many(*store, rng_, 10);  // only the archive has this
            push_out_log(*store);
        });
        pages_ = static_cast<uint32_t>(store.engine().space->pages_total());
        store.on_thread([&] {
            for (uint32_t p = 0; p < pages_; ++p)
                used_.push_back(*store.engine().space->is_used(PageId{p}));
        });
        ASSERT_OK(store.close());
    }
    static void push_out_log(Store& store) {
        for (int round = 0; round < 14; ++round) {
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                const Index junk = TRY(store.index("junk"));
                for (int i = 0; i < 10; ++i)
                    TRY(junk.put(txn, "junk" + std::to_string(i),
                                 std::string(100'000, static_cast<char>('a' + round))));
                return {};
            }));
            ASSERT_OK(store.checkpoint());
        }
    }
    static void damage(SimDisk& disk, uint32_t page) {
        const auto file = disk.open("/store/data", 0);
        ASSERT_OK(file);
        const uint64_t at = uint64_t{page} * kPageBytes + 100;
        char byte = 0;
        ASSERT_TRUE(disk.read_now(*file, at, &byte, 1));
        byte = static_cast<char>(byte ^ 16);
        ASSERT_TRUE(disk.write_now(*file, at, &byte, 1));
        disk.close(*file);
    }
    // Pages that an open frees are not read, and so not rebuilt.
    void every_page(uint32_t step = 1) {
        uint32_t tried = 0, rebuilt = 0;
        for (uint32_t page = sm::kFirstMapPage.value; page < pages_ && !HasFailure();
             page += step) {
            if (!used_[page]) continue;
            SCOPED_TRACE("page " + std::to_string(page));
            auto image = disk_.image(page, threads::SimCrash::keep_all);
            damage(*image, page);
            SimStore store(*image, page);
            archive_options(store.options());
            ASSERT_OK(store.open());
            store.on_thread([&] {
                EXPECT_EQ(content_of(*store), commits_.at(kLsnMax));
                const auto faults = store->verify();
                ASSERT_OK(faults);
                EXPECT_TRUE(faults->empty()) << faults->front();
            });
            ++tried;
            rebuilt += store->stats().backup_page_repairs > 0;
            ASSERT_OK(store.close());
        }
        std::printf("%u pages damaged, %u rebuilt from a backup\n", tried, rebuilt);
        EXPECT_GT(rebuilt, tried / 3);
    }

    SimDisk disk_;
    Rng rng_{1};
    Commits commits_;
    uint32_t pages_ = 0;
    std::vector<bool> used_;
};

TEST_F(ArchiveRebuild, EveryPageComesBack) {
    make(false);
    every_page();
}

TEST_F(ArchiveRebuild, AlsoFromIncrementalBackups) {
    make(true);
    every_page(5);
}

// The archive knows the full backup by the point that it had.
TEST_F(ArchiveRebuild, FromABackupThatWasBroughtUpToDate) {
    make(true);
    ASSERT_OK(sm::update_on(disk_, "/full", "/next"));
    const auto names = disk_.list("/next");
    ASSERT_OK(names);
    for (const std::string& name : *names) ASSERT_OK(disk_.unlink("/next/" + name));
    every_page(5);
}

// The newest backup was deleted: the one before does.
TEST_F(ArchiveRebuild, FromAnOlderBackup) {
    make(true);
    remove_directory(disk_, "/next");
    every_page(7);
}

TEST_F(ArchiveRebuild, NamesThePageIfTheArchiveLacksLog) {
    make(false);
    for (const std::string& name : names_in(disk_, kArchive))
        if (name.ends_with(".log")) {
            ASSERT_TRUE(disk_.unlink(std::string(kArchive) + "/" + name));
            break;
        }
    uint32_t refused = 0;
    for (uint32_t page = sm::kFirstMapPage.value; page < pages_; page += 5) {
        if (!used_[page]) continue;
        auto image = disk_.image(page, threads::SimCrash::keep_all);
        damage(*image, page);
        SimStore store(*image, page);
        archive_options(store.options());
        const auto open = store.open();
        Result<std::vector<std::string>> faults{std::vector<std::string>{}};
        if (open) {
            store.on_thread([&] { faults = store->verify(); });
            EXPECT_TRUE(store.close());
        }
        refused += !open || !faults || !faults->empty();
    }
    EXPECT_GT(refused, 5u);
}

// While one thread waits for its page, others go on.
TEST_F(ArchiveRebuild, OnlyReadersOfThePageWait) {
    make(false);
    // A leaf of index `i`: the page that a reader of it misses first.
    for (uint32_t page = sm::kFirstMapPage.value; page < pages_; ++page) {
        if (!used_[page]) continue;
        auto image = disk_.image(page, threads::SimCrash::keep_all);
        damage(*image, page);
        SimStore store(*image, page);
        archive_options(store.options());
        ASSERT_OK(store.open());
        uint64_t beside = 0;
        bool done = store->stats().backup_page_repairs > 0;  // open has read it
        if (!done) {
            auto reading = store->start([&]() -> Result<void> {
                EXPECT_EQ(content_of(*store), commits_.at(kLsnMax));
                done = true;
                return {};
            });
            auto running = store->start([&]() -> Result<void> {
                while (!done) {
                    ++beside;
                    threads::sleep_until(threads::now() + kMillisecond / 10);
                }
                return {};
            });
            ASSERT_TRUE(store.step_until([&] { return done; }));
        }
        const bool rebuilt = beside > 0 && store->stats().backup_page_repairs > 0;
        ASSERT_OK(store.close());
        if (!rebuilt) continue;
        EXPECT_GT(beside, 10u);
        return;
    }
    ADD_FAILURE() << "no page of the index was rebuilt";
}

}  // namespace
}  // namespace lockstep
