// labels: sim
// backup_fault_test.cc - the target of a backup fails, is full, or loses writes: the store goes on,
// and no bad backup passes for a good one.
#include <gtest/gtest.h>

#include <algorithm>

#include "sm/backup/restore.h"
#include "sm/backup/verify_backup.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep {
namespace {

using threads::SimDisk;
using threads::SimFault;

constexpr const char* kBackup = "/backup";
constexpr int kRows = 300;

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
    void expect_whole() {
        const auto manifest = sm::read_manifest(disk_, kBackup);
        ASSERT_OK(manifest);
        const auto faults = faults_of(*manifest);
        ASSERT_OK(faults);
        EXPECT_TRUE(faults->empty()) << faults->front();
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
    for (const SimFault fault : {SimFault::lost_write, SimFault::misdirected_write}) {
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
            // A restore makes the superblocks anew.
            const bool whole = std::ranges::all_of(
                *faults, [](const auto& text) { return text.ends_with("no superblock"); });
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

}  // namespace
}  // namespace lockstep
