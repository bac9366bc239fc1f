// labels: sim
// failing_device_test.cc - a device that fails from a moment on, for ever or for a while: every
// call and close() end, the store reads no faster than its callers ask, and what was acknowledged
// is there when the device works again.
//
// Concepts   The disk is simulated and time is virtual. The data exceed the pool, and most frames
//            are dirty when the device begins to fail: then threads that only read have to share
//            the few frames that are left.
#include <gtest/gtest.h>

#include <map>

#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep::failing_device_test {

using threads::SimDisk;
using threads::SimFault;

struct Device {
    const char* name;
    SimFault fault;
    const char* path_part;  // "": all files
    bool archive = false;
};
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.name; }

constexpr Device kDevices[] = {
    {"WritesOfData", SimFault::write_error, "/data"},
    {"NoSpaceForData", SimFault::no_space_write, "/data"},
    {"NoSpaceForAnything", SimFault::no_space_write, ""},
    {"NoRoomToGrow", SimFault::no_space_allocate, ""},
    {"ReadsOfData", SimFault::read_error, "/data"},
    {"ReadsOfAnything", SimFault::read_error, ""},
    {"SyncsOfData", SimFault::sync_error, "/data"},
    {"WritesOfLog", SimFault::write_error, "/log."},
    {"SyncsOfLog", SimFault::sync_error, "/log."},
    {"WritesOfTheMark", SimFault::write_error, "log.mark"},
    {"WritesOfWrittenLsns", SimFault::write_error, "data.lsn"},
    {"WritesOfAnything", SimFault::write_error, ""},
    {"WritesOfTheArchive", SimFault::write_error, "/archive/", true},
    {"NewNames", SimFault::rename_error, ""},
};

// Of all waits of a thread together that end in an error (explanation/durability.md: 5 seconds).
constexpr Nanos kBound = 5 * kSecond, kMargin = kSecond;
constexpr int kReaders = 6, kWriters = 4, kThreads = kReaders + kWriters + 3;
constexpr uint32_t kKeys = 9'000;  // 12 MB in a pool of 4 MB

class FailingDevice : public testing::TestWithParam<Device> {
protected:
    struct Worker {
        Nanos refused = 0;  // time in calls that failed
        Nanos longest = 0;  // call
        uint64_t calls = 0, failed = 0;
        Error last{};
        bool ended = false;
    };
    using Call = std::function<Result<void>(Worker&)>;

    SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run(), 2};
    std::map<uint32_t, std::string> acknowledged;  // keys of the writers
    Worker workers[kThreads];
    bool stop = false;

    static std::string row(uint64_t version) {
        return std::to_string(version) + std::string(1'200, 'v');
    }
    static bool is_written(uint32_t key) { return key % 3 == 0; }

    void open_and_fill() {
        if (GetParam().archive) {
            store.options().archive = "/archive";
            store.options().archive_interval = 100 * kMillisecond;
        }
        ASSERT_OK(store.open());
        store.on_thread([&] {
            ASSERT_OK(store->run([&](Txn& t) -> Result<void> {
                TRY(store->create_index(t, "i"));
                TRY(store->create_heap(t, "h"));
                return {};
            }));
            for (uint32_t key = 0; key < kKeys && !HasFatalFailure(); key += 100)
                ASSERT_OK(store->run([&](Txn& t) -> Result<void> {
                    const Index index = TRY(store->index("i"));
                    for (uint32_t k = key; k < key + 100; ++k)
                        TRY(index.put(t, Key().u32(k), row(0)));
                    return {};
                }));
            ASSERT_OK(store->checkpoint());
        });
    }
    void begin_to_fail() {
        disk.faults().only_paths_with(GetParam().fault, GetParam().path_part);
        disk.faults().set_odds(GetParam().fault, 1);
    }
    void mend() { disk.faults().set_odds(GetParam().fault, 0); }

    void start(int n, Call call, Nanos pause = 50 * kMillisecond) {
        store->start(
            [this, n, pause, call = std::move(call)]() -> Result<void> {
                Worker& me = workers[n];
                while (!stop) {
                    const Nanos began = now();
                    const auto done = call(me);
                    const Nanos took = now() - began;
                    ++me.calls;
                    me.longest = std::max(me.longest, took);
                    if (!done) me.refused += took, me.last = done.error(), ++me.failed;
                    sleep_for(pause);
                }
                me.ended = true;
                return {};
            },
            n % 2);
    }
    Result<void> read(Rng& rng) {
        return store->run(
            [&](Txn& t) -> Result<void> {
                const Index index = TRY(store->index("i"));
                std::string value;
                for (int n = 0; n < 10; ++n)
                    TRY(index.get(t, Key().u32(static_cast<uint32_t>(rng.below(kKeys))), value));
                return {};
            },
            {.isolation = Isolation::snapshot});
    }
    // Updates that dirty a page each.
    Result<void> write(Rng& rng, uint32_t writer, uint64_t& version) {
        std::map<uint32_t, std::string> changes;
        const auto done = store->run([&](Txn& t) -> Result<void> {
            const Index index = TRY(store->index("i"));
            changes.clear();
            for (int n = 0; n < 10; ++n) {
                const auto key =
                    static_cast<uint32_t>(rng.below(kKeys / 3 / kWriters) * kWriters + writer) * 3;
                TRY(index.put(t, Key().u32(key), changes[key] = row(++version)));
            }
            return {};
        });
        if (done)
            for (auto& [key, value] : changes) acknowledged[key] = value;
        return done;
    }
    void start_all() {
        for (int n = 0; n < kReaders; ++n)
            start(n, [this, rng = Rng(seed_of_run() + n)](Worker&) mutable { return read(rng); });
        for (uint32_t w = 0; w < kWriters; ++w)
            start(kReaders + static_cast<int>(w),
                  [this, w, rng = Rng(seed_of_run() + 100 + w),
                   version = uint64_t{0}](Worker&) mutable { return write(rng, w, version); });
        start(kThreads - 3, [this](Worker&) {
            return store->run([&](Txn& t) -> Result<void> {
                TRY(TRY(store->heap("h")).insert(t, std::string(900, 'h')));
                return {};
            });
        });
        start(
            kThreads - 2, [this](Worker&) { return store->checkpoint(); }, 300 * kMillisecond);
        start(kThreads - 1, [this](Worker&) {
            return store->run(
                [&](Txn& t) -> Result<void> {
                    Cursor cursor = TRY(store->index("i")).scan(t);
                    for (int n = 0; n < 500 && TRY(cursor.next()); ++n) {}
                    return {};
                },
                {.isolation = Isolation::read_committed, .read_only = true});
        });
    }
    void drive_for(Nanos time) {
        const Nanos until = store.clock().now() + time;
        ASSERT_TRUE(store.step_until([&] { return store.clock().now() >= until; }));
    }
    void end_all() {
        stop = true;
        const Nanos began = store.clock().now();
        ASSERT_TRUE(store.step_until(
            [&] {
                return std::ranges::all_of(workers, &Worker::ended) ||
                       store.clock().now() > began + 60 * kSecond;
            },
            0));
        EXPECT_LT(store.clock().now() - began, kBound + kMargin);
        for (const Worker& w : workers) EXPECT_TRUE(w.ended) << &w - workers;
    }
    // Of the error of a store that cannot write or read.
    void expect_named(const Error& error) {
        if (error.code == ErrorCode::none) return;
        const std::string text = error.text();
        EXPECT_TRUE(error.os != 0 || error.code == ErrorCode::archive_failed) << text;
    }
    void expect_content() {
        store.on_thread([&] {
            const auto faults = store->verify();
            ASSERT_OK(faults);
            EXPECT_TRUE(faults->empty()) << faults->front();
            ASSERT_OK(store->run([&](Txn& t) -> Result<void> {
                const Index index = TRY(store->index("i"));
                std::string value;
                for (const auto& [key, wanted] : acknowledged) {
                    EXPECT_TRUE(TRY(index.get(t, Key().u32(key), value)));
                    // A commit whose answer was an error may have happened.
                    EXPECT_GE(std::stoull(value), std::stoull(wanted)) << key;
                }
                return {};
            }));
        });
    }
};

TEST_P(FailingDevice, ForEver) {
    open_and_fill();
    start_all();
    drive_for(kSecond);
    begin_to_fail();
    drive_for(kBound + kMargin);
    for (const Worker& w : workers) EXPECT_LT(w.refused, kBound + kMargin) << w.last.text();
    // From now on no call waits, and the disk is asked only for what calls need.
    uint64_t calls = 0;
    for (Worker& w : workers) {
        calls -= w.calls;
        w.longest = w.refused = 0;
    }
    const uint64_t events = disk.events();
    drive_for(5 * kSecond);
    for (const Worker& w : workers) {
        calls += w.calls;
        EXPECT_LT(w.longest, 2 * kSecond) << &w - workers << ": " << w.last.text();
        EXPECT_LT(w.refused, 2 * kBound) << &w - workers << ": " << w.last.text();
        expect_named(w.last);
    }
    EXPECT_GT(calls, 300u);
    EXPECT_LT(disk.events() - events, 60 * calls + 10'000) << calls;
    end_all();
    const Nanos closing = store.clock().now();
    const bool failed = store->failure().has_value();
    const auto closed = store.close();
    EXPECT_LT(store.clock().now() - closing, kBound + kMargin);
    EXPECT_TRUE(!failed || !closed);
    if (!closed) expect_named(closed.error());
    mend();
    ASSERT_OK(store.open());
    expect_content();
    ASSERT_OK(store.close());
}

// A store that has not stopped goes on by itself.
TEST_P(FailingDevice, ForAWhile) {
    open_and_fill();
    start_all();
    drive_for(kSecond);
    begin_to_fail();
    drive_for(2 * kBound);
    mend();
    drive_for(3 * kSecond);
    if (!store->failure()) {
        for (Worker& w : workers) w.failed = w.calls = 0;
        drive_for(2 * kSecond);
        for (const Worker& w : workers) {
            EXPECT_EQ(w.failed, 0u) << &w - workers << ": " << w.last.text();
            EXPECT_GT(w.calls, 0u);
        }
    }
    end_all();
    const bool failed = store->failure().has_value();
    EXPECT_EQ(store.close().has_value(), !failed);
    ASSERT_OK(store.open());
    expect_content();
    ASSERT_OK(store.close());
}

INSTANTIATE_TEST_SUITE_P(Devices, FailingDevice, testing::ValuesIn(kDevices),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lockstep::failing_device_test
