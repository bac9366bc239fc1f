// host.h - what a service may ask of the open store: user threads, counters, statistics, a backup.
//
// Concepts   Engine is the one Host. Services lie below it and know only this much of it, so that
//            the next one cannot reach into all others. A service gets the services that it needs
//            when it is made. Structures see Env only.
// Blocking   Each function says so. The virtual ones are for services: an operation on a record
//            calls none of them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/backup.h>
#include <lockstep/function_ref.h>
#include <lockstep/stats.h>
#include "sm/recovery/restart_env.h"
#include "threads/sync/completion.h"
#include "threads/thread/fork_watch.h"

namespace lockstep {
struct Change;
struct ReportStats;
}  // namespace lockstep

namespace lockstep::sm {

class Engine;
struct WorkerNeeds;

// Counts of one worker's API calls; a line of its own, so that workers do not share it.
struct alignas(kCacheLineBytes) ApiCounters {
    std::atomic<uint64_t> commits{0}, aborts{0}, retries{0};
    // The worker is the only writer: a plain add, readable by others.
    static void add(std::atomic<uint64_t>& counter) {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};

class Host : public RestartEnv {
public:
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    // Starts a user thread of its own, without admission; close() waits for it. worker < 0: workers
    // take turns. Errors: store_closed, forked, out_of_memory. Never blocks.
    virtual Result<void> start_thread(int worker, const char* name, threads::ThreadFn fn) = 0;
    // Runs fn on a user thread and waits; on a user thread of this store it runs inline.
    virtual Result<void> run_and_wait(std::move_only_function<Result<void>()> fn) = 0;
    // Waits for a user thread: suspends or blocks, or in a simulation drives it.
    virtual void wait_for(threads::Completion& done) = 0;
    // True on a user thread of this store; never in the child of a fork().
    virtual bool on_own_thread() const = 0;
    // Functions and packets of the application that have not ended; close() has begun.
    virtual uint64_t functions() const = 0;
    // As Store::stats() and Store::steps_stats(). Any kernel thread; never block.
    virtual StoreStats stats() = 0;
    virtual StepsStats steps_stats() = 0;
    // As Store::report_stats(). May park for a moment.
    virtual ReportStats report_stats() = 0;
    // Store::backup(to, options) on a user thread of the store. Parks. Once `abandoned` is true,
    // the backup ends with the error cancelled, and what it has written is removed.
    virtual Result<BackupInfo> backup(std::string_view to, const BackupOptions& options,
                                      const std::function<bool()>& abandoned) = 0;
    // Gives the changes that a feed (lockstep/changes.h) has from there on now, until `each`
    // returns false. `each` also gets the position behind the change. The result is the position
    // behind all. Parks.
    virtual Result<std::string> read_changes(
        std::string_view from,
        FunctionRef<bool(const Change& change, const std::string& position)> each) = 0;

    // close() has begun.
    bool closing() const { return closing_.load(std::memory_order_acquire); }
    // True in the child of a fork() after open(). Only what runs on foreign kernel threads asks.
    bool forked() const { return fork_mark_.forked(); }
    // Do the public handles that refer to this engine belong to the store?
    bool is(const Engine* engine) const { return engine == self_; }

    threads::Directory directory;             // of the store, open as long as the store is
    std::unique_ptr<ApiCounters[]> counters;  // one per worker
    WorkerNeeds* needs = nullptr;             // one per worker; set as the pointers of Env are
    std::atomic<StepsMode> steps_mode{StepsMode::off};  // that set_steps() chose last

protected:
    explicit Host(const Engine& self) : self_(&self) {}
    ~Host() = default;

    std::atomic<bool> closing_{false};

private:
    const threads::ForkMark fork_mark_;
    const Engine* const self_;
};

}  // namespace lockstep::sm
