// log_test_util.h - a log in a temporary directory, and records whose bytes tell their place.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/runtime/runtime.h"
#include "txn/log/log.h"

namespace lockstep::txn::test {

class TempDirectory {
public:
    ~TempDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

private:
    const std::string path_ = make_own_directory("log");
};

inline LogOptions small_options(const std::string& directory) {
    return LogOptions{.directory = directory,
                      .segment_bytes = 1 << 20,
                      .capacity_bytes = 8 << 20,
                      .ring_bytes = 1 << 20};
}

// Runs `fn` on a user thread and waits for its end.
template <class Fn>
void on_worker(threads::Runtime& runtime, uint32_t worker, Fn&& fn) {
    threads::Completion done;
    ASSERT_TRUE(runtime.spawn(worker, "test", [&] {
        fn();
        done.set();
    }));
    done.wait();
}

// The payload of a record is a function of (txn, number): first the number, then bytes drawn from
// both.
inline void fill_payload(std::byte* out, uint32_t bytes, uint64_t txn, uint64_t number) {
    Rng rng(txn * 1000003 + number);
    for (uint32_t i = 0; i < bytes; i += 8) {
        const uint64_t word = i == 0 ? number : rng.next();
        std::memcpy(out + i, &word, std::min<uint32_t>(8, bytes - i));
    }
}

inline constexpr uint16_t kTestKind = kSmLogKindFirst;

inline Lsn append(Log& log, uint64_t txn, uint64_t number, uint32_t payload_bytes,
                  uint64_t prev = 0) {
    const LogSpace space = log.reserve(sizeof(LogRecordHeader) + payload_bytes);
    LogRecordHeader* header = space.header();
    header->prev = prev;
    header->txn = txn;
    header->kind = kTestKind;
    header->flags = 0;
    header->parts = 0;
    header->object = payload_bytes;
    fill_payload(space.payload(), payload_bytes, txn, number);
    log.publish(space);
    return space.lsn;
}

// Returns the number of a record made by append(). Fails the test if its bytes are wrong.
inline uint64_t check_record(const LogRecordView& record) {
    const uint32_t bytes = record.header->object;
    EXPECT_EQ(record.header->kind, kTestKind);
    EXPECT_EQ(record.header->bytes, log_align(sizeof(LogRecordHeader) + bytes));
    uint64_t number = 0;
    std::memcpy(&number, record.payload(), 8);
    std::vector<std::byte> expected(bytes);
    fill_payload(expected.data(), bytes, record.header->txn, number);
    EXPECT_EQ(std::memcmp(expected.data(), record.payload(), bytes), 0)
        << "record at " << record.lsn.value;
    return number;
}

// What a restart does behind Log::open().
inline Result<void> read_to_end(threads::Disk& disk, const LogOptions& options, Lsn from, Lsn end) {
    LogReader reader(disk, options);
    reader.seek(from);
    for (LogRecordView record; reader.position() < end && TRY(reader.next(record));) {}
    return reader.require_end(end);
}

struct Bench {
    explicit Bench(const LogOptions& o, uint32_t workers = 1,
                   std::unique_ptr<threads::Disk> own = threads::make_disk())
        : options(o), disk(std::move(own)) {
        auto made = threads::Runtime::start({.workers = workers, .disk = disk.get()});
        EXPECT_TRUE(made) << made.error().text();
        runtime = std::move(*made);
    }
    ~Bench() {
        if (log) log->stop_flusher();
        runtime->stop();
        log.reset();
    }
    void create() {
        auto made = Log::create(*runtime, options);
        ASSERT_TRUE(made) << made.error().text();
        log = std::move(*made);
        ASSERT_TRUE(log->start_flusher());
    }
    Result<void> reopen(Lsn from = Lsn{4096}) {
        if (log) log->stop_flusher();
        log.reset();
        log = TRY(Log::open(*runtime, options, from));
        TRY(read_to_end(*disk, options, from, log->tail()));
        return log->start_flusher();
    }
    void stop() {
        if (log) log->stop_flusher();
        log.reset();
    }
    template <class Fn>
    void run(Fn&& fn, uint32_t worker = 0) {
        on_worker(*runtime, worker, fn);
    }

    LogOptions options;
    std::unique_ptr<threads::Disk> disk;
    std::unique_ptr<threads::Runtime> runtime;
    std::unique_ptr<Log> log;
};

}  // namespace lockstep::txn::test
