// labels: unit
// io_wait_test.cc - I/O of user threads against a disk that the test completes by
// hand: batches, order, errors.
#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "threads/io/io.h"
#include "threads/runtime/runtime.h"
#include "threads/worker/io_wait.h"

namespace lockstep::threads::io_wait_test {

// Records batches; poll() completes as many requests as the test allows, last first.
class HandQueue final : public IoQueue {
public:
    struct Log {
        std::vector<std::vector<uint64_t>> batches;  // offsets
        size_t allowed = 0;
        int64_t result = 0;  // 0: the whole transfer
    };
    explicit HandQueue(Log& log) : log_(log) {}
    const char* name() const override { return "hand"; }
    void submit(IoRequest* first, size_t count) override {
        auto& batch = log_.batches.emplace_back();
        for (IoRequest* r = first; r != nullptr; r = r->next) {
            batch.push_back(r->offset);
            waiting_.push_back(r);
        }
        EXPECT_EQ(batch.size(), count);
    }
    size_t poll() override {
        size_t n = 0;
        for (; log_.allowed > 0 && !waiting_.empty(); --log_.allowed, ++n) {
            IoRequest* r = waiting_.back();
            waiting_.pop_back();
            r->result = log_.result != 0
                            ? log_.result
                            : static_cast<int64_t>(r->iov_count > 0 ? r->iov[0].iov_len : 0);
            if (r->kind == IoKind::read)
                std::memset(r->iov[0].iov_base, static_cast<int>(r->offset), r->iov[0].iov_len);
            r->done(r);
        }
        return n;
    }
    size_t wait(Nanos) override { return poll(); }
    void wake() override {}
    size_t in_flight() const override { return waiting_.size(); }

private:
    Log& log_;
    std::vector<IoRequest*> waiting_;
};

class HandDisk final : public Disk {
public:
    HandQueue::Log log;
    Result<FileId> open(const Place&, uint32_t) override { return FileId{3}; }
    void close(FileId) override {}
    Result<uint64_t> size(FileId) override { return no(); }
    Result<void> allocate(FileId, uint64_t) override { return no(); }
    Result<void> truncate(FileId, uint64_t) override { return no(); }
    Result<void> rename(const Place&, const Place&) override { return no(); }
    Result<void> unlink(const Place&) override { return no(); }
    Result<void> make_directory(const Place&) override { return no(); }
    Result<std::vector<std::string>> list(const Place&) override { return no(); }
    bool exists(const Place&) override { return false; }
    Result<void> sync_directory(const Place&) override { return no(); }
    Result<DirectoryId> open_directory(const Place&) override { return no(); }
    void close_directory(DirectoryId) override {}
    std::string path_of(DirectoryId) override { return {}; }
    Result<void> lock_exclusive(FileId) override { return no(); }
    Result<size_t> read_now(FileId, uint64_t, void*, size_t) override { return no(); }
    Result<void> write_now(FileId, uint64_t, const void*, size_t) override { return no(); }
    Result<void> sync_now(FileId) override { return no(); }
    Result<std::unique_ptr<IoQueue>> make_queue(uint32_t, const Clock&) override {
        if (refuse) return fail_os(ErrorCode::io_error, EPERM, "I/O queue");
        return std::make_unique<HandQueue>(log);
    }
    bool refuse = false;

private:
    static std::unexpected<Error> no() { return fail(ErrorCode::unsupported); }
};

class IoWait : public ::testing::Test {
protected:
    void spawn(ThreadFn fn) { ASSERT_TRUE(runtime_->spawn(0, "test", std::move(fn))); }
    void run_until_idle() {
        while (runtime_->step()) {}
    }
    HandDisk disk_;
    std::unique_ptr<Runtime> runtime_ = *Runtime::start({.caller_driven = true, .disk = &disk_});
};

TEST_F(IoWait, ReadParksUntilComplete) {
    char data[8] = {};
    bool done = false;
    spawn([&] {
        auto n = io_read(FileId{3}, 7, data, sizeof data, "test file");
        EXPECT_TRUE(n && *n == sizeof data);
        done = true;
    });
    run_until_idle();
    EXPECT_FALSE(done);
    EXPECT_EQ(runtime_->stats().parks[static_cast<size_t>(ParkReason::page_read)], 1u);
    disk_.log.allowed = 1;
    run_until_idle();
    EXPECT_TRUE(done);
    EXPECT_EQ(data[0], 7);
    EXPECT_EQ(data[7], 7);
}

TEST_F(IoWait, StartedRequestsFormOneBatch) {
    std::vector<int> order;
    spawn([&] {
        IoRequest requests[5];
        char data[5];
        for (uint64_t i = 0; i < 5; ++i) {
            requests[i].file = FileId{3};
            requests[i].offset = 10 * i;  // no neighbours: those would be joined
            requests[i].iov[0] = {&data[i], 1};
            requests[i].iov_count = 1;
            io_start(requests[i]);
        }
        for (auto& request : requests) {
            io_wait(request, ParkReason::io);
            order.push_back(static_cast<int>(request.offset / 10));
        }
    });
    disk_.log.allowed = 5;
    run_until_idle();
    ASSERT_EQ(disk_.log.batches.size(), 1u);
    EXPECT_EQ(disk_.log.batches[0], (std::vector<uint64_t>{0, 10, 20, 30, 40}));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_F(IoWait, FullBatchGoesOutEarly) {
    bool done = false;
    spawn([&] {
        std::vector<IoRequest> requests(70);
        for (uint64_t i = 0; i < 70; ++i) {
            requests[i].kind = IoKind::sync;
            // Each its own: syncs of one file would be merged.
            requests[i].file = FileId{static_cast<int32_t>(i)};
            requests[i].offset = i;
            io_start(requests[i]);
        }
        for (auto& request : requests) io_wait(request, ParkReason::io);
        done = true;
    });
    disk_.log.allowed = 70;
    run_until_idle();
    EXPECT_TRUE(done);
    ASSERT_EQ(disk_.log.batches.size(), 2u);
    EXPECT_EQ(disk_.log.batches[0].size(), 64u);
    EXPECT_EQ(disk_.log.batches[1].size(), 6u);
}

TEST_F(IoWait, ErrorsNameTheThing) {
    int checked = 0;
    auto check = [&](int64_t result, ErrorCode code) {
        disk_.log.result = result;
        disk_.log.allowed = 1;
        spawn([&, result, code] {
            const char data[8] = {};
            auto ok = io_write(FileId{3}, 4096, data, sizeof data, IoClass::log, "log segment");
            ASSERT_FALSE(ok);
            EXPECT_EQ(ok.error().code, code);
            EXPECT_EQ(ok.error().os, -result);
            EXPECT_STREQ(ok.error().what, "log segment");
            EXPECT_EQ(ok.error().a, 4096u);
            ++checked;
        });
        run_until_idle();
    };
    check(-EIO, ErrorCode::io_error);
    check(-ENOSPC, ErrorCode::no_space);
    check(-EDQUOT, ErrorCode::no_space);
    check(-EFBIG, ErrorCode::no_space);
    check(-ENOMEM, ErrorCode::io_error);
    EXPECT_EQ(checked, 5);
}

TEST(IoStart, WithoutAQueueTheRuntimeDoesNotStart) {
    HandDisk disk;
    disk.refuse = true;
    for (const bool caller_driven : {false, true}) {
        auto runtime =
            Runtime::start({.workers = 3, .caller_driven = caller_driven, .disk = &disk});
        ASSERT_FALSE(runtime);
        EXPECT_EQ(runtime.error().code, ErrorCode::io_error);
        EXPECT_EQ(runtime.error().os, EPERM);
    }
}

// On the machine's disk, with kernel threads that sleep between completions.
void on_a_real_disk(IoBackend backend) {
    auto disk = make_disk(backend);
    char path[] = "/tmp/lockstep_io_wait_XXXXXX";
    ASSERT_GE(mkstemp(path), 0);
    auto runtime = Runtime::start({.workers = 2, .disk = disk.get()});
    if (!runtime && backend == IoBackend::io_uring) GTEST_SKIP() << runtime.error().text();
    ASSERT_TRUE(runtime);
    auto file = disk->open(path, 0);
    ASSERT_TRUE(file);
    std::atomic<int> right{0};
    for (uint32_t i = 0; i < 200; ++i)
        ASSERT_TRUE((*runtime)->spawn(i, "io", [&, i] {
            std::vector<uint32_t> mine(2048, i), back(2048);
            const uint64_t offset = uint64_t{i} * 8192;
            EXPECT_TRUE(
                io_write(*file, offset, mine.data(), 8192, IoClass::write_back, "test file"));
            EXPECT_TRUE(i % 10 != 0 || io_sync(*file, "test file"));
            auto n = io_read(*file, offset, back.data(), 8192, "test file");
            right += n && *n == 8192 && back == mine;
        }));
    (*runtime)->stop();
    EXPECT_EQ(right, 200);
    disk->close(*file);
    ::unlink(path);
}
TEST(IoOnADisk, Automatic) { on_a_real_disk(IoBackend::automatic); }
TEST(IoOnADisk, Pool) { on_a_real_disk(IoBackend::pool); }
TEST(IoOnADisk, IoUring) { on_a_real_disk(IoBackend::io_uring); }

}  // namespace lockstep::threads::io_wait_test
