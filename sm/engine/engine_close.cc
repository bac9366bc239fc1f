// engine_close.cc - closing: services, transactions that are left open, the last checkpoint, files;
// and what a crash of the simulator leaves out.
#include <mutex>
#include <string>

#include "sm/backup/archiver.h"
#include "sm/backup/page_rebuild.h"
#include "sm/catalog/catalog.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"
#include "sm/needs/needs.h"
#include "sm/needs/needs_team.h"
#include "sm/observe/close_watch.h"
#include "sm/observe/control.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "sm/report/flow.h"
#include "sm/scan/service.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"

namespace lockstep::sm {

namespace {

constexpr Nanos kLookAgain = 100 * kMicrosecond;

// Waits until `over()`. On a user thread, which is one of another store: others of its worker may
// be what it waits for, so they run meanwhile. False, at once: on any other kernel thread.
template <class Over>
bool wait_beside_others(Over over) {
    if (threads::current() == nullptr) return false;
    while (!over()) threads::sleep_until(threads::now() + kLookAgain);
    return true;
}

}  // namespace

void CallGate::shut() {
    word_.fetch_or(kShut, std::memory_order_acq_rel);
    const auto word = [this] { return word_.load(std::memory_order_acquire); };
    if (wait_beside_others([&] { return word() == kShut; })) return;
    for (uint32_t now; (now = word()) != kShut;) word_.wait(now, std::memory_order_acquire);
    DCHECK(is_shut());
}

void Engine::stop_services() {
    (void)run_and_wait([this]() -> Result<void> {
        if (ghosts) ghosts->stop();
        if (watch) watch->stop();
        if (snapshots) snapshots->stop();
        if (checkpointer) checkpointer->stop();
        return {};
    });
}

// Rolls back transactions whose user thread ended without ending them: no other thread can.
void Engine::rollback_orphans() {
    for (txn::Transaction* txn : txns->unfinished()) {
        report(1, "transaction " + std::to_string(txn->id.value) +
                      " was left open by its thread and is rolled back");
        DCHECK(user_threads_.load() == 0);
        txn->thread = txn->locks.thread = threads::current();
        txn->thread_id = txn->thread->id;
        txn->locks.thread_use = static_cast<uint32_t>(txn->thread_id);
        forget_local(*this, *txn);
        if (txn->state == txn::TxnState::undone) {
            txns->finish_abort(*txn, true);
            continue;
        }
        DCHECK(txn->state == txn::TxnState::active);
        // Its thread is gone, so no caller is left to run them for.
        const DeferredActions dropped(*txn);
        const auto undone = rollback(*this, *txn, kLsnNone);
        if (!undone) report(0, "rollback failed: " + undone.error().text());
        txns->finish_abort(*txn, undone.has_value());
    }
}

// A call that came in before may have started one more function, which ends here.
void Engine::shut_gate() {
    note_failure();  // for those who ask from now on
    gate.shut();
    if (!stepped()) end_functions();
    DCHECK(functions() == 0);
    own_workers_.store(nullptr, std::memory_order_relaxed);
}

void Engine::note_failure() {
    if (failure_noted_.load(std::memory_order_relaxed)) return;
    const StoreFailure* const why = log ? log->failure() : nullptr;
    if (why == nullptr) return;
    last_failure_ = *why;
    failure_noted_.store(true, std::memory_order_release);
}

Result<void> Engine::close() {
    if (closing_.exchange(true, std::memory_order_acq_rel)) {
        const auto closed = [this] { return closed_.load(std::memory_order_acquire); };
        if (!wait_beside_others(closed)) closed_.wait(false, std::memory_order_acquire);
        return closed_with_;
    }
    assert_state();
    DCHECK(!forked() && !on_own_thread());
    if (control) control->stop();
    if (runtime) closed_with_ = close_parts();
    note_failure();
    release();
    return closed_with_;
}

Result<void> Engine::close_parts() {
    DCHECK(runtime != nullptr && closing_.load());
    runtime->end_fd_waits();
    stop_reports();
    end_packets();
    shut_gate();
    if (control) control->disconnect();
    stop_services();
    Result<void> result;
    if (opened_) {
        result = run_and_wait([this]() -> Result<void> {
            rollback_orphans();
            txns->close();
            if (const uint32_t n = txns->prepared())
                report(2, std::to_string(n) + " transactions stay in doubt");
            if (failed()) return log->refused();
            if (options.read_only) return {};
            TRY(checkpointer->run(true));
            return checkpointer->mark_clean();
        });
    }
    // A restart that failed half-way left losers behind. The next restart begins at the same
    // place.
    if (!opened_ && log) log->give_up();
    if (!opened_ && txns) txns->abandon();
    const auto stopped = run_and_wait([&]() -> Result<void> {
        Result<void> archived;
        if (archiver) archived = archiver->stop();
        if (pool) pool->stop_cleaner();
        if (log) log->stop_flusher();
        return archived;
    });
    if (result) result = stopped;
    if (!stepped()) runtime->stop();
    if (result) show_rest();
    // What has stopped the store since the checkpoint: the last writes of the log, for example.
    if (result && opened_ && failed()) result = log->refused();
    return result;
}

uint64_t Engine::functions() const {
    DCHECK(runtime != nullptr && closing_.load());
    return runtime->packets() + user_threads_.load(std::memory_order_acquire);
}

void Engine::end_functions() {
    DCHECK(!stepped() && !on_own_thread());
    if (wait_beside_others([this] { return runtime->drained() && user_threads_.load() == 0; }))
        return;
    runtime->drain();
    for (uint64_t n; (n = user_threads_.load(std::memory_order_acquire)) != 0;)
        user_threads_.wait(n, std::memory_order_acquire);
}

// Their threads are user threads, for which end_packets() waits. A report that comes later finds
// that closing() is true.
void Engine::stop_reports() {
    std::shared_ptr<scan::Service> service;
    {
        const std::lock_guard lock(reports_mutex);
        service = reports;
    }
    if (!service) return;
    service->stop(!stepped());
    service->operators->stop();
}

// The application's own user threads: they may still begin transactions.
void Engine::end_packets() {
    DCHECK(closing_.load());
    runtime->close_admission();
    if (!stepped()) {
        std::optional<CloseWatch> watches;
        if (opened_ && functions() != 0) watches.emplace(*this, *watch);
        end_functions();
        return;
    }
    while (functions() != 0)
        CHECK(runtime->step() || (options.test_hooks->idle && options.test_hooks->idle()));
}

void Engine::abandon() {
    CHECK(stepped());
    if (closing_.exchange(true, std::memory_order_acq_rel)) return;
    assert_state();
    if (runtime) runtime->abandon();
    if (txns) txns->abandon();
    release();
}

void Engine::release() {
    if (disk && data_file.value >= 0) disk->close(data_file);
    if (disk && lsns_file.value >= 0) disk->close(lsns_file);
    if (disk && lock_file_.value >= 0) disk->close(lock_file_);
    ghost_notes = nullptr;
    objects = nullptr;
    drops = nullptr;
    reports.reset();
    control.reset();
    ghosts.reset();
    own_checkpointer_.reset();
    watch.reset();
    catalog.reset();
    own_space_.reset();
    own_pool_.reset();
    if (own_txns_) own_txns_->end();  // the objects stay: handles that are left read them
    versions = nullptr;
    snapshots.reset();
    own_locks_.reset();
    prepared.reset();
    rebuild.reset();
    archiver.reset();
    archive.reset();
    own_log_.reset();
    own_runtime_.reset();
    checkpointer = nullptr;
    space = nullptr;
    pool = nullptr;
    txns = nullptr;
    locks = nullptr;
    log = nullptr;
    runtime = nullptr;
    log_options.directory = {};
    directory = {};
    own_disk_.reset();
    archive_disk_.reset();
    disk = nullptr;
    memory_reserve_.drop();
    // What the application gave is let go now, not with the Store.
    logger = nullptr;
    options.logger = nullptr;
    options.archive_sink = nullptr;
    closed_.store(true, std::memory_order_release);
    closed_.notify_all();
}

}  // namespace lockstep::sm
