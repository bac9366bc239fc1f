// labels: sim
// failure_test.cc - a store that has stopped says which operation failed on which file with which
// errno: in the errors, in the log callback, and in Store::failure().
#include <gtest/gtest.h>

#include <thread>

#include "tests/sim_store.h"

namespace lockstep::failure_test {

using threads::SimFault;

class Failure : public ::testing::Test {
protected:
    void SetUp() override {
        store_.options().log_bytes = 16 << 20;
        ASSERT_TRUE(store_.open());
        ASSERT_TRUE(on_thread([&]() -> Result<void> {
            return store_->run(
                [&](Txn& txn) -> Result<void> { return made(store_->create_index(txn, "i")); });
        }));
        // The keeper's work is done before the faults begin.
        store_.on_thread([] { sleep_for(kSecond); });
        EXPECT_FALSE(store_->failure());
        EXPECT_EQ(store_->stats().failed, 0u);
        EXPECT_GE(store_->stats().uptime_nanos, kSecond);
    }
    static Result<void> made(const Result<Index>& index) {
        if (!index) return std::unexpected(index.error());
        return {};
    }
    Result<void> on_thread(std::function<Result<void>()> fn) {
        Result<void> done;
        store_.on_thread([&] { done = fn(); });
        return done;
    }
    // A durable transaction.
    Result<void> put(const std::string& key, size_t bytes = 10) {
        return on_thread([&]() -> Result<void> {
            return store_->run([&](Txn& txn) -> Result<void> {
                return TRY(store_->index("i")).put(txn, key, std::string(bytes, 'v'));
            });
        });
    }
    // The error, what comes after it, the logger and failure() agree.
    void expect_stopped(const Error& error, const char* what, const std::string& file, int os) {
        EXPECT_EQ(error.code, ErrorCode::store_failed) << error.text();
        const auto failure = store_->failure();
        ASSERT_TRUE(failure);
        EXPECT_STREQ(failure->what, what);
        EXPECT_EQ(failure->file, file);
        EXPECT_EQ(failure->cause.os, os);
        EXPECT_EQ(store_->stats().failed, 1u);
        expect_names(error, what, os);
        const Result<void> later = put("later");
        ASSERT_FALSE(later);
        expect_names(later.error(), what, os);
        EXPECT_NE(store_.errors().find("the store stops: " + failure->text()), std::string::npos)
            << store_.errors();
        for (const std::string& part : {std::string(what), file, std::to_string(os)})
            EXPECT_NE(failure->text().find(part), std::string::npos) << failure->text();

        const auto closed = store_->close();
        ASSERT_FALSE(closed);
        expect_names(closed.error(), what, os);
        ASSERT_TRUE(store_->failure()) << "it still says it after close()";
        EXPECT_EQ(store_->failure()->file, file);
    }
    static void expect_names(const Error& error, const char* what, int os) {
        EXPECT_EQ(error.code, ErrorCode::store_failed);
        EXPECT_EQ(error.os, os);
        EXPECT_NE(error.text().find(what), std::string::npos) << error.text();
        if (os != 0) {
            EXPECT_NE(error.text().find(strerror(os)), std::string::npos) << error.text();
        }
    }
    void fail_next(SimFault fault, std::string path_end) {
        disk_.faults().only_paths_ending_with(fault, std::move(path_end));
        disk_.faults().fail_nth(fault, 1);
    }
    void spoil(const std::string& path) {
        const auto file = disk_.open(path, 0);
        ASSERT_TRUE(file) << path;
        const uint64_t bytes = disk_.size(*file).value_or(0);
        disk_.close(*file);
        for (uint64_t at = 0; at < bytes; at += 512) disk_.spoil_sector(path, at);
    }
    void spoil_log() {
        const auto names = disk_.list("/store");
        ASSERT_TRUE(names);
        for (const std::string& name : *names)
            if (name.starts_with("log.0")) spoil("/store/" + name);
    }

    threads::SimDisk disk_;
    SimStore store_{disk_};
};

TEST_F(Failure, ALogWrite) {
    fail_next(SimFault::write_error, "log.00000000");
    const auto done = put("a");
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "write and sync of log segment", "/store/log.00000000", EIO);
}

TEST_F(Failure, ALogWriteOnAFullDisk) {
    fail_next(SimFault::no_space_write, "log.00000000");
    const auto done = put("a");
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "write and sync of log segment", "/store/log.00000000", ENOSPC);
}

TEST_F(Failure, ALogSync) {
    fail_next(SimFault::sync_error, "log.00000000");
    const auto done = put("a");
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "write and sync of log segment", "/store/log.00000000", EIO);
}

TEST_F(Failure, TheDurableEndRecord) {
    fail_next(SimFault::write_error, "log.mark");
    ASSERT_TRUE(put("a"));
    store_.on_thread([] { sleep_for(kSecond); });
    const auto done = put("b");
    // The second mark notices what became of the first.
    store_.on_thread([] { sleep_for(kSecond); });
    const auto later = done ? put("c") : done;
    ASSERT_FALSE(later);
    expect_stopped(later.error(), "write and sync of log.mark", "/store/log.mark", EIO);
}

TEST_F(Failure, TheDirectoryOfANewSegment) {
    fail_next(SimFault::sync_error, "/store");
    Result<void> done;
    for (int n = 0; n < 40 && done; ++n) done = put("k" + std::to_string(n), 100'000);
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "sync of directory", "/store", EIO);
}

TEST_F(Failure, ADataSync) {
    ASSERT_TRUE(put("a"));
    fail_next(SimFault::sync_error, "/data");
    const auto done = on_thread([&] { return store_->checkpoint(); });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::io_error);
    EXPECT_EQ(done.error().os, EIO);
    const auto refused = put("b");
    ASSERT_FALSE(refused);
    expect_stopped(refused.error(), "sync of data file", "/store/data", EIO);
}

// The second sync of a checkpoint: a repeated one may succeed although the superblock is lost.
TEST_F(Failure, ASuperblockSync) {
    ASSERT_TRUE(put("a"));
    disk_.faults().only_paths_ending_with(SimFault::sync_error, "/data");
    disk_.faults().fail_nth(SimFault::sync_error, 2);
    const auto done = on_thread([&] { return store_->checkpoint(); });
    ASSERT_FALSE(done);
    EXPECT_STREQ(done.error().what, "superblock");
    const auto refused = put("b");
    ASSERT_FALSE(refused);
    expect_stopped(refused.error(), "sync of data file", "/store/data", EIO);
}

// The last write of the log comes after the checkpoint of close() has succeeded.
TEST_F(Failure, WhatStopsTheStoreWhileItClosesReachesTheCaller) {
    ASSERT_TRUE(put("a"));
    store_.on_thread([] { sleep_for(kSecond); });
    disk_.faults().only_paths_ending_with(SimFault::write_error, "log.mark");
    disk_.faults().set_odds(SimFault::write_error, 1);
    const auto closed = store_->close();
    const auto failure = store_->failure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->file, "/store/log.mark");
    ASSERT_FALSE(closed);
    expect_names(closed.error(), "write and sync of log.mark", EIO);
    const auto again = store_->close();
    ASSERT_FALSE(again);
    expect_names(again.error(), "write and sync of log.mark", EIO);
    disk_.faults().enable(false);
    EXPECT_TRUE(store_.open());
}

// A page that cannot be written stays in memory: no reason to stop.
TEST_F(Failure, ADataWriteStopsNothing) {
    ASSERT_TRUE(put("a"));
    // For a while: the I/O stage repeats what failed as a part of a larger write.
    disk_.faults().only_paths_ending_with(SimFault::write_error, "/data");
    disk_.faults().fail_nth(SimFault::write_error, 1, 100);
    const auto done = on_thread([&] { return store_->checkpoint(); });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::io_error);
    EXPECT_EQ(done.error().os, EIO);
    EXPECT_STREQ(done.error().what, "write of data page");
    EXPECT_FALSE(store_->failure());
    disk_.faults().enable(false);
    EXPECT_TRUE(put("b"));
    EXPECT_TRUE(store_.close());
}

TEST_F(Failure, ALogReadOfARollback) {
    std::string file;
    const auto done = on_thread([&]() -> Result<void> {
        Txn txn = TRY(store_->begin());
        TRY(TRY(store_->index("i")).put(txn, "a", "1"));
        // So much that what was logged before is in memory no more.
        for (int n = 0; n < 40; ++n)
            TRY(store_->run([&](Txn& other) -> Result<void> {
                return TRY(store_->index("i"))
                    .put(other, "k" + std::to_string(n), std::string(100'000, 'v'));
            }));
        spoil_log();
        EXPECT_FALSE(txn.abort());
        return store_->checkpoint();
    });
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "read of log segment", "/store/log.00000000", EIO);
}

TEST_F(Failure, ADataReadOfARollback) {
    // More than the pool holds, in an index of its own.
    ASSERT_TRUE(on_thread([&]() -> Result<void> {
        TRY(store_->run([&](Txn& txn) { return made(store_->create_index(txn, "large")); }));
        for (uint32_t n = 0; n < 120; ++n)
            TRY(store_->run([&](Txn& txn) -> Result<void> {
                const Index large = TRY(store_->index("large"));
                for (uint32_t k = 0; k < 40; ++k)
                    TRY(large.put(txn, Key().u32(n * 40 + k), std::string(1800, 'v')));
                return {};
            }));
        return store_->checkpoint();
    }));
    const auto done = on_thread([&]() -> Result<void> {
        Txn txn = TRY(store_->begin());
        TRY(TRY(store_->index("i")).put(txn, "a", "1"));
        TRY(store_->checkpoint());  // a clean page is evicted soon
        for (int pass = 0; pass < 3; ++pass)
            TRY(store_->run([&](Txn& other) -> Result<void> {
                const Index large = TRY(store_->index("large"));
                std::string value;
                for (uint32_t k = 0; k < 120 * 40; k += 2)
                    TRY(large.get(other, Key().u32(k), value));
                return {};
            }));
        spoil_log();  // so that the page cannot be rebuilt
        spoil("/store/data");
        EXPECT_FALSE(txn.abort());
        return store_->checkpoint();
    });
    ASSERT_FALSE(done);
    expect_stopped(done.error(), "read of data file", "/store/data", EIO);
}

TEST_F(Failure, TheFirstOfSeveralStays) {
    fail_next(SimFault::write_error, "log.00000000");
    const auto done = put("a");
    ASSERT_FALSE(done);
    store_.engine().log->fail_store(
        {.what = "another", .file = "/other", .cause = {.code = ErrorCode::io_error, .os = ENXIO}});
    expect_stopped(done.error(), "write and sync of log segment", "/store/log.00000000", EIO);
}

// A store that has stopped is opened again, and the disk is still full.
TEST_F(Failure, AFullDiskIsNamedAlsoAtTheNextOpen) {
    const auto fill = [&] {
        Result<void> done;
        for (int n = 0; done && n < 10'000; ++n) done = put("k" + std::to_string(n), 3000);
        return done;
    };
    disk_.faults().only_paths_with(SimFault::no_space_allocate, "/log.");
    disk_.faults().set_odds(SimFault::no_space_allocate, 1);
    ASSERT_FALSE(fill());
    store_.engine().log->fail_store({.what = "a write that needs space",
                                     .file = "/store/log.00000000",
                                     .cause = {.code = ErrorCode::no_space, .os = ENOSPC}});
    EXPECT_FALSE(store_.close());
    ASSERT_TRUE(store_.open());
    const Result<void> again = fill();
    ASSERT_FALSE(again);
    const std::string text = again.error().text();
    EXPECT_EQ(again.error().code, ErrorCode::no_space) << text;
    EXPECT_NE(text.find("/store has no space for more of the log; free some"), std::string::npos)
        << text;
    disk_.faults().set_odds(SimFault::no_space_allocate, 0);
    (void)put("a");  // it asks for space
    store_.on_thread([] { sleep_for(kSecond); });
    EXPECT_TRUE(put("b"));
    EXPECT_TRUE(store_.close());
}

// Any kernel thread may ask at any time.
TEST_F(Failure, IsSeenWholeByOtherThreads) {
    std::string seen;
    std::thread reader([&] {
        while (seen.empty())
            if (const auto failure = store_->failure()) seen = failure->text();
    });
    fail_next(SimFault::sync_error, "log.00000000");
    EXPECT_FALSE(put("a"));
    reader.join();
    EXPECT_EQ(seen,
              "write and sync of log segment failed on /store/log.00000000: Input/output error "
              "(errno 5)");
    EXPECT_FALSE(store_.close());
}

}  // namespace lockstep::failure_test
