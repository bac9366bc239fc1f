// labels: sim
// backup_fault_test.cc - the target of a backup fails, is full, or loses writes: the store goes on,
// and no bad backup passes for a good one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sm/backup/restore.h"
#include "sm/backup/update_backup.h"
#include "sm/backup/verify_backup.h"
#include "tests/code_of.h"
#include "tests/sim_store.h"
#include "tests/sm/backup/forge.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"

namespace lockstep::backup_fault_test {

using threads::SimDisk;
using threads::SimFault;

constexpr const char* kBackup = "/backup";
constexpr int kRows = 300;

// Acknowledges the n-th blocking write, and loses it or puts it elsewhere in the file.
class LosingDisk final : public threads::Disk {
public:
    LosingDisk(SimDisk& disk, uint64_t n, SimFault fault) : disk_(disk), left_(n), fault_(fault) {}
    bool has_lost() const { return left_ == 0; }
    Result<void> write_now(threads::FileId file, uint64_t offset, const void* data,
                           size_t bytes) override {
        if (left_ > 0 && --left_ == 0) {
            if (fault_ == SimFault::lost_write) return {};
            offset = offset < bytes ? offset + bytes : offset - bytes;
        }
        return disk_.write_now(file, offset, data, bytes);
    }
    Result<threads::FileId> open(const threads::Place& path, uint32_t flags) override {
        return disk_.open(path, flags);
    }
    void close(threads::FileId file) override { disk_.close(file); }
    Result<uint64_t> size(threads::FileId file) override { return disk_.size(file); }
    Result<void> allocate(threads::FileId file, uint64_t bytes) override {
        return disk_.allocate(file, bytes);
    }
    Result<void> truncate(threads::FileId file, uint64_t bytes) override {
        return disk_.truncate(file, bytes);
    }
    Result<void> rename(const threads::Place& from, const threads::Place& to) override {
        return disk_.rename(from, to);
    }
    Result<void> unlink(const threads::Place& path) override { return disk_.unlink(path); }
    Result<void> make_directory(const threads::Place& path) override {
        return disk_.make_directory(path);
    }
    Result<std::vector<std::string>> list(const threads::Place& directory) override {
        return disk_.list(directory);
    }
    bool exists(const threads::Place& path) override { return disk_.exists(path); }
    Result<void> sync_directory(const threads::Place& path) override {
        return disk_.sync_directory(path);
    }
    Result<threads::DirectoryId> open_directory(const threads::Place& directory) override {
        return disk_.open_directory(directory);
    }
    void close_directory(threads::DirectoryId directory) override {
        disk_.close_directory(directory);
    }
    std::string path_of(threads::DirectoryId directory) override {
        return disk_.path_of(directory);
    }
    Result<void> lock_exclusive(threads::FileId file) override {
        return disk_.lock_exclusive(file);
    }
    Result<size_t> read_now(threads::FileId file, uint64_t offset, void* data,
                            size_t bytes) override {
        return disk_.read_now(file, offset, data, bytes);
    }
    Result<void> sync_now(threads::FileId file) override { return disk_.sync_now(file); }
    Result<std::unique_ptr<threads::IoQueue>> make_queue(uint32_t worker,
                                                         const Clock& clock) override {
        return disk_.make_queue(worker, clock);
    }

private:
    SimDisk& disk_;
    uint64_t left_;
    const SimFault fault_;
};
constexpr SimFault kLosses[] = {SimFault::lost_write, SimFault::misdirected_write};

class BackupFault : public ::testing::Test {
protected:
    BackupFault() : disk_({.seed = 1}), store_(disk_) {
        EXPECT_TRUE(store_.open());
        store_.on_thread([&] {
            EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store_->create_index(txn, "i"));
                for (int i = 0; i < kRows; ++i)
                    TRY(index.insert(txn, "key" + std::to_string(i), std::string(300, 'v')));
                return {};
            }));
            EXPECT_TRUE(store_->checkpoint());
        });
    }
    Result<BackupInfo> backup() {
        Result<BackupInfo> info = fail(ErrorCode::cancelled, "hangs");
        store_.on_thread([&] { info = store_->backup(kBackup); });
        return info;
    }
    void expect_store_goes_on() {
        EXPECT_FALSE(store_->failure());
        store_.on_thread([&] {
            EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
                return TRY(store_->index("i")).put(txn, "key1", "again");
            }));
        });
    }
    Result<std::vector<std::string>> faults_of(const sm::BackupManifest& manifest) {
        auto stream = TRY(threads::CopyStream::create(threads::CopySteps::alternate));
        return sm::find_faults(disk_, kBackup, manifest, stream);
    }
    void expect_whole() { expect_whole(disk_, kBackup); }
    static void expect_whole(SimDisk& disk, const std::string& directory) {
        const auto manifest = sm::read_manifest(disk, directory);
        ASSERT_OK(manifest);
        auto stream = threads::CopyStream::create(threads::CopySteps::alternate);
        ASSERT_OK(stream);
        const auto faults = sm::find_faults(disk, directory, *manifest, *stream);
        ASSERT_OK(faults);
        EXPECT_TRUE(faults->empty()) << faults->front();
    }
    template <class T>
    void forge_manifest(const std::string& directory, size_t offset, T value) {
        forge(disk_, directory + "/" + sm::kManifestName, offset, value);
    }
    std::map<std::string, std::string> files_in(const std::string& directory) {
        std::map<std::string, std::string> files;
        const auto names = disk_.list(directory);
        EXPECT_TRUE(names);
        for (const std::string& name : *names) {
            const auto file = disk_.open(directory + "/" + name, 0);
            EXPECT_TRUE(file);
            std::string& bytes = files[name];
            bytes.resize(*disk_.size(*file));
            EXPECT_TRUE(disk_.read_now(*file, 0, bytes.data(), bytes.size()));
            disk_.close(*file);
        }
        return files;
    }
    void clear(const std::string& directory) {
        const auto names = disk_.list(directory);
        if (!names) return;
        for (const std::string& name : *names) EXPECT_TRUE(disk_.unlink(directory + "/" + name));
    }

    SimDisk disk_;
    SimStore store_;
};

// Each opportunity in turn.
TEST_F(BackupFault, AnErrorOfTheTargetEndsTheBackupOnly) {
    for (const SimFault fault : {SimFault::write_error, SimFault::sync_error,
                                 SimFault::no_space_allocate, SimFault::no_space_write}) {
        SCOPED_TRACE(threads::sim_fault_name(fault));
        uint64_t n = 1;
        for (;; ++n) {
            disk_.faults().only_paths_with(fault, kBackup);
            disk_.faults().fail_nth(fault, n);
            const uint64_t before = disk_.faults().count(fault);
            const auto info = backup();
            const bool struck = disk_.faults().count(fault) > before;
            disk_.faults().only_paths_with(fault, "none");
            expect_store_goes_on();
            if (!struck) {
                ASSERT_OK(info);
                clear(kBackup);
                break;
            }
            if (info) {  // the I/O stage had joined writes, and repeated them one by one
                expect_whole();
                clear(kBackup);
                continue;
            }
            EXPECT_TRUE(info.error().code == ErrorCode::io_error ||
                        info.error().code == ErrorCode::no_space)
                << info.error().text();
            const auto left = disk_.list(kBackup);
            EXPECT_TRUE(!left || left->empty()) << n;
        }
        EXPECT_GT(n, 1u);
    }
    ASSERT_OK(store_.close());
}

// A write that the target's device acknowledges and loses, or puts elsewhere: the check of the
// backup names it, and a restore refuses it.
TEST_F(BackupFault, WhatTheTargetLosesIsFound) {
    size_t found = 0;
    for (const SimFault fault : kLosses) {
        SCOPED_TRACE(threads::sim_fault_name(fault));
        for (uint64_t n = 1;; ++n) {
            disk_.faults().only_paths_with(fault, kBackup);
            disk_.faults().fail_nth(fault, n);
            const uint64_t before = disk_.faults().count(fault);
            const auto info = backup();
            const bool struck = disk_.faults().count(fault) > before;
            disk_.faults().only_paths_with(fault, "none");
            ASSERT_OK(info);
            const std::string from[] = {kBackup};
            const auto manifest = sm::read_manifest(disk_, kBackup);
            const auto faults =
                manifest ? faults_of(*manifest) : Result<std::vector<std::string>>{{"incomplete"}};
            ASSERT_OK(faults);
            const auto restored = sm::restore_on(disk_, from, "/restored");
            // A restore makes the superblocks and the mark of the log anew.
            const bool whole = std::ranges::all_of(*faults, [](const auto& text) {
                return text.contains("no superblock") || text.starts_with("log.mark");
            });
            EXPECT_EQ(restored.has_value(), whole) << n << " " << info->pages;
            if (!restored) {
                EXPECT_EQ(restored.error().code, ErrorCode::bad_backup);
            }
            EXPECT_TRUE(struck || faults->empty()) << n << ": " << faults->front();
            found += struck && !faults->empty();
            clear(kBackup);
            clear("/restored");
            if (!struck) break;
            // A write may have been lost that wrote what was there: nothing is missing then.
        }
    }
    EXPECT_GT(found, 5u);
    ASSERT_OK(store_.close());
}

// The same of an update: it fails or the backup is whole. The repetition of one that failed
// succeeds. If a page lies in the place of another one, which the update does not write, the
// repetition names that.
TEST_F(BackupFault, WhatAnUpdateLosesIsFound) {
    const auto full = backup();
    ASSERT_OK(full);
    Result<BackupInfo> next = fail(ErrorCode::cancelled, "hangs");
    store_.on_thread([&] {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store_->index("i"));
            for (int i = 0; i < kRows; i += 2)
                TRY(index.put(txn, "key" + std::to_string(i), std::string(300, 'w')));
            return {};
        }));
        ASSERT_OK(store_->checkpoint());
        BackupOptions how;
        how.since = &*full;
        next = store_->backup("/next", how);
    });
    ASSERT_OK(next);
    ASSERT_OK(store_.close());
    for (const SimFault fault : kLosses) {
        SCOPED_TRACE(threads::sim_fault_name(fault));
        size_t refused = 0, repeated = 0;
        for (uint64_t n = 1;; ++n) {
            SCOPED_TRACE(n);
            const auto image = disk_.image(n, threads::SimCrash::keep_all);
            LosingDisk losing(*image, n, fault);
            const auto updated = sm::update_on(losing, kBackup, "/next");
            refused += !updated;
            if (updated) {
                EXPECT_EQ(updated->lsn, next->lsn);
                expect_whole(*image, kBackup);
            } else {
                EXPECT_EQ(updated.error().code, ErrorCode::bad_backup) << updated.error().text();
            }
            const auto again = sm::update_on(*image, kBackup, "/next");
            if (again) {
                ++repeated;
                EXPECT_EQ(again->lsn, next->lsn);
                expect_whole(*image, kBackup);
            } else {
                EXPECT_EQ(fault, SimFault::misdirected_write) << again.error().text();
                EXPECT_EQ(again.error().code, ErrorCode::bad_backup) << again.error().text();
                EXPECT_NE(again.error().text().find("page "), std::string::npos)
                    << again.error().text();
            }
            if (!losing.has_lost()) break;
        }
        EXPECT_GT(refused, 3u);
        EXPECT_GT(repeated, 3u);
    }
}

// The same of the store's own device, before the backup. The copies of the volume are judged by
// what data.lsn says of them: a page is repaired on its way, or named.
TEST_F(BackupFault, WhatTheSourceHasLostIsRepairedOrNamed) {
    ASSERT_OK(store_.close());
    size_t repaired = 0;
    for (const SimFault fault : kLosses) {
        SCOPED_TRACE(threads::sim_fault_name(fault));
        for (uint64_t n = 1; !HasFailure(); ++n) {
            SCOPED_TRACE(n);
            const auto image = disk_.image(n, threads::SimCrash::keep_all);
            SimStore store(*image, n);
            ASSERT_OK(store.open());
            image->faults().only_paths_ending_with(fault, "/store/data");
            image->faults().fail_nth(fault, n);
            std::map<std::string, std::string> content;
            store.on_thread([&] {
                ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY(store->index("i"));
                    for (int i = 0; i < kRows; i += 2)
                        TRY(index.put(txn, "key" + std::to_string(i), std::string(300, 'w')));
                    return {};
                }));
                content = index_content(*store, "i");
            });
            ASSERT_OK(store.close());
            const bool struck = image->faults().count(fault) > 0;
            image->faults().only_paths_ending_with(fault, "none");
            Result<BackupInfo> info = fail(ErrorCode::cancelled, "hangs");
            if (const auto opened = store.open(); opened) {
                store.on_thread([&] { info = store->backup(kBackup); });
                repaired += info && store->stats().page_repairs > 0;
                ASSERT_OK(store.close());
            } else {
                info = std::unexpected(opened.error());
            }
            if (!struck) {
                ASSERT_OK(info);
                break;
            }
            if (!info) {
                EXPECT_TRUE(info.error().code == ErrorCode::corrupt_page ||
                            info.error().code == ErrorCode::corrupt_superblock)
                    << info.error().text();
                continue;
            }
            const std::string from[] = {kBackup};
            ASSERT_OK(sm::restore_on(*image, from, "/restored"));
            SimStore restored(*image, n);
            ASSERT_OK(restored.open("/restored"));
            restored.on_thread([&] { EXPECT_EQ(index_content(*restored, "i"), content); });
            ASSERT_OK(restored.close());
        }
    }
    EXPECT_GT(repaired, 3u);
}

// BK-3. A checkpoint passes meanwhile, so B is above all changes of the new pages.
TEST_F(BackupFault, TheVolumeMayGrowWhileTheSuperblockIsRead) {
    disk_.faults().only_paths_ending_with(SimFault::slow, "/store/data");
    disk_.faults().fail_nth(SimFault::slow, 1);
    bool reads = false, ended = false;
    disk_.observe([&](const threads::SimEvent& event) {
        reads =
            reads || (event.kind == threads::SimEvent::submitted && event.path == "/store/data" &&
                      event.io == threads::IoKind::read && event.offset == 0);
    });
    Result<BackupInfo> info = fail(ErrorCode::cancelled, "hangs");
    auto maker = store_->start([&]() -> Result<void> {
        info = store_->backup(kBackup);
        ended = true;
        return {};
    });
    ASSERT_TRUE(store_.step_until([&] { return reads; }));
    disk_.observe({});
    const Lsn before = store_.engine().log->tail();
    const uint64_t pages = store_.engine().space->pages_total();
    store_.on_thread([&] {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store_->index("i"));
            for (int i = 0; i < 100; ++i)
                TRY(index.insert(txn, "new" + std::to_string(i), std::string(3000, 'n')));
            return {};
        }));
        for (int copy = 0; copy < 2; ++copy)  // of the superblock; one is being read
            ASSERT_OK(store_->checkpoint());
    });
    ASSERT_FALSE(ended) << "the test is blind";
    ASSERT_GT(store_.engine().space->pages_total(), pages) << "the test is blind";
    ASSERT_TRUE(store_.step_until([&] { return ended; }));
    ASSERT_OK(info);
    EXPECT_GT(info->redo_from, before) << "the test is blind";
    expect_whole();
    const std::string from[] = {kBackup};
    ASSERT_OK(sm::restore_on(disk_, from, "/restored"));
    SimStore restored(disk_);
    ASSERT_OK(restored.open("/restored"));
    const auto faults = restored->verify();
    ASSERT_OK(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
    ASSERT_OK(restored.close());
}

TEST_F(BackupFault, ABadReadOfTheSuperblockIsRepeated) {
    disk_.faults().only_paths_ending_with(SimFault::read_error, "/store/data");
    disk_.faults().fail_nth(SimFault::read_error, 1);
    ASSERT_OK(backup());
    EXPECT_EQ(disk_.faults().count(SimFault::read_error), 1u);
    expect_whole();
}

// It was free when it was read, and nobody needed its bytes.
TEST_F(BackupFault, ADamagedPageThatIsTakenMeanwhileIsReadAgain) {
    store_.on_thread([&] {
        for (int round = 0; round < 4; ++round) {  // the log must not be able to repair it
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store_->index("i"));
                for (int i = 0; i < 1000; ++i)
                    TRY(index.put(txn, "key0", std::string(1000, i % 2 ? 'w' : 'x')));
                return {};
            }));
            ASSERT_OK(store_->checkpoint());
        }
    });
    ASSERT_OK(store_.close());
    ASSERT_OK(store_.open());
    disk_.faults().only_paths_ending_with(SimFault::read_error, "/store/data");
    disk_.faults().fail_nth(SimFault::read_error, 2, 3);  // after the superblock
    const auto info = backup();
    ASSERT_OK(info);
    EXPECT_EQ(disk_.faults().count(SimFault::read_error), 3u);
    EXPECT_EQ(store_->stats().page_repairs, 0u);
    EXPECT_EQ(info->pages_zeroed, 0u);
    expect_whole();
}

// Only what is known to be left by a restore that was cut off is removed.
TEST_F(BackupFault, ARestoreKeepsABackupThatItCannotRead) {
    ASSERT_OK(backup());
    ASSERT_OK(store_.close());
    const std::string from[] = {kBackup};
    const std::string to = "/restored";
    ASSERT_OK(sm::restore_on(disk_, from, to));
    const auto expect_kept = [&](ErrorCode code) {
        const auto before = files_in(to);
        EXPECT_EQ(code_of(sm::restore_on(disk_, from, to)), code);
        EXPECT_EQ(files_in(to), before);
    };
    expect_kept(ErrorCode::bad_path);

    const std::string manifest = to + "/" + sm::kManifestName;
    const auto before = files_in(to);
    disk_.faults().only_paths_with(SimFault::read_error, manifest);
    disk_.faults().fail_nth(SimFault::read_error, 1);
    EXPECT_EQ(code_of(sm::restore_on(disk_, from, to)), ErrorCode::io_error);
    EXPECT_EQ(disk_.faults().count(SimFault::read_error), 1u);
    disk_.faults().only_paths_with(SimFault::read_error, "none");
    EXPECT_EQ(files_in(to), before);

    const uint64_t pages = 1;  // a backup has more
    forge_manifest(to, offsetof(sm::BackupManifest, pages), pages);
    expect_kept(ErrorCode::bad_path);
    forge_manifest(to, offsetof(sm::BackupManifest, version), uint32_t{1});
    expect_kept(ErrorCode::bad_path);

    // A block that was not written to its end.
    const auto file = disk_.open(manifest, 0);
    ASSERT_OK(file);
    ASSERT_OK(disk_.truncate(*file, 0));
    disk_.close(*file);
    ASSERT_OK(sm::restore_on(disk_, from, to));
    expect_whole(disk_, to);
}

TEST_F(BackupFault, WhatARestoreLosesIsFound) {
    ASSERT_OK(backup());
    ASSERT_OK(store_.close());
    for (const SimFault fault : kLosses) {
        SCOPED_TRACE(threads::sim_fault_name(fault));
        size_t refused = 0;
        for (uint64_t n = 1;; ++n) {
            SCOPED_TRACE(n);
            const auto image = disk_.image(n, threads::SimCrash::keep_all);
            LosingDisk losing(*image, n, fault);
            const std::string from[] = {kBackup};
            const auto restored = sm::restore_on(losing, from, "/restored");
            refused += !restored;
            if (restored) expect_whole(*image, "/restored");
            else EXPECT_EQ(restored.error().code, ErrorCode::bad_backup) << restored.error().text();
            if (!losing.has_lost()) break;
        }
        EXPECT_GT(refused, 3u);
    }
}

}  // namespace lockstep::backup_fault_test
