// labels: sim
// archive_time_test.cc - restores to a time: what was durable before it is there, whatever the
// archiver and the flusher were kept from, and nothing that committed later.
#include "sm/backup/backup_manifest.h"
#include "tests/seed_of_run.h"
#include "tests/sm/backup/archive_test_util.h"

namespace lockstep::archive_time_test {

using threads::SimDisk;

class ArchiveTime : public ::testing::Test {
protected:
    ArchiveTime() : disk_({.seed = 1}), rng_(seed_of_run()) {}
    void begin(SimStore& store) {
        archive_options(store.options());
        store.options().archive_interval = 100 * kMillisecond;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            Commits::make_index(*store);
            const auto info = store->backup("/backup");
            ASSERT_OK(info);
            from_ = info->ended_at;
        });
    }
    void fail_archive(bool fails) {
        disk_.faults().only_paths_with(threads::SimFault::write_error, fails ? kArchive : "none");
        disk_.faults().set_odds(threads::SimFault::write_error, fails ? 1 : 0);
    }
    // By the times of the commits, not by LSNs.
    static void expect_times(SimDisk& disk, const Commits& commits, Nanos time) {
        const auto info = restore_to(disk, "/backup", {.until_time = time});
        ASSERT_OK(info);
        EXPECT_LE(info->ended_at, time);
        EXPECT_EQ(opened(disk, "/restored", false), commits.at(info->lsn)) << time;
        for (const Committed& commit : commits.all()) {
            if (commit.ended <= time) {
                EXPECT_LE(commit.point, info->lsn)
                    << "durable " << time - commit.ended << " ns before the time";
            }
            if (commit.point <= info->lsn) {
                EXPECT_LE(commit.began, time);
            }
        }
    }
    // Each moment at which a commit returned, and the nanosecond before it.
    void expect_each_moment(size_t most) {
        const size_t step = std::max<size_t>(1, commits_.all().size() / most);
        for (size_t i = 0; i + 1 < commits_.all().size() && !HasFailure(); i += step)
            for (const Nanos before : {0, 1})
                if (commits_.all()[i].ended - before >= from_)
                    expect_times(disk_, commits_, commits_.all()[i].ended - before);
    }

    SimDisk disk_;
    Rng rng_;
    Commits commits_;
    Nanos from_ = 0;  // the backup's end
};

// The archiver tries again each second only. The time of a commit must not depend on its turns.
TEST_F(ArchiveTime, AnArchiveThatFailsForSecondsLosesNoTime) {
    SimStore store(disk_);
    begin(store);
    store.on_thread([&] {
        fail_archive(true);
        for (int i = 0; i < 80; ++i) {
            commits_.many(*store, rng_, 2);
            threads::sleep_until(threads::now() + rng_.below(150) * kMillisecond);
        }
        fail_archive(false);
        threads::sleep_until(threads::now() + 2 * kSecond);
        commits_.many(*store, rng_, 1);
    });
    EXPECT_GT(store->stats().archive_failures, 2u);
    ASSERT_OK(store.close());
    expect_each_moment(60);
}

// A worker that is kept busy gives the archiver and the flusher no turn: the commits wait, too.
TEST_F(ArchiveTime, AThreadThatKeepsTheWorkerLosesNoTime) {
    SimStore store(disk_);
    begin(store);
    store.on_thread([&] {
        for (int i = 0; i < 40; ++i) {
            commits_.many(*store, rng_, 2);
            store.clock().advance(rng_.below(700) * kMillisecond);
        }
    });
    ASSERT_OK(store.close());
    expect_each_moment(40);
}

// Workers append while the flusher writes.
TEST_F(ArchiveTime, CommitsOfSeveralWorkersLieBelowTheirTime) {
    SimStore store(disk_, seed_of_run(), 3);
    store.interrupt_one_in(4);
    begin(store);
    int left = 6;
    const auto work = [&]() -> Result<void> {
        for (int i = 0; i < 40; ++i) {
            const auto done = commits_.transaction(*store, rng_);
            EXPECT_TRUE(done || done.error().code == ErrorCode::deadlock) << text_of(done);
        }
        --left;
        return {};
    };
    std::vector<Handle<void>> threads;
    for (int thread = 0; thread < 6; ++thread) threads.push_back(store->start(work, thread % 3));
    ASSERT_TRUE(store.step_until([&] { return left == 0; }, 100));
    store.on_thread([&] { commits_.many(*store, rng_, 1); });
    ASSERT_OK(store.close());
    expect_each_moment(100);
}

// After a crash, too: what was acknowledged before it has its time.
TEST_F(ArchiveTime, ACrashLosesNoTime) {
    for (uint64_t round = 0; round < 10 && !HasFailure(); ++round) {
        SimDisk disk({.seed = round + 1});
        SimStore store(disk, round + 1);
        archive_options(store.options());
        ASSERT_OK(store.open());
        Commits commits;
        store.on_thread([&] {
            Commits::make_index(*store);
            ASSERT_OK(store->backup("/backup"));
            commits.many(*store, rng_, 30);
        });
        const Nanos last = commits.all().back().ended;
        const auto image = disk.image(round, threads::SimCrash::drop_unsynced);
        store.abandon();
        SimStore again(*image, round + 50);
        archive_options(again.options());
        again.clock().advance(last + 10 * kSecond);
        ASSERT_OK(again.open());
        again.on_thread([&] {
            ASSERT_OK(again->run([&](Txn& txn) -> Result<void> {
                return TRY(again->index("i")).put(txn, "behind", "the crash");
            }));
        });
        ASSERT_OK(again.close());
        for (const Nanos behind : {Nanos{0}, kMillisecond, 5 * kSecond})
            expect_times(*image, commits, last + behind);
    }
}

// Zero is a time as any other, and an LSN: both are before the backup.
TEST_F(ArchiveTime, ZeroIsAPoint) {
    SimStore store(disk_);
    store.clock().advance(kSecond);
    begin(store);
    store.on_thread([&] { commits_.many(*store, rng_, 3); });
    ASSERT_OK(store.close());
    const auto expect_refused = [&](const RestoreOptions& options, ErrorCode code,
                                    const char* text) {
        const auto done = restore_to(disk_, "/backup", options);
        EXPECT_EQ(code_of(done), code) << text_of(done);
        EXPECT_NE(text_of(done).find(text), std::string::npos) << text_of(done);
        const std::string backups[] = {"/backup"};
        RestoreOptions same = options;
        if (!same.archive) same.archive = kArchive;
        const auto faults = sm::verify_on(disk_, backups, same);
        if (code == ErrorCode::bad_argument) {
            EXPECT_EQ(code_of(faults), code);
        } else {
            ASSERT_OK(faults);
            ASSERT_EQ(faults->size(), 1u);
            EXPECT_NE(faults->front().find(text), std::string::npos) << faults->front();
        }
    };
    expect_refused({.until_time = 0}, ErrorCode::bad_archive, "before the backup's end");
    expect_refused({.until = kLsnNone}, ErrorCode::bad_archive, "before the backup's point");
    expect_refused({.until_time = kNever}, ErrorCode::bad_archive, "behind the archive's end");
    expect_refused({.until = kLsnMax}, ErrorCode::bad_archive, "behind the archive's end");
    expect_refused({.archive = ""}, ErrorCode::bad_argument, "empty");
}

}  // namespace lockstep::archive_time_test
