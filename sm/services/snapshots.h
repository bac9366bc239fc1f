// snapshots.h - snapshot transactions: when versions are kept, what was changed before, and the
// thread that frees versions.
//
// Concepts   Versions are kept in *periods*. While no snapshot is open, a change tests a flag. The
//            first snapshot begins a period: it sets the flag. A thread of each worker then reads
//            the undo chains of the worker's live writers and makes the versions that these did not
//            leave. A period ends when no snapshot was open for half a second, or when the memory
//            for versions is exhausted.
// Invariants SH-1 A snapshot gets its place S in a period, after the versions of all earlier
//                 changes of live transactions are made. So each transaction that S does not see
//                 has versions of all its changes.
//            SH-2 A thread of a worker runs only while no other thread of that worker is between
//                 the test of the flag and the change of the page: change_pages() does not park
//                 there, nor does the removal of ghosts. So after one thread of each worker has
//                 run, every change sees the flag.
//            SH-3 Each writer notes where its changes begin that leave versions by themselves
//                 (Outcome::earlier). The versions of all older ones come from its undo chain.
// Blocking   open() of the first snapshot in a period parks until each worker has run a thread, and
//            for log records and pages of live writers. It waits for no transaction.
// Source     Oracle-style undo, and Zero's recovery from logs (Graefe, Guy, Sauer, "Instant
//            recovery with write-ahead logging", 2016), combined with early lock release: see
//            txn/README.md.
#pragma once

#include <atomic>
#include <memory>

#include <lockstep/function_ref.h>
#include "sm/core/txn_local.h"
#include "sm/version/version_table.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

struct RestartEnv;

class Snapshots {
public:
    explicit Snapshots(RestartEnv& engine);
    ~Snapshots();

    // `txn` has just begun, with Isolation::snapshot. Errors: out_of_memory, those of reading the
    // log and pages; snapshot_too_old if the versions of live writers take more than
    // Options::version_bytes. Whoever ends the transaction closes it (sm/version/txn_snapshot.h).
    Result<void> open(txn::Transaction& txn);
    // From a user thread, when no transaction is left.
    void stop();

    VersionTable& table() { return table_; }
    const VersionTable& table() const { return table_; }

private:
    enum class State : uint8_t { off, on };
    struct Writer;

    Result<void> begin_period();
    void end_period();
    Result<void> on_each_worker(FunctionRef<Result<void>()> work);
    Result<void> catch_up();
    Result<void> catch_up_with(Writer& writer);
    Result<void> make_version(Writer& writer, const RecordName& name, bool in_heap,
                              FunctionRef<void(RecordCopy&)> undo);
    bool place(Snapshot& snapshot);
    Result<void> start_cleaner();
    void run_cleaner();
    void clean(Nanos& idle_since);  // under turn_
    void sweep_keys();

    RestartEnv& engine_;
    VersionTable table_;
    threads::Semaphore turn_{1};  // held while a period begins or ends
    std::atomic<State> state_{State::off};
    std::atomic<uint64_t> quiet_{0};  // a lower bound of Snapshot::quiet
    std::atomic<Nanos> quiet_taken_{0};
    std::atomic<bool> stopping_{false};
    bool cleaner_started_ = false;  // under turn_
    std::atomic<threads::Thread*> cleaner_{nullptr};
    std::unique_ptr<threads::Completion> cleaner_ended_;
    // Under turn_: how many erased keys a sweep looks at, and the oldest snapshot at the last one.
    size_t keys_looked_ = 0;
    Lsn keys_oldest_{};
};

}  // namespace lockstep::sm
