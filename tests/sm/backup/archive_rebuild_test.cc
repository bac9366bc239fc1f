// labels: sim
// archive_rebuild_test.cc - pages that the live log cannot rebuild any more come back from the
// newest backup and the archive, while the store runs.
#include "sm/backup/archiver.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/update_backup.h"
#include "sm/buffer/buffer_pool.h"
#include "sm/catalog/catalog.h"
#include "sm/heap/heap_file.h"
#include "sm/space/space_map.h"
#include "tests/sm/backup/archive_test_util.h"

namespace lockstep::archive_rebuild_test {

using threads::SimDisk;

// A backup, changes behind it, then so much log that nothing of all that is live.
class ArchiveRebuild : public ::testing::Test {
protected:
    ArchiveRebuild() : disk_({.seed = 1}) {}
    static constexpr int kFillingRows = 16;
    enum class Backups : uint8_t {
        full,
        next,       // and an incremental one
        next_idle,  // the same, and nothing is logged between them
        three       // the same, and a third one when more was logged
    };
    void make(Backups backups) {
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
            make_backups(*store, backups);
            commits_.many(*store, rng_, 10);  // only the archive has this
            push_out_log(*store);
            threads::sleep_until(threads::now() + kSecond);  // chains of old values are freed
        });
        pages_ = static_cast<uint32_t>(store.engine().space->pages_total());
        store.on_thread([&] {
            for (uint32_t p = 0; p < pages_; ++p)
                used_.push_back(*store.engine().space->is_used(PageId{p}));
        });
        ASSERT_OK(store.close());
    }
    void make_backups(Store& store, Backups backups) {
        const bool idle = backups == Backups::next_idle || backups == Backups::three;
        BackupOptions how;
        bool changed = !idle;
        // The pages that the full backup has copied are behind its checkpoint, but not behind that
        // of the next one.
        how.progress = [&](const BackupProgress&) {
            if (std::exchange(changed, true)) return;
            commits_.many(store, rng_, 100, 3000);
            ASSERT_OK(store.checkpoint());
            threads::sleep_until(threads::now() + kSecond);  // behind the last time record
        };
        const auto full = store.backup("/full", how);
        ASSERT_OK(full);
        how.since = &*full;
        if (!idle) commits_.many(store, rng_, 10);
        if (backups == Backups::full) return;
        const auto next = store.backup("/next", how);
        ASSERT_OK(next);
        EXPECT_EQ(next->lsn == full->lsn, idle);
        how.since = &*next;
        if (backups != Backups::three) return;
        commits_.many(store, rng_, 10);
        ASSERT_OK(store.backup("/third", how));
    }
    // More than the pool holds, and a checkpoint.
    static void fill_pool(Store& store) {
        for (int row = 0; row < kFillingRows; ++row) {
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                return TRY(store.index("junk"))
                    .put(txn, "filling" + std::to_string(row), std::string(500'000, 'f'));
            }));
            if (row % 4 == 3) ASSERT_OK(store.checkpoint());
        }
    }
    static void read_filling(Store& store) {
        for (int i = 0; i < 3 * kFillingRows; ++i)
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                std::string value;
                const std::string key = "filling" + std::to_string(i % kFillingRows);
                EXPECT_TRUE(TRY(TRY(store.index("junk")).get(txn, key, value)));
                return {};
            }));
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
    static void flip(SimDisk& disk, const std::string& path, uint64_t at) {
        const auto file = disk.open(path, 0);
        ASSERT_OK(file);
        char byte = 0;
        ASSERT_TRUE(disk.read_now(*file, at, &byte, 1));
        byte = static_cast<char>(byte ^ 16);
        ASSERT_TRUE(disk.write_now(*file, at, &byte, 1));
        disk.close(*file);
    }
    static void damage(SimDisk& disk, uint32_t page, const std::string& directory = "/store") {
        flip(disk, directory + "/data", uint64_t{page} * kPageBytes + 100);
    }
    void damage_newest_piece() {
        std::string newest;
        for (const std::string& name : names_in(disk_, kArchive))
            if (name.ends_with(".log")) newest = std::string(kArchive) + "/" + name;
        const auto file = disk_.open(newest, 0);
        ASSERT_OK(file);
        const auto bytes = disk_.size(*file);
        disk_.close(*file);
        ASSERT_OK(bytes);
        flip(disk_, newest, *bytes / 2);
    }
    // Pages that an open frees are not read, and so not rebuilt.
    void every_page(uint32_t step = 1, const std::string& directory = "/store") {
        uint32_t tried = 0, rebuilt = 0;
        for (uint32_t page = sm::kFirstMapPage.value; page < pages_ && !HasFailure();
             page += step) {
            if (!used_[page]) continue;
            SCOPED_TRACE("page " + std::to_string(page));
            auto image = disk_.image(page, threads::SimCrash::keep_all);
            damage(*image, page, directory);
            SimStore store(*image, page);
            archive_options(store.options());
            store.options().archive_interval = std::nullopt;
            ASSERT_OK(store.open(directory));
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

    // Pages that are damaged and not rebuilt.
    uint32_t pages_refused() {
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
        return refused;
    }

    // Pages of the heap come back although `damage_log` has damaged the live log or the archive.
    template <class Damage>
    void with_damaged_log(Damage damage_log) {
        SimStore store(disk_);
        archive_options(store.options());
        store.options().archive_interval = 100 * kMillisecond;
        store.options().logger = [&](int, std::string_view text) { said_ += text; };
        ASSERT_OK(store.open());
        store.on_thread([&] {
            fill_pool(*store);
            for (int piece = 0; piece < 2; ++piece) {  // the live log has the newest one
                commits_.many(*store, rng_, 10);
                threads::sleep_until(threads::now() + kSecond);
            }
            sm::Engine& engine = store.engine();
            EXPECT_LT(store->stats().archive_backlog_bytes, 100u);
            damage_log(engine);
            const auto heap = (*engine.catalog->heap("h"))->verify();
            ASSERT_OK(heap);
            for (const PageId id : heap->pages) damage(disk_, id.value);
            read_filling(*store);
            const auto read = store->run([&](Txn& txn) -> Result<void> {
                return TRY(store->heap("h")).scan(txn, [](RecordId, Slice) { return true; });
            });
            EXPECT_TRUE(read) << read.error().text();
            EXPECT_GT(store->stats().backup_page_repairs, 0u);
        });
        ASSERT_OK(store.close());
    }

    SimDisk disk_;
    Rng rng_{1};
    Commits commits_;
    std::string said_;  // by the store whose log was damaged
    uint32_t pages_ = 0;
    std::vector<bool> used_;
};

TEST_F(ArchiveRebuild, EveryPageComesBack) {
    make(Backups::full);
    every_page();
}

TEST_F(ArchiveRebuild, AlsoFromIncrementalBackups) {
    make(Backups::next);
    every_page(5);
}

// The archive knows a backup by its point, and both have the same.
TEST_F(ArchiveRebuild, FromTwoBackupsOfAnIdleStore) {
    make(Backups::next_idle);
    every_page(5);
}

TEST_F(ArchiveRebuild, FromABackupThatWasUpdatedWhileTheStoreWasIdle) {
    make(Backups::next_idle);
    ASSERT_OK(sm::update_on(disk_, "/full", "/next"));
    remove_directory(disk_, "/next");
    every_page(5);
}

// The archive does not know `/next`. `/third` and `/full` are no chain: copies of `/full` are older
// than the pages that `/third` left out.
TEST_F(ArchiveRebuild, NotFromAChainThatLacksABackup) {
    make(Backups::three);
    every_page(5);
}

// An archive of an earlier version may name an incremental backup instead of the full one that ends
// at the same point.
TEST_F(ArchiveRebuild, EndsIfABackupFollowsItself) {
    make(Backups::next_idle);
    {
        SimStore store(disk_);
        archive_options(store.options());
        ASSERT_OK(store.open());
        const auto next = sm::read_manifest(disk_, "/next");
        ASSERT_OK(next);
        store.on_thread([&] {
            sm::Engine& engine = store.engine();
            ASSERT_OK(sm::note_backup(*engine.archive, engine.superblock, Lsn{next->end}, "/next",
                                      false));
        });
        ASSERT_OK(store.close());
    }
    EXPECT_GT(pages_refused(), 5u);
}

// The archive knows the full backup by the point that it had.
TEST_F(ArchiveRebuild, FromABackupThatWasBroughtUpToDate) {
    make(Backups::next);
    ASSERT_OK(sm::update_on(disk_, "/full", "/next"));
    const auto names = disk_.list("/next");
    ASSERT_OK(names);
    for (const std::string& name : *names) ASSERT_OK(disk_.unlink("/next/" + name));
    every_page(5);
}

// The newest backup was deleted: the one before does.
TEST_F(ArchiveRebuild, FromAnOlderBackup) {
    make(Backups::next);
    remove_directory(disk_, "/next");
    every_page(7);
}

// The archive has no log of its history yet.
TEST_F(ArchiveRebuild, InAStoreThatWasJustRestored) {
    make(Backups::full);
    ASSERT_OK(restore_to(disk_, "/full", {}));
    every_page(5, "/restored");
}

// The pages have not changed since the checkpoint. What the live log has of the time since the
// backup is damaged, but the archive has it as it was.
TEST_F(ArchiveRebuild, IfTheLiveLogIsDamaged) {
    make(Backups::full);
    with_damaged_log([&](sm::Engine& engine) {
        const uint64_t record = engine.superblock.checkpoint_lsn;
        flip(disk_, engine.log->segment_path(Lsn{record}),
             record % engine.log_options.segment_bytes + 16);
    });
    EXPECT_NE(said_.find("cannot be repaired from the log: corrupt_log"), std::string::npos)
        << said_;
}

// The reverse.
TEST_F(ArchiveRebuild, IfTheNewestPieceOfTheArchiveIsDamaged) {
    make(Backups::full);
    with_damaged_log([&](sm::Engine&) { damage_newest_piece(); });
}

// The newest backup is of no use, and the one before needs the live log.
TEST_F(ArchiveRebuild, IfTheNewestBackupAndTheNewestPieceAreDamaged) {
    make(Backups::next);
    const auto next = sm::read_manifest(disk_, "/next");
    ASSERT_OK(next);
    const uint64_t record = next->superblock.checkpoint_lsn;
    with_damaged_log([&](sm::Engine& engine) {
        const uint64_t segment_bytes = engine.log_options.segment_bytes;
        const txn::LogFiles files(disk_, "/next", segment_bytes);
        flip(disk_, files.segment_path(files.number_of(record)), record % segment_bytes + 16);
        damage_newest_piece();
    });
    EXPECT_NE(said_.find("the backup in /next cannot rebuild it"), std::string::npos) << said_;
}

TEST_F(ArchiveRebuild, NamesThePageIfTheArchiveLacksLog) {
    make(Backups::full);
    for (const std::string& name : names_in(disk_, kArchive))
        if (name.ends_with(".log")) {
            ASSERT_TRUE(disk_.unlink(std::string(kArchive) + "/" + name));
            break;
        }
    EXPECT_GT(pages_refused(), 5u);
}

// While one thread waits for its page, others go on.
TEST_F(ArchiveRebuild, OnlyReadersOfThePageWait) {
    make(Backups::full);
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

}  // namespace lockstep::archive_rebuild_test
