// engine.h - the parts of one open store, wired together. Internal: the public face is store.h.
//
// Concepts   Engine owns everything that lives as long as the store is open. Members are built top to bottom at open and torn down
//            bottom to top at close. Nothing here is global: several engines in one process are independent.
#pragma once

#include <atomic>
#include <memory>

#include "sm/buffer_pool.h"
#include "sm/options.h"
#include "sm/space_map.h"
#include "sm/superblock.h"
#include "threads/base/memory_reserve.h"
#include "threads/runtime.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class Catalog;
class Checkpointer;
class GhostCleaner;

// Counts of one worker's API calls; a line of its own, so that workers do not share it.
struct alignas(kCacheLineBytes) ApiCounters {
    std::atomic<uint64_t> commits{0}, aborts{0}, retries{0};
    // The worker is the only writer: a plain add, readable by others.
    static void add(std::atomic<uint64_t>& counter) {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};

class Engine {
public:
    Engine();
    ~Engine();

    // Opens or makes the store (see Store::open). Runs on a foreign kernel thread.
    static Result<std::unique_ptr<Engine>> open(std::string_view path, const Options& options);
    // Waits for user threads and transactions, checkpoints, marks the store clean, releases everything. Idempotent.
    Result<void> close();
    // In a simulation: stops in mid-flight, as a crash would. No user thread runs again or is unwound; then only destroy it.
    void abandon();

    // Starts a user thread of the application; close() waits for it. worker < 0: workers in turn.
    Result<void> start_thread(int worker, const char* name, threads::ThreadFn fn);
    // Runs fn on a user thread and waits; on a user thread of this store it runs inline.
    Result<void> run_and_wait(std::move_only_function<Result<void>()> fn);
    // Waits for a user thread: suspends or blocks, or in a simulation drives it.
    void wait_for(threads::Completion& done);
    // True on a user thread of this store.
    bool on_own_thread() const;

    MemoryReserve memory_reserve;
    Options options;                                 // as given and checked
    std::unique_ptr<threads::Disk> own_disk;
    threads::Disk* disk = nullptr;
    threads::FileId data_file{-1};
    threads::FileId lock_file{-1};
    threads::FileId lsns_file{-1};                   // see written_lsns.h
    std::unique_ptr<threads::Runtime> runtime;
    txn::LogOptions log_options;                     // as given to the log: whoever reads the log's files needs them
    std::unique_ptr<txn::Log> log;
    std::unique_ptr<txn::LockManager> locks;
    std::unique_ptr<txn::TransactionTable> txns;
    std::unique_ptr<BufferPool> pool;
    std::unique_ptr<SpaceMap> space;
    std::unique_ptr<Catalog> catalog;
    std::unique_ptr<Checkpointer> checkpointer;
    std::unique_ptr<GhostCleaner> ghosts;
    txn::StoreLock database_lock;                    // StoreId 0

    // Begin LSN of the newest checkpoint: pages with a lower lsn log their image (PC-3). kLsnMax while a checkpoint begins.
    std::atomic<uint64_t> image_horizon{0};
    // Redo self-check mode and other test switches live in Options, not here.

    std::unique_ptr<ApiCounters[]> counters;         // one per worker
    std::atomic<uint64_t> user_threads{0};           // started by the application and not ended
    std::atomic<uint32_t> next_worker{0};
    std::atomic<bool> closing{false};
    bool opened = false;                             // restart is through: until then no checkpoint may say so
    Superblock superblock{};                         // as last read or written; the checkpointer's

    // One line to the caller's logger, if any. Level 0 error, 1 warning, 2 information. Text is formatted by the caller.
    void report(int level, std::string_view text) const;
    uint64_t store_number() const { return superblock.uuid[0] ^ superblock.uuid[1]; }
    bool failed() const { return log && log->failed(); }

private:
    Result<bool> open_files(const std::string& directory);
    Result<void> begin_creation(const std::string& directory);
    Result<void> end_creation(const std::string& directory);
    bool stepped() const;
    Result<void> build(std::string_view path, bool fresh);
    Result<void> make_fresh();
    void load_written_lsns();
    Result<void> recover();
    Result<void> start_services();
    void stop_services();
    void roll_back_orphans();
    void release();
};

}  // namespace lockstep::sm
