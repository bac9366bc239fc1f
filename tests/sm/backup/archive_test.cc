// labels: sim
// archive_test.cc - the log archive of a running store: what it receives, and what happens when it
// fails.
#include "sm/backup/archiver.h"
#include "tests/sm/backup/archive_test_util.h"

namespace lockstep::archive_test {

using threads::SimDisk;
using threads::SimFault;

class ArchiveTest : public ::testing::Test {
protected:
    ArchiveTest() : disk_({.seed = 1}), store_(disk_) { archive_options(store_.options()); }
    void make() {
        ASSERT_OK(store_.open());
        store_.on_thread([&] { Commits::make_index(*store_); });
    }
    // So many transactions that the log wraps several times.
    void fill(int count) {
        store_.on_thread([&] { commits_.many(*store_, rng_, count, 4000); });
    }
    void fail_archive(bool fails) {
        disk_.faults().only_paths_with(SimFault::write_error, fails ? kArchive : "none");
        disk_.faults().set_odds(SimFault::write_error, fails ? 1 : 0);
    }
    // Fills until a transaction fails; its error.
    Error fill_until_refused() {
        Error error{};
        store_.on_thread([&] {
            for (int i = 0; i < 5000; ++i) {
                const auto done = commits_.transaction(*store_, rng_, 4000);
                if (done) continue;
                error = done.error();
                return;
            }
        });
        return error;
    }
    sm::ArchiveIndex index() {
        sm::BackupManifest backup{};
        backup.superblock = block_;
        auto found = sm::ArchiveIndex::load(disk_, kArchive, backup, block_.history);
        EXPECT_TRUE(found) << found.error().text();
        return std::move(*found);
    }
    // The directory of the store becomes what it was on the other disk.
    void put_back(SimDisk& older) {
        remove_directory(disk_, "/store");
        for (const std::string& name : names_in(older, "/store"))
            copy_file(older, "/store/" + name, disk_, "/store/" + name);
    }
    void close() {
        block_ = store_.engine().superblock;
        ASSERT_OK(store_.close());
    }

    SimDisk disk_;
    SimStore store_;
    Rng rng_{1};
    Commits commits_;
    sm::Superblock block_{};
};

// Then nothing is left for the next open.
TEST_F(ArchiveTest, ACloseArchivesTheRest) {
    std::string log;
    store_.options().logger = [&](int, std::string_view text) { log += std::string(text) + "\n"; };
    make();
    fill(20);
    close();
    EXPECT_EQ(log.find("not archived"), std::string::npos) << log;
    EXPECT_GE(index().end_of_chain(txn::kLogFirst), commits_.newest().value);
}

TEST_F(ArchiveTest, ReceivesAllLogWithoutAGap) {
    make();
    fill(3000);
    EXPECT_GT(store_.engine().log->start().value, uint64_t{4} << 20);  // it was recycled
    const StoreStats stats = store_->stats();
    EXPECT_GT(stats.archive_pieces, 8u);
    EXPECT_GT(stats.archive_bytes, uint64_t{8} << 20);
    EXPECT_EQ(stats.archive_gaps + stats.archive_failures, 0u);
    EXPECT_LT(stats.archive_backlog_bytes, uint64_t{4} << 20);
    close();
    const sm::ArchiveIndex all = index();
    EXPECT_GE(all.end_of_chain(txn::kLogFirst), commits_.newest().value);
    EXPECT_FALSE(all.next_begin(all.end_of_chain(txn::kLogFirst)));
}

TEST_F(ArchiveTest, GoesOnAfterACrash) {
    make();
    fill(1500);
    store_.abandon();
    disk_.close_all();
    ASSERT_OK(store_.open());
    fill(1500);
    EXPECT_EQ(store_->stats().archive_gaps, 0u);
    close();
    EXPECT_GE(index().end_of_chain(txn::kLogFirst), commits_.newest().value);
}

// A store that had no archive yet: what its log still has belongs to the chain.
TEST_F(ArchiveTest, BeginsWithTheLogThatIsThere) {
    store_.options().archive.reset();
    make();
    fill(50);
    ASSERT_OK(store_.close());
    archive_options(store_.options());
    ASSERT_OK(store_.open());
    close();
    EXPECT_GE(index().end_of_chain(txn::kLogFirst), commits_.newest().value);
}

TEST_F(ArchiveTest, StopsWritersWhileItFailsAndTheBacklogIsFull) {
    make();
    fail_archive(true);
    const Error refused = fill_until_refused();
    EXPECT_EQ(refused.code, ErrorCode::archive_failed) << refused.text();
    EXPECT_GE(store_->stats().archive_backlog_bytes, uint64_t{2} << 20);
    EXPECT_LT(store_->stats().archive_backlog_bytes, uint64_t{4} << 20);
    EXPECT_GT(store_->stats().archive_failures, 0u);
    EXPECT_FALSE(store_->failure());
    store_.on_thread([&] { EXPECT_EQ(content_of(*store_), commits_.at(kLsnMax)); });  // reads go on
    fail_archive(false);
    store_.on_thread([&] { threads::sleep_until(threads::now() + 3 * kSecond); });
    fill(2000);
    EXPECT_EQ(store_->stats().archive_gaps, 0u);
    close();
    EXPECT_GE(index().end_of_chain(txn::kLogFirst), commits_.newest().value);
}

TEST_F(ArchiveTest, GoesOnWithAGapIfToldSo) {
    store_.options().archive_failure = ArchiveFailure::go_on;
    make();
    fill(200);
    fail_archive(true);
    fill(3000);
    EXPECT_EQ(store_->stats().archive_gaps, 1u);
    EXPECT_LT(store_.engine().log->used_bytes(), uint64_t{6} << 20);
    fail_archive(false);
    store_.on_thread([&] { threads::sleep_until(threads::now() + 3 * kSecond); });
    fill(500);
    close();
    const sm::ArchiveIndex all = index();
    const uint64_t end = all.end_of_chain(txn::kLogFirst);
    EXPECT_LT(end, commits_.newest().value);
    ASSERT_TRUE(all.next_begin(end));
    EXPECT_GE(all.end_of_chain(*all.next_begin(end)), commits_.newest().value);
}

// The log of the last write is given up while that write waits, and then it succeeds: nothing is
// missing. The gap that comes later is counted all the same.
TEST_F(ArchiveTest, CountsAGapBehindALateSuccess) {
    enum { works, waits, fails } archive = waits;
    store_.options().archive.reset();
    store_.options().archive_failure = ArchiveFailure::go_on;
    store_.options().archive_backlog_bytes = store_.options().log_segment_bytes;
    store_.options().archive_sink = [&](std::string_view, uint64_t offset, Slice) -> Result<void> {
        if (archive == fails) return fail(ErrorCode::io_error, "tape");
        while (archive == waits && offset == 0 && store_->stats().archive_gaps == 0)
            threads::sleep_until(threads::now() + kMillisecond);
        return {};
    };
    make();
    const auto fill_until = [&](auto done) {
        store_.on_thread([&] {
            for (int i = 0; i < 5000 && !done(); ++i)
                ASSERT_OK(commits_.transaction(*store_, rng_, 4000));
        });
    };
    // The piece of the first segment begins.
    fill_until(
        [&] { return store_.engine().log->durable().value > store_.options().log_segment_bytes; });
    store_.on_thread([&] { threads::sleep_until(threads::now() + 2 * sm::Archiver::kAttemptMax); });
    EXPECT_EQ(store_->stats().archive_gaps, 0u);
    EXPECT_EQ(store_->stats().archive_pieces, 0u);
    fill_until([&] { return store_->stats().archive_gaps > 0; });
    archive = works;
    store_.on_thread([&] { threads::sleep_until(threads::now() + 3 * kSecond); });
    EXPECT_GT(store_->stats().archive_pieces, 1u);
    EXPECT_EQ(store_->stats().archive_gaps, 1u);
    archive = fails;
    fill_until([&] { return store_->stats().archive_gaps > 1; });
    EXPECT_EQ(store_->stats().archive_gaps, 2u);
    archive = works;
    close();
}

// A full device of the archive is a failure as any other.
TEST_F(ArchiveTest, AFullArchiveStopsWritersAndNothingIsLost) {
    make();
    disk_.faults().only_paths_with(SimFault::no_space_write, kArchive);
    disk_.faults().set_odds(SimFault::no_space_write, 1);
    EXPECT_EQ(fill_until_refused().code, ErrorCode::archive_failed);
    disk_.faults().set_odds(SimFault::no_space_write, 0);
    close();  // archives the rest
    EXPECT_GE(index().end_of_chain(txn::kLogFirst), commits_.newest().value);
}

TEST_F(ArchiveTest, AFunctionReceivesTheSameFiles) {
    std::map<std::string, std::string> files;
    int refusals = 2;
    store_.options().archive.reset();
    store_.options().archive_sink = [&](std::string_view name, uint64_t offset,
                                        Slice bytes) -> Result<void> {
        if (offset == 0 && refusals-- > 0) return fail(ErrorCode::io_error, "tape");
        std::string& file = files[std::string(name)];
        if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size());
        file.replace(offset, bytes.size(), bytes);
        return {};
    };
    make();
    fill(200);
    store_.on_thread([&] { threads::sleep_until(threads::now() + 5 * kSecond); });
    fill(1500);
    const auto newest = commits_.newest().value;
    EXPECT_EQ(store_->stats().archive_failures, 2u);
    close();
    uint64_t end = txn::kLogFirst;
    for (const auto& [name, bytes] : files) {
        const auto piece = sm::PieceName::parse(name);
        ASSERT_TRUE(piece) << name;
        EXPECT_EQ(piece->begin, end);
        EXPECT_EQ(bytes.size(), piece->file_bytes());
        end = piece->end;
    }
    EXPECT_GE(end, newest);
}

// Names alone make the index. Pieces of one history may overlap, and lie within each other.
TEST_F(ArchiveTest, TheIndexFindsThePieceThatReachesFarthest) {
    make();
    close();
    for (const std::string& name : names_in(disk_, kArchive))
        if (sm::PieceName::parse(name)) {
            ASSERT_OK(disk_.unlink(std::string(kArchive) + "/" + name));
        }
    const auto add = [&](uint64_t history, uint64_t begin, uint64_t end) {
        const std::string name = sm::PieceName{history, begin, end}.text();
        const auto file = disk_.open(std::string(kArchive) + "/" + name, threads::Disk::kCreate);
        ASSERT_OK(file);
        disk_.close(*file);
    };
    const uint64_t own = block_.history;
    add(own, 4096, 8192);
    add(own, 4096, 12288);
    add(own, 8192, 10240);
    add(own, 12288, 20480);
    add(own, 16384, 24576);
    add(own, 32768, 40960);
    add(own + 1, 4096, 50000);
    const sm::ArchiveIndex all = index();
    for (const auto& [lsn, end] : std::map<uint64_t, uint64_t>{
             {4096, 12288}, {9000, 12288}, {12288, 20480}, {16384, 24576}, {24568, 24576}}) {
        const auto place = all.at(lsn);
        ASSERT_TRUE(place) << lsn;
        EXPECT_EQ(place->end, end) << lsn;
        EXPECT_EQ(place->piece.history, own);
    }
    EXPECT_FALSE(all.at(24576));
    EXPECT_FALSE(all.at(40960));
    EXPECT_EQ(all.end_of_chain(4096), 24576u);
    EXPECT_EQ(all.next_begin(24576), 32768u);
    EXPECT_FALSE(all.next_begin(40960));
}

TEST_F(ArchiveTest, IsRefusedIfItIsNotTheStores) {
    make();
    fill(20);
    close();
    SimStore other(disk_, 3);
    other.clock().advance(kSecond);  // its number comes from the clock
    archive_options(other.options());
    const auto opened = other.open("/other");
    EXPECT_EQ(code_of(opened), ErrorCode::bad_archive);
    EXPECT_NE(text_of(opened).find("another store"), std::string::npos) << text_of(opened);
}

// An older copy of the store would write other log under the same names.
TEST_F(ArchiveTest, IsRefusedIfItIsAheadOfTheStore) {
    make();
    fill(20);
    auto older = disk_.image(1, threads::SimCrash::keep_all);
    fill(500);
    close();
    put_back(*older);
    const auto opened = store_.open();
    EXPECT_EQ(code_of(opened), ErrorCode::bad_archive);
    EXPECT_NE(text_of(opened).find("another copy"), std::string::npos) << text_of(opened);
}

// AR-6: an open that is refused appends nothing. Else the log of a copy that was killed would
// overtake the archive after some attempts.
TEST_F(ArchiveTest, IsRefusedAsOftenAsTheStoreIsOpened) {
    make();
    fill(20);
    auto older = disk_.image(1, threads::SimCrash::keep_all);
    fill(1);
    close();
    put_back(*older);
    for (int attempts = 0; attempts < 200 && !HasFailure(); ++attempts)
        EXPECT_EQ(code_of(store_.open()), ErrorCode::bad_archive) << attempts;
}

// AF-1: a process that is killed between the renaming of a piece and the sync of the directory
// leaves a name that a power cut may take away. No log is recycled for it before it is durable.
TEST_F(ArchiveTest, APieceThatWasNamedBeforeAKillIsKept) {
    make();
    disk_.faults().only_paths_with(SimFault::sync_error, kArchive);
    std::string piece;
    disk_.observe([&](const threads::SimEvent& event) {
        if (event.kind != threads::SimEvent::renamed || event.io == threads::IoKind::sync) return;
        if (!event.path.starts_with(kArchive) || !event.path.ends_with(".log")) return;
        piece = event.path;
        disk_.faults().set_odds(SimFault::sync_error, 1);
    });
    for (int i = 0; i < 1000 && piece.empty(); ++i) fill(1);
    ASSERT_FALSE(piece.empty());
    disk_.observe(nullptr);
    EXPECT_FALSE(disk_.image(1, threads::SimCrash::drop_unsynced)->exists(piece));
    ASSERT_OK(store_->checkpoint());  // one that is under way would leave memory on its stack
    store_.abandon();
    disk_.close_all();
    disk_.faults().set_odds(SimFault::sync_error, 0);
    fail_archive(true);  // no later piece syncs the directory
    ASSERT_OK(store_.open());
    ASSERT_TRUE(store_.step_until([&] { return !disk_.exists("/store/log.00000000"); }));
    EXPECT_TRUE(disk_.image(1, threads::SimCrash::drop_unsynced)->exists(piece));
    fail_archive(false);
    ASSERT_OK(store_.close());
}

TEST(ArchiveOptions, AreChecked) {
    Options options;
    options.archive = "/a";
    EXPECT_TRUE(check_options(options));
    options.archive_backlog_bytes = options.log_bytes;
    EXPECT_EQ(code_of(check_options(options)), ErrorCode::bad_option);
    options.archive_backlog_bytes = std::nullopt;
    options.archive_interval = 1;
    EXPECT_EQ(code_of(check_options(options)), ErrorCode::bad_option);
    options.archive_interval = std::nullopt;
    options.archive_sink = [](std::string_view, uint64_t, Slice) -> Result<void> { return {}; };
    EXPECT_EQ(code_of(check_options(options)), ErrorCode::bad_option);
}

// What can be left out is std::nullopt. Zero, the largest number and an empty path are refused.
TEST(ArchiveOptions, ZeroIsNoOmission) {
    const auto refused = [](auto change) {
        Options options;
        EXPECT_TRUE(check_options(options));
        change(options);
        return code_of(check_options(options)) == ErrorCode::bad_option;
    };
    for (const uint64_t number : {uint64_t{0}, UINT64_MAX}) {
        EXPECT_TRUE(refused([&](Options& o) { o.transaction_age_max = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.checkpoint_log_bytes = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.version_bytes = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.slice_warning = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.archive_interval = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.archive_backlog_bytes = number; }));
        EXPECT_TRUE(refused([&](Options& o) { o.escalate_at = static_cast<uint32_t>(number); }));
    }
    EXPECT_TRUE(refused([](Options& o) { o.archive = ""; }));
    EXPECT_FALSE(refused([](Options& o) {
        o.transaction_age_max = std::nullopt;
        o.checkpoint_log_bytes = o.version_bytes = o.archive_backlog_bytes = std::nullopt;
        o.slice_warning = o.archive_interval = std::nullopt;
        o.escalate_at = std::nullopt;
        o.archive = std::nullopt;
    }));
}

}  // namespace lockstep::archive_test
