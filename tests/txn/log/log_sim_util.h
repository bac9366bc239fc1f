// log_sim_util.h - a log on the simulated disk that the test drives step by step, by one seed.
#pragma once

#include "tests/txn/log/log_test_util.h"
#include "threads/base/check.h"
#include "threads/io/sim_disk.h"
#include "threads/thread/thread.h"

namespace lockstep::txn::test {

inline LogOptions sim_options() {
    return LogOptions{.directory = "/store",
                      .segment_bytes = 64 << 10,
                      .first_bytes = 8 << 10,
                      .capacity_bytes = 4 << 20,
                      .ring_bytes = 1 << 20};
}

struct SimBench {
    SimBench(threads::SimDisk& d, uint64_t seed, uint32_t workers = 2) : disk(d) {
        CHECK(disk.make_directory(options.directory.here()));
        auto made = threads::Runtime::start(
            {.workers = workers,
             .caller_driven = true,
             .seed = seed,
             .clock = &clock,
             .disk = &disk,
             .policy = [seed](uint32_t w) { return threads::make_random_policy(seed + w); }});
        CHECK(made);
        runtime = std::move(*made);
    }
    ~SimBench() {
        if (log) run([&] { log->stop_flusher(); });
        runtime->stop();
        log.reset();
    }
    Result<void> create() {
        log = TRY(Log::create(*runtime, options));
        return log->start_flusher();
    }
    Result<void> open(Lsn from) {
        log = TRY(Log::open(*runtime, options, from));
        TRY(read_to_end(disk, options, from, log->tail()));
        return log->start_flusher();
    }
    // One step: a thread, else the disk, else the clock. Returns false if nothing can happen any
    // more.
    bool step() {
        if (runtime->step()) return true;
        const Nanos deadline = runtime->next_deadline(), io = disk.next_event_time();
        if (io != kNever && io <= deadline) return disk.advance(clock);
        if (deadline == kNever) return false;
        clock.advance(deadline > clock.now() ? deadline - clock.now() : 1);
        return true;
    }
    void spawn(uint32_t worker, threads::ThreadFn fn) {
        ++running;
        CHECK(runtime->spawn(worker, "test", [this, fn = std::move(fn)]() mutable {
            fn();
            --running;
        }));
    }
    // Steps until all spawned threads have ended.
    void finish() {
        while (running > 0) ASSERT_TRUE(step()) << "everybody waits";
    }
    template <class Fn>
    void run(Fn&& fn, uint32_t worker = 0) {
        spawn(worker, [&] { fn(); });
        finish();
    }

    LogOptions options = sim_options();
    ManualClock clock;
    threads::SimDisk& disk;
    std::unique_ptr<threads::Runtime> runtime;
    std::unique_ptr<Log> log;
    uint32_t running = 0;
};

}  // namespace lockstep::txn::test
