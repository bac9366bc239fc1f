// engine.h - the parts of one open store, wired together. Internal: the public face is store.h.
//
// Concepts   Engine owns everything that lives as long as the store is open: open and close, user
//            threads, background services. Structures see only Env (sm/core/env.h), checkpoint and
//            restart RestartEnv, services Host; Engine fills them while it opens. Members are built
//            top to bottom at open and torn down bottom to top at close. Nothing here is global:
//            several engines in one process are independent.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include <lockstep/sync.h>
#include "sm/buffer/buffer_pool.h"
#include "sm/engine/call_gate.h"
#include "sm/engine/log_room.h"
#include "sm/host/host.h"
#include "sm/space/space_map.h"
#include "threads/base/memory_reserve.h"
#include "threads/runtime/runtime.h"
#include "threads/worker/worker.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class ArchivePlace;
class Archiver;
class BackupTarget;
class Catalog;
class Control;
class GhostCleaner;
class TxnWatch;
class NeedsTeam;  // final. NOLINT(cppcoreguidelines-virtual-class-destructor)
class PageRebuild;
class PreparedTxns;
class Snapshots;
struct BackupManifest;
struct LostMark;
namespace scan {
class Service;
}

class Engine final : public Host {
public:
    Engine();
    ~Engine();

    // Opens or makes the store (see Store::open). Runs on a foreign kernel thread.
    static Result<std::unique_ptr<Engine>> open(std::string_view path, const Options& options);
    // Waits for user threads, transactions and calls, checkpoints, marks the store clean, releases
    // everything. Any foreign kernel thread. A second call waits for the end of the first, and
    // returns the same.
    Result<void> close();
    // In a simulation: stops at once, as a crash would. No user thread runs again or is unwound.
    // After that only destroy the engine.
    void abandon();

    // While nothing runs and no transfer is in flight: checks all parts, and that nobody waits
    // without a reason. Text of a fault, or empty. Nothing is said of a store that has failed or
    // does not run yet.
    std::string verify_rest() const;

    Result<void> start_thread(int worker, const char* name, threads::ThreadFn fn) override;
    // Enqueues a packet of the application; close() waits for it. worker < 0: workers take turns.
    Result<void> submit(int worker, threads::Packet& packet);
    Result<void> run_and_wait(std::move_only_function<Result<void>()> fn) override;
    void wait_for(threads::Completion& done) override;
    uint64_t functions() const override;
    StoreStats stats() override;
    StepsStats steps_stats() override;
    ReportStats report_stats() override;
    Result<BackupInfo> backup(std::string_view to, const BackupOptions& options,
                              const std::function<bool()>& abandoned) override;
    Result<std::string> read_changes(
        std::string_view from,
        FunctionRef<bool(const Change& change, const std::string& position)> each) override;
    // The same to any target.
    Result<BackupInfo> backup(BackupTarget& target, const BackupOptions& options,
                              const std::function<bool()>& abandoned);
    bool on_own_thread() const override;
    // The same, for a store that another kernel thread may be closing. close() waits for the thread
    // before it shuts the gate.
    bool counted_by_thread() const {
        const threads::Thread* const t = threads::current();
        return t != nullptr && &t->worker->shared() == own_workers_.load(std::memory_order_relaxed);
    }
    // The same for a function that offload() runs: close() would wait for the caller of offload().
    bool offloads_here() const;
    // StoreStats::log_durability.
    const char* log_durability() const;
    [[gnu::cold]] static std::unexpected<Error> refuse_child() {
        return fail(ErrorCode::forked, "store");
    }

    // --- the services above the structures; RestartEnv has the parts below
    std::unique_ptr<Catalog> catalog;
    std::unique_ptr<GhostCleaner> ghosts;
    std::unique_ptr<TxnWatch> watch;
    std::unique_ptr<Snapshots> snapshots;
    std::unique_ptr<PreparedTxns> prepared;
    std::unique_ptr<ArchivePlace> archive;  // with Options::archive
    std::unique_ptr<Archiver> archiver;     // with Options::archive or archive_sink
    std::unique_ptr<PageRebuild> rebuild;   // with Options::archive
    std::unique_ptr<Control> control;       // with Options::control
    std::unique_ptr<NeedsTeam> needs_team;
    mutable Mutex reports_mutex;
    std::shared_ptr<scan::Service> reports;  // since the first report; under reports_mutex
    // Backups that have ended well, and their bytes; those that failed.
    std::atomic<uint64_t> backups{0}, backup_bytes{0}, backup_failures{0};
    // Has archive and backups: not what the store's own disk learns of file systems.
    threads::Disk& archive_disk() { return archive_disk_ ? *archive_disk_ : *disk; }
    // Held during Store::set_steps(), over waits.
    Mutex set_steps_mutex;
    // Threads in begin that wait until a checkpoint has recycled log.
    std::atomic<uint32_t> waiting_for_log{0};
    KeeperWait keeper_wait;  // of those that wait for log
    // What had stopped the store, if anything, once the gate is shut.
    std::optional<StoreFailure> failure_before_close() const {
        DCHECK(gate.is_shut());
        return failure_noted_.load(std::memory_order_acquire) ? last_failure_ : std::nullopt;
    }
    CallGate gate;  // see call_gate.h
    mutable SpinLock steps_lock;
    StepsOptions steps_now;  // that set_steps() chose last; under steps_lock

private:
    Result<bool> open_files();
    bool holds_store() const;
    Result<void> adapt_to_memory();
    Result<void> take_fixed_options();
    Result<void> adopt();
    Result<void> open_files_to_read();
    Result<void> require_closed();
    Result<void> start_reading();
    // The answer of a lock on the lock file, with the directory in its error.
    Result<void> lock_files(Result<void> locked) const;
    Result<void> begin_creation();
    Result<void> end_creation();
    bool stepped() const;
    Result<void> build(bool fresh);
    void make_services();
    Result<void> open_log(bool fresh);
    Result<std::unique_ptr<txn::Log>> open_known_log(const LostMark& lost) const;
    void adopt_catalog(PageId root);
    // EN-1: what the structures see is what the engine owns.
    void assert_state() const {
        DCHECK(runtime == own_runtime_.get() && log == own_log_.get());
        DCHECK(locks == own_locks_.get() && txns == own_txns_.get());
        DCHECK(pool == own_pool_.get() && space == own_space_.get());
        DCHECK(checkpointer == own_checkpointer_.get() && needs == own_needs_.get());
        DCHECK((drops == nullptr) == (objects == nullptr));
    }
    Result<void> make_fresh();
    void load_written_lsns();
    void say_durability() const;
    void say_memory() const;
    Result<void> begin_history(const BackupManifest& backup);
    Result<void> raise_version();
    Result<void> build_archive();
    Result<bool> repair(PageId id, Page& page);
    Result<void> recover();
    Result<void> start_services();
    void watch_slices();
    Result<void> start_control();
    void stop_services();
    Result<void> close_parts();
    void stop_reports();
    void end_packets();
    void end_functions();
    void shut_gate();
    void note_failure();
    void show_rest() const;
    void rollback_orphans();
    void release();

    MemoryReserve memory_reserve_;
    std::unique_ptr<threads::Disk> own_disk_;      // unless a test gave one
    std::unique_ptr<threads::Disk> archive_disk_;  // the same
    threads::FileId lock_file_{-1};
    Nanos up_since_ = 0;
    std::unique_ptr<threads::Runtime> own_runtime_;
    std::unique_ptr<txn::Log> own_log_;
    std::unique_ptr<txn::LockManager> own_locks_;
    std::unique_ptr<txn::TransactionTable> own_txns_;
    std::unique_ptr<BufferPool> own_pool_;
    std::unique_ptr<SpaceMap> own_space_;
    std::unique_ptr<Checkpointer> own_checkpointer_;
    std::unique_ptr<WorkerNeeds[]> own_needs_;
    std::atomic<uint64_t> user_threads_{0};  // of start_thread(), not ended
    std::atomic<uint32_t> next_worker_{0};
    std::atomic<bool> closed_{false};
    Result<void> closed_with_;  // what close() returned; written before closed_
    // The workers of the store, until the gate is shut.
    std::atomic<const threads::RuntimeShared*> own_workers_{nullptr};
    // Written once by close(), before `failure_noted_`.
    std::optional<StoreFailure> last_failure_;
    std::atomic<bool> failure_noted_{false};
    // Restart is complete. Until then no checkpoint may mark the store clean.
    bool opened_ = false;
};

// A call of the public interface, while it uses the engine; see call_gate.h. False: the store is
// closed, or `engine` is null, and the call returns closed().
class Call {
public:
    explicit Call(Engine* engine) : engine_(engine) {
        if (engine_ == nullptr || engine_->counted_by_thread()) return;
        counted_ = engine_->gate.enter();
        if (!counted_) engine_ = nullptr;
    }
    ~Call() {
        if (counted_) engine_->gate.leave();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    explicit operator bool() const { return engine_ != nullptr; }
    [[gnu::cold]] static std::unexpected<Error> closed() {
        return fail(ErrorCode::store_closed, "store");
    }

private:
    Engine* engine_;
    bool counted_ = false;
};

}  // namespace lockstep::sm
