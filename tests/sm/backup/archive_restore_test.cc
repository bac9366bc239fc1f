// labels: sim
// archive_restore_test.cc - restores to points and times with a log archive, what they refuse, and
// histories.
// LOCKSTEP_ARCHIVE_POINTS: number of random points.
#include "sm/backup/archive_prune.h"
#include "sm/backup/archiver.h"
#include "sm/backup/update_backup.h"
#include "tests/seed_of_run.h"
#include "tests/sm/backup/archive_test_util.h"
#include "threads/base/sanitized.h"

namespace lockstep::archive_restore_test {

using threads::Directory, threads::SimDisk;

class ArchiveRestore : public ::testing::Test {
protected:
    ArchiveRestore() : disk_({.seed = 1}), store_(disk_), rng_(seed_of_run()) {
        archive_options(store_.options());
    }
    // A store with a backup in the middle of its log, closed.
    void make(int before, int behind, uint64_t value_bytes = 700) {
        ASSERT_OK(store_.open());
        store_.on_thread([&] {
            Commits::make_index(*store_);
            commits_.many(*store_, rng_, before, value_bytes);
            const auto info = store_->backup("/backup");
            ASSERT_OK(info);
            backup_ = *info;
            commits_.many(*store_, rng_, behind, value_bytes);
        });
        end_ = store_.engine().log->tail();
        ASSERT_OK(store_.close());
    }
    void expect_refused(const RestoreOptions& options, const std::string& text) {
        const auto done = restore_to(disk_, "/backup", options);
        EXPECT_EQ(code_of(done), ErrorCode::bad_archive) << text_of(done);
        EXPECT_NE(text_of(done).find(text), std::string::npos) << text_of(done);
    }
    std::vector<std::string> pieces() {
        std::vector<std::string> found;
        for (const std::string& name : names_in(disk_, kArchive))
            if (sm::PieceName::parse(name)) found.push_back(name);
        return found;
    }
    // Restores to a point, opens it and compares with the model. The point reached.
    Lsn expect_state(std::optional<Lsn> until, const Commits& commits,
                     std::optional<uint64_t> history = {}, bool verify = true) {
        const auto info = restore_to(disk_, "/backup", {.until = until, .history = history});
        EXPECT_TRUE(info) << info.error().text();
        if (!info) return {};
        EXPECT_LE(info->lsn, until.value_or(kLsnMax));
        EXPECT_EQ(opened(disk_, "/restored", verify), commits.at(info->lsn));
        return info->lsn;
    }

    struct Branch {
        uint64_t history = 0;
        Commits commits;
    };
    // Restores to a point, and goes on from there as a store with a history of its own, whose
    // parent must be `parent`. `before`: the commits of the log that the restore follows.
    Branch branch_off(const RestoreOptions& options, const Commits& before, uint64_t parent) {
        const auto info = restore_to(disk_, "/backup", options);
        EXPECT_TRUE(info) << text_of(info);
        if (!info) return {};
        SimStore store(disk_, ++stores_);
        store.clock().advance(kSecond * static_cast<Nanos>(stores_));
        archive_options(store.options());
        const auto open = store.open("/restored");
        EXPECT_TRUE(open) << text_of(open);
        if (!open) return {};
        const sm::Superblock& block = store.engine().superblock;
        Branch branch{.history = block.history, .commits = {}};
        EXPECT_NE(block.history, 0u);
        EXPECT_EQ(block.history_parent, parent);
        EXPECT_EQ(block.history_begin, info->lsn.value);
        for (const Committed& commit : before.all())
            if (commit.point <= info->lsn) branch.commits.add(commit);
        Commits own;
        store.on_thread([&] { own.many(*store, rng_, 150); });
        EXPECT_TRUE(store.close());
        for (const Committed& commit : own.all()) branch.commits.add(commit);
        return branch;
    }

    SimDisk disk_;
    SimStore store_;
    uint64_t stores_ = 20;
    Rng rng_;
    Commits commits_;
    BackupInfo backup_;
    Lsn end_{};
};

TEST_F(ArchiveRestore, GivesTheStateOfAnyPoint) {
    make(100, 300);
    constexpr uint64_t kPoints = kAddressSanitizer ? 200 : 5000;  // with STEPS off and on
    const uint64_t points = number_from("LOCKSTEP_ARCHIVE_POINTS", kPoints);
    for (uint64_t n = 0; n < points && !HasFailure(); ++n) {
        const uint64_t lsn = backup_.lsn.value + rng_.below(end_.value - backup_.lsn.value + 1);
        (void)expect_state(Lsn{lsn}, commits_, {}, n % 16 == 0);
    }
    EXPECT_EQ(expect_state(backup_.lsn, commits_), backup_.lsn);
    EXPECT_GE(expect_state({}, commits_), commits_.newest());
    for (size_t i = 1; i < 5; ++i) {  // the end of a commit record, and a byte less
        const Lsn point = commits_.all()[commits_.all().size() - 20 * i].point;
        EXPECT_EQ(expect_state(point, commits_), point);
        EXPECT_LT(expect_state(Lsn{point.value - 1}, commits_), point);
    }
}

// More log than the restored store may have live.
// RC-6 does not hold there: the log of the restored store is the begin record of a checkpoint, and
// nothing else.
TEST_F(ArchiveRestore, EndsBehindTheBeginOfACheckpoint) {
    make(20, 20);
    txn::LogReader log(disk_, {.directory = "/store", .segment_bytes = 1 << 20});
    log.seek(backup_.lsn);
    Lsn point{};
    for (txn::LogRecordView record; *log.next(record);)
        if (record.header->kind == static_cast<uint16_t>(txn::TxnLogKind::checkpoint_begin))
            point = record.end();
    ASSERT_NE(point, kLsnNone);  // of the close
    EXPECT_EQ(expect_state(point, commits_), point);
}

TEST_F(ArchiveRestore, TakesMoreLogThanTheBoundOfTheLog) {
    make(20, 6000, 4000);
    EXPECT_GT(end_.value - backup_.lsn.value, uint64_t{16} << 20);
    EXPECT_GE(expect_state({}, commits_), commits_.newest());
    // All of it is in the pages.
    const auto again = restore_to(disk_, "/backup", {}, "/again");
    ASSERT_OK(again);
    EXPECT_LE(again->log_bytes, 16u << 10);
}

// The restored backup has the lsn of each page that the store has, also of those freed since.
TEST_F(ArchiveRestore, AnIncrementalBackupFollowsARestoredOne) {
    make(20, 20);
    ASSERT_OK(store_.open());
    const auto change = [&](int from, int to, bool put) {
        for (int i = from; i < to; i += 20)
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store_->index("i"));
                for (int k = i; k < i + 20; ++k) {
                    const std::string key = "row" + std::to_string(10000 + k);
                    if (put) TRY(index.put(txn, key, std::string(600, 'v')));
                    else TRY(index.erase(txn, key));
                }
                return {};
            }));
    };
    Content content;
    store_.on_thread([&] {
        change(0, 400, true);
        ASSERT_OK(store_->backup("/full"));
        change(400, 800, true);
        change(100, 780, false);
        threads::sleep_until(threads::now() + 10 * kSecond);  // the ghosts go, and leaves with them
        ASSERT_OK(store_->checkpoint());
        change(0, 20, true);
        content = content_of(*store_);
    });
    ASSERT_OK(store_.close());
    const auto restored = restore_to(disk_, "/full", {});
    ASSERT_OK(restored);
    ASSERT_OK(store_.open());
    store_.on_thread([&] {
        BackupOptions how;
        how.since = &*restored;
        ASSERT_OK(store_->backup("/next", how));
    });
    ASSERT_OK(store_.close());
    const std::string from[] = {"/restored", "/next"};
    ASSERT_OK(sm::restore_on(disk_, from, "/both"));
    EXPECT_EQ(opened(disk_, "/both"), content);
    ASSERT_OK(sm::update_on(disk_, "/restored", "/next"));
    EXPECT_EQ(opened(disk_, "/restored"), content);
}

// RSP-3. A page that a record of the log brings may be damaged in the backup.
TEST_F(ArchiveRestore, ADamagedPageIsBroughtByTheLogOrNamed) {
    make(100, 300);
    const auto file = disk_.open("/backup/data", 0);
    ASSERT_OK(file);
    sm::Page kept, damaged;
    size_t brought = 0, named = 0;
    for (uint64_t page = 2; page < backup_.pages && !HasFailure(); ++page) {
        SCOPED_TRACE("page " + std::to_string(page));
        const uint64_t offset = page * kPageBytes;
        ASSERT_OK(disk_.read_now(*file, offset, &kept, kPageBytes));
        damaged = kept;
        damaged.body[100] ^= std::byte{1};
        ASSERT_OK(disk_.write_now(*file, offset, &damaged, kPageBytes));
        const auto info = restore_to(disk_, "/backup", {});
        ASSERT_OK(disk_.write_now(*file, offset, &kept, kPageBytes));
        if (info) {
            EXPECT_EQ(opened(disk_, "/restored"), commits_.at(info->lsn));
            ++brought;
            continue;
        }
        EXPECT_EQ(code_of(info), ErrorCode::bad_backup) << text_of(info);
        EXPECT_NE(text_of(info).find("page " + std::to_string(page)), std::string::npos)
            << text_of(info);
        ++named;
    }
    disk_.close(*file);
    EXPECT_GT(brought, 0u);
    EXPECT_GT(named, 0u);
}

TEST_F(ArchiveRestore, IncrementalBackupsToo) {
    ASSERT_OK(store_.open());
    store_.on_thread([&] { commits_.with_two_backups(*store_, rng_, 100); });
    ASSERT_OK(store_.close());
    const std::string from[] = {"/full", "/next"};
    RestoreOptions options;
    options.archive = kArchive;
    const auto info = sm::restore_on(disk_, from, "/restored", options);
    ASSERT_OK(info);
    EXPECT_EQ(opened(disk_, "/restored"), commits_.at(kLsnMax));
}

TEST_F(ArchiveRestore, ToATimeHasNothingThatCommittedLater) {
    ASSERT_OK(store_.open());
    Nanos backup_at = 0;
    store_.on_thread([&] {
        Commits::make_index(*store_);
        const auto info = store_->backup("/backup");
        ASSERT_OK(info);
        backup_at = info->ended_at;
        for (int i = 0; i < 60; ++i) {
            commits_.many(*store_, rng_, 3);
            threads::sleep_until(threads::now() + rng_.below(200) * kMillisecond);
        }
    });
    const Nanos last = commits_.all().back().ended;
    ASSERT_OK(store_.close());
    ASSERT_GT(last, backup_at + 2 * kSecond);
    for (int n = 0; n < 40 && !HasFailure(); ++n) {
        const Nanos time = backup_at + rng_.below(last - backup_at - kSecond);
        const auto info = restore_to(disk_, "/backup", {.until_time = time});
        ASSERT_OK(info);
        EXPECT_EQ(opened(disk_, "/restored"), commits_.at(info->lsn));
        EXPECT_LE(info->ended_at, time);
        for (const Committed& commit : commits_.all()) {
            if (commit.point <= info->lsn) {
                EXPECT_LE(commit.began, time);
            }
            if (commit.ended <= time) {
                EXPECT_LE(commit.point, info->lsn);
            }
        }
    }
    expect_refused({.until_time = last + kSecond * 1000}, "behind the archive's end");
    expect_refused({.until_time = backup_at - 1}, "before the backup's end");
}

TEST_F(ArchiveRestore, NamesWhatCannotBeReached) {
    make(50, 2500, 4000);
    expect_refused({.until = Lsn{backup_.lsn.value - 1}}, "use an earlier backup");
    expect_refused({.until = Lsn{end_.value + 1'000'000}}, "is behind the archive's end");
    expect_refused({.archive = "/nowhere"}, "/nowhere is no archive");
    EXPECT_EQ(code_of(restore_to(disk_, "/backup", {.until = end_, .until_time = 5})),
              ErrorCode::bad_argument);
    const std::string from[] = {"/backup"};
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{65535}, (uint64_t{1} << 40) + 1}) {
        RestoreOptions memory;
        memory.memory_bytes = bytes;
        const auto refused = sm::restore_on(disk_, from, "/r1", memory);
        EXPECT_EQ(code_of(refused), ErrorCode::bad_argument);
        EXPECT_NE(text_of(refused).find("memory_bytes"), std::string::npos) << text_of(refused);
    }
    RestoreOptions no_archive;
    no_archive.until = end_;
    EXPECT_EQ(code_of(sm::restore_on(disk_, from, "/r2", no_archive)), ErrorCode::bad_argument);
}

TEST_F(ArchiveRestore, NamesAGap) {
    make(50, 2500, 4000);
    const std::vector<std::string> all = pieces();
    ASSERT_GT(all.size(), 4u);
    const std::string lost = all[all.size() - 2];
    ASSERT_OK(disk_.unlink(std::string(kArchive) + "/" + lost));
    const auto gap = sm::PieceName::parse(lost);
    expect_refused(
        {}, "gap from LSN " + std::to_string(gap->begin) + " to LSN " + std::to_string(gap->end));
    expect_refused({.until = end_}, "gap");
    (void)expect_state(Lsn{gap->begin - 5000}, commits_);  // before the gap
}

TEST_F(ArchiveRestore, NamesATruncatedFile) {
    make(50, 2500, 4000);
    const std::vector<std::string> all = pieces();
    const std::string cut = all[all.size() - 2];
    const auto file = disk_.open(std::string(kArchive) + "/" + cut, 0);
    ASSERT_OK(file);
    ASSERT_OK(disk_.truncate(*file, 8192));
    disk_.close(*file);
    expect_refused({}, cut + " is truncated");
}

TEST_F(ArchiveRestore, NamesADamagedRecord) {
    make(50, 2500, 4000);
    const std::vector<std::string> all = pieces();
    const auto file = disk_.open(std::string(kArchive) + "/" + all[all.size() - 2], 0);
    ASSERT_OK(file);
    const char bad[600] = {7};
    ASSERT_OK(disk_.write_now(*file, 40'000, bad, sizeof bad));
    disk_.close(*file);
    expect_refused({}, "no valid record at LSN");
}

TEST_F(ArchiveRestore, NamesASegmentOfAnotherStore) {
    make(50, 2500, 4000);
    SimStore other(disk_, 3);
    other.clock().advance(kSecond);
    archive_options(other.options());
    other.options().archive = "/elsewhere";
    ASSERT_OK(other.open("/other"));
    Commits theirs;
    other.on_thread([&] {
        Commits::make_index(*other);
        theirs.many(*other, rng_, 2600, 4000);
    });
    ASSERT_OK(other.close());
    expect_refused({.archive = "/elsewhere"}, "another store");
    // Segments of one number have one name.
    const std::string one = pieces()[pieces().size() / 2];
    ASSERT_TRUE(disk_.exists("/elsewhere/" + one));
    const std::string ours = std::string(kArchive) + "/" + one;
    ASSERT_OK(disk_.unlink(ours));
    copy_file(disk_, "/elsewhere/" + one, disk_, ours);
    expect_refused({}, one + " is of another store");
}

// Two stores that came from one backup archive into the directory of the first.
TEST_F(ArchiveRestore, HistoriesStayApart) {
    make(50, 200);
    const Lsn fork = commits_.all()[120].point;
    const Branch branches[] = {branch_off({.until = fork}, commits_, 0),
                               branch_off({.until = fork}, commits_, 0)};
    EXPECT_NE(branches[0].history, branches[1].history);
    EXPECT_GE(expect_state({}, commits_), commits_.newest());  // the first store's own
    for (const Branch& branch : branches)
        EXPECT_GE(expect_state({}, branch.commits, branch.history), branch.commits.newest());
    expect_refused({.history = 4711}, "no log of history");
}

// The backup has changes that the branch has never seen.
TEST_F(ArchiveRestore, RefusesAHistoryThatLeftBeforeTheBackup) {
    make(50, 200);
    const Branch branch = branch_off({.until = commits_.all()[120].point}, commits_, 0);
    ASSERT_OK(store_.open());
    store_.on_thread([&] { ASSERT_OK(store_->backup("/later")); });
    ASSERT_OK(store_.close());
    const auto done = restore_to(disk_, "/later", {.history = branch.history});
    EXPECT_EQ(code_of(done), ErrorCode::bad_archive);
    EXPECT_NE(text_of(done).find("before the backup's point"), std::string::npos) << text_of(done);
    EXPECT_GE(expect_state({}, branch.commits, branch.history), branch.commits.newest());
}

// The parent of a history is that of the last log that its restore took.
TEST_F(ArchiveRestore, AHistoryMayComeFromAnother) {
    make(50, 200);
    const Branch child = branch_off({.until = commits_.all()[120].point}, commits_, 0);
    const Branch grandchild = branch_off({.history = child.history}, child.commits, child.history);
    EXPECT_GE(expect_state({}, grandchild.commits, grandchild.history),
              grandchild.commits.newest());
    EXPECT_GE(expect_state({}, child.commits, child.history), child.commits.newest());
}

// What a kept backup needs stays, and so does what a backup that nobody names may need.
TEST_F(ArchiveRestore, PruningKeepsWhatTheKeptBackupsNeed) {
    make(100, 4000);
    const Lsn first = backup_.lsn;
    ASSERT_OK(store_.open());
    store_.on_thread([&] {
        ASSERT_OK(store_->backup("/second"));
        commits_.many(*store_, rng_, 200);
    });
    ASSERT_OK(store_.close());
    (void)branch_off({.until = commits_.all()[400].point}, commits_, 0);
    const auto second = sm::read_manifest(disk_, Directory::opened(disk_, "/second"));
    ASSERT_OK(second);

    const std::string keep[] = {"/second"}, both[] = {"/second", "/backup"};
    const std::vector<std::string> before = names_in(disk_, kArchive);
    const auto dry = sm::prune_archive(disk_, kArchive, keep, true);
    ASSERT_OK(dry);
    EXPECT_GT(dry->pieces, 1u);
    EXPECT_GT(dry->pieces_other, 0u);
    EXPECT_EQ(dry->notes, 1u);
    EXPECT_EQ(names_in(disk_, kArchive), before);
    const auto older = sm::prune_archive(disk_, kArchive, both, true);
    ASSERT_OK(older);
    EXPECT_LT(older->pieces, dry->pieces);  // the oldest decides, in whatever order

    const auto done = sm::prune_archive(disk_, kArchive, keep, false);
    ASSERT_OK(done);
    EXPECT_EQ(done->pieces, dry->pieces);
    const std::vector<std::string> left = names_in(disk_, kArchive);
    EXPECT_EQ(left.size() + done->pieces + done->notes, before.size());
    for (const std::string& name : left) {
        const auto piece = sm::PieceName::parse(name);
        EXPECT_TRUE(!piece || piece->history != second->superblock.history ||
                    piece->end > second->end)
            << name;
    }
    for (const Committed& commit : commits_.all()) {
        if (commit.point.value < second->end || rng_.below(20) != 0) continue;
        const auto info = restore_to(disk_, "/second", {.until = commit.point});
        ASSERT_OK(info);
        EXPECT_EQ(opened(disk_, "/restored", false), commits_.at(info->lsn));
    }
    expect_refused({.until = Lsn{first.value + 1}}, "gap");
    const auto again = sm::prune_archive(disk_, kArchive, keep, false);
    ASSERT_OK(again);
    EXPECT_EQ(again->pieces + again->notes, 0u);
}

TEST_F(ArchiveRestore, PruningRefusesWhatItCannotJudge) {
    make(20, 50);
    const std::vector<std::string> before = names_in(disk_, kArchive);
    const std::string keep[] = {"/backup"}, none[] = {"/none"};
    EXPECT_EQ(code_of(sm::prune_archive(disk_, kArchive, {}, false)), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(sm::prune_archive(disk_, "/store", keep, false)), ErrorCode::bad_archive);
    EXPECT_EQ(code_of(sm::prune_archive(disk_, kArchive, none, false)), ErrorCode::bad_backup);
    SimStore other(disk_, 99);
    ASSERT_OK(other.open("/other"));
    other.on_thread([&] {
        Commits::make_index(*other);
        ASSERT_OK(other->backup("/foreign"));
    });
    ASSERT_OK(other.close());
    const std::string foreign[] = {"/backup", "/foreign"};
    EXPECT_EQ(code_of(sm::prune_archive(disk_, kArchive, foreign, false)), ErrorCode::bad_archive);
    EXPECT_EQ(names_in(disk_, kArchive), before);
}

}  // namespace lockstep::archive_restore_test
