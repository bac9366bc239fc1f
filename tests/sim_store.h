// sim_store.h - one store on a simulated disk, for the simulator, crash tests and fuzzers.
//
// Concepts   The calling kernel thread drives the store, under virtual time. This object provides
//            the engine's hooks: disk, clock, schedule and `idle`, where time passes. A step is one
//            slice of one worker. When no thread is ready, the clock advances to the disk's next
//            completion, or else to the next deadline.
// Blocking   No call blocks. A call that needs more than kStepsMax steps counts as hung.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include <lockstep/store.h>
#include "sm/api/engine_of.h"
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"
#include "tests/steps_of_run.h"
#include "threads/io/sim_disk.h"

namespace lockstep {

class SimStore {
public:
    // Far more steps than any call of a test needs.
    static constexpr uint64_t kStepsMax = 20'000'000;

    explicit SimStore(threads::SimDisk& disk, uint64_t seed = 1, uint32_t workers = 1)
        : disk_(disk) {
        hooks_.disk = &disk;
        hooks_.clock = &clock_;
        hooks_.caller_driven = true;
        hooks_.seed = seed;
        hooks_.random_schedule = true;
        hooks_.idle = [this] { return idle(); };
        hooks_.mappings = &mappings();
        options_.workers = workers;
        options_.pool_bytes = 4 << 20;
        options_.log_bytes = 64 << 20;
        options_.log_segment_bytes = 1 << 20;
        options_.log_ring_bytes = 1 << 20;
        options_.lock_table_bytes_log2 = 16;
        options_.transactions_max = 64;
        options_.lock_timeout = 200 * kMillisecond;
        options_.steps = steps_of_run();
        options_.test_hooks = &hooks_;
        options_.logger = [this](int level, std::string_view text) {
            if (level == 0) errors_ += std::string(text) + "\n";
        };
    }
    SimStore(const SimStore&) = delete;
    SimStore& operator=(const SimStore&) = delete;

    Options& options() { return options_; }  // before open()
    ManualClock& clock() { return clock_; }
    const std::string& errors() const { return errors_; }  // errors that the store reported

    Result<void> open(std::string_view directory = "/store") {
        auto opened = Store::open(directory, options_);
        if (!opened) return std::unexpected(opened.error());
        store_.emplace(std::move(*opened));
        return {};
    }
    Result<void> close() {
        auto done = store_->close();
        store_.reset();
        return done;
    }
    // Drops the running engine, as a crash of the process does.
    void abandon() {
        if (!store_) return;
        sm::engine_of(*store_).abandon();
        store_.reset();
    }
    bool is_open() const { return store_.has_value(); }

    Store& operator*() { return *store_; }
    Store* operator->() { return &*store_; }
    sm::Engine& engine() { return sm::engine_of(*store_); }

    // fn runs after each slice.
    void after_step(std::function<void()> fn) { after_step_ = std::move(fn); }
    // Interrupts a worker at one in `points` simulation points. Before open().
    void version_bytes(uint64_t bytes) { hooks_.version_bytes = bytes; }
    void pool_bytes(uint64_t bytes) { hooks_.pool_bytes = bytes; }
    void interrupt_one_in(uint32_t points) { hooks_.interrupt_one_in = points; }
    // A restart calls fn between redo and undo.
    void redone(std::function<void(sm::Engine&)> fn) { hooks_.redone = std::move(fn); }

    // Runs one slice of one worker, or lets time pass. `tick`: duration of a slice.
    void step(Nanos tick = 0) {
        clock_.advance(tick);
        if (!sm::engine_of(*store_).runtime->step()) idle();
        if (after_step_) after_step_();
    }
    // Steps until done() returns true. Returns false on a hang.
    template <class Done>
    [[nodiscard]] bool step_until(Done done, Nanos tick = 0) {
        for (uint64_t steps = 0; !done(); ++steps) {
            if (steps > kStepsMax) return false;
            step(tick);
        }
        return true;
    }
    // Runs fn on a user thread of the store and steps until it has ended. Returns false on a hang.
    [[nodiscard]] bool drive(std::function<void()> fn, Nanos tick = 0) {
        bool ended = false;
        auto handle = store_->start(
            [&]() -> Result<void> {
                fn();
                ended = true;
                return {};
            },
            0);
        return step_until([&] { return ended; }, tick);
    }
    // The same, but a hang stops the process.
    void on_thread(std::function<void()> fn) { CHECK(drive(std::move(fn))); }

    // Nothing runs, and no transfer is in flight.
    void check_at_rest() {
        if (!store_) return;
        sm::Engine& at_rest = sm::engine_of(*store_);
        std::string fault = at_rest.failed() ? "" : at_rest.runtime->verify();
        if (fault.empty()) fault = at_rest.verify_rest();
        if (fault.empty()) return;
        std::fprintf(stderr, "not at rest: %s\n", fault.c_str());
        CHECK(fault.empty());
    }

private:
    // Of closed stores, for the next one.
    static threads::MappingCache& mappings() {
        static threads::MappingCache cache;
        return cache;
    }
    bool idle() {
        // open() and close() step by themselves, so a hang shows here.
        CHECK(++idle_turns_ < kStepsMax);
        if (disk_.advance(clock_)) return true;
        check_at_rest();
        const Nanos next = store_ ? sm::engine_of(*store_).runtime->next_deadline() : kNever;
        clock_.advance(next != kNever && next > clock_.now()
                           ? std::min(next - clock_.now(), kSecond)
                           : kMillisecond);
        return true;
    }

    threads::SimDisk& disk_;
    ManualClock clock_;
    TestHooks hooks_;
    Options options_;
    std::string errors_;
    uint64_t idle_turns_ = 0;
    std::function<void()> after_step_;
    std::optional<Store> store_;  // last member, so it is destroyed first
};

}  // namespace lockstep
