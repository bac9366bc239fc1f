// snapshots.cc - opening and closing snapshots, periods of versions, the version cleaner.
#include "sm/services/snapshots.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "sm/btree/btree.h"
#include "sm/change/log_kinds.h"
#include "sm/change/record_changes.h"
#include "sm/core/cleanup.h"
#include "sm/heap/heap_file.h"
#include "sm/host/test_hooks.h"
#include "sm/recovery/restart_env.h"
#include "threads/base/limits.h"
#include "threads/sync/completion.h"

namespace lockstep::sm {

namespace {

constexpr Nanos kRound = 5 * kMillisecond;     // of the cleaner
constexpr Nanos kLinger = 500 * kMillisecond;  // a period without a snapshot
constexpr Nanos kQuietAge = 2 * kMillisecond;  // of the bound that snapshots share
constexpr size_t kSweepKeysMin = 4;            // erased keys, while none of them can go

// Of Options::version_bytes, unless it says less.
constexpr uint64_t kVersionBytesLeast = 64ull << 20;

uint64_t version_bytes(const Options& options) {
    const TestHooks* const hooks = options.test_hooks;
    if (hooks != nullptr && hooks->version_bytes != 0) return hooks->version_bytes;
    return options.version_bytes.value_or(std::max(kVersionBytesLeast, options.pool_bytes / 4));
}

VersionMemory version_memory(const Options& options) {
    const bool simulated = options.test_hooks != nullptr && options.test_hooks->caller_driven;
    return simulated ? VersionMemory::small : VersionMemory::large;
}

}  // namespace

// A live transaction that has written before the period.
struct Snapshots::Writer {
    txn::Outcome* outcome;
    Lsn last;  // its newest record that left no version
};

Snapshots::Snapshots(RestartEnv& engine)
    : engine_(engine),
      table_(version_bytes(engine.options), engine.runtime->workers(),
             version_memory(engine.options)) {}

Snapshots::~Snapshots() = default;

Result<void> Snapshots::open(txn::Transaction& txn) {
    DCHECK(txn::rules_of(txn.isolation).by_snapshot && txn.runs_here());
    DCHECK(local_of(txn).snapshot == nullptr);
    std::unique_ptr<Snapshot> snapshot(new (std::nothrow) Snapshot);
    if (!snapshot) return fail(ErrorCode::out_of_memory, "snapshot", sizeof(Snapshot));
    snapshot->began = threads::now_coarse();
    const bool in_period = state_.load() == State::on && !table_.incomplete();
    if (!in_period || !place(*snapshot)) {
        turn_.acquire();
        Result<void> begun;
        if (state_.load() == State::on && table_.incomplete()) end_period();
        if (state_.load() == State::off) begun = begin_period();
        if (begun && !place(*snapshot))
            begun = fail(ErrorCode::snapshot_too_old, "version_bytes is used up", table_.limit());
        turn_.release();
        if (!begun) return begun;
    }
    txn.sees = snapshot->sees;
    local_of(txn).snapshot = snapshot.release();
    return {};
}

// Adds the snapshot to the set, then looks at the state: end_period() and VersionTable::give_up()
// do it in the other order. False: it has no place. The bound `quiet` is older than S, so each
// record below it belongs to a transaction that ended before S.
bool Snapshots::place(Snapshot& snapshot) {
    const Nanos now = threads::now_coarse();
    const Nanos taken = quiet_taken_.load(std::memory_order_relaxed);
    if (taken == 0 || now - taken > kQuietAge) {
        const Lsn tail = engine_.log->tail();
        const Lsn oldest = engine_.txns->oldest_first_lsn();
        quiet_.store(std::min(tail, oldest).value, std::memory_order_relaxed);
        quiet_taken_.store(std::max<Nanos>(now, 1), std::memory_order_relaxed);
    }
    snapshot.quiet = Lsn{quiet_.load(std::memory_order_relaxed)};
    table_.snapshots().add(snapshot, *engine_.log);
    DCHECK(snapshot.quiet <= snapshot.sees);
    if (state_.load() == State::on && !table_.incomplete()) return true;
    table_.snapshots().remove(snapshot);
    snapshot.too_old.store(false);  // if it was expelled meanwhile
    return false;
}

// Runs `work` on a thread of each worker and waits for all.
Result<void> Snapshots::on_each_worker(FunctionRef<Result<void>()> work) {
    const uint32_t workers = engine_.runtime->workers();
    DCHECK(threads::current()->latch_depth == 0 && workers >= 1);
    std::vector<Result<void>> results(workers);
    std::vector<threads::Completion> done(workers);
    for (uint32_t i = 0; i < workers; ++i) {
        const auto begun = engine_.runtime->spawn(i, "versions", [&, i] {
            results[i] = work();
            done[i].set();
        });
        if (begun) continue;
        results[i] = std::unexpected(begun.error());
        done[i].set();
    }
    Result<void> all;
    for (uint32_t i = 0; i < workers; ++i) {
        done[i].wait();
        if (!results[i] && all) all = results[i];
    }
    return all;
}

Result<void> Snapshots::begin_period() {
    DCHECK(state_.load() == State::off && !engine_.keeps_versions.load());
    TRY(start_cleaner());
    TRY(table_.start());
    engine_.keeps_versions.store(true);
    // SH-2: first every worker sees the flag, then the chains are read.
    Result<void> done = on_each_worker([]() -> Result<void> { return {}; });
    if (done) done = on_each_worker([this] { return catch_up(); });
    if (done && table_.incomplete())
        done = fail(ErrorCode::snapshot_too_old, "version_bytes is less than live writers need",
                    table_.limit());
    if (!done) {
        end_period();
        return done;
    }
    state_.store(State::on);
    if (threads::Thread* cleaner = cleaner_.load(std::memory_order_acquire)) threads::wake(cleaner);
    return {};
}

// Nothing needs the versions: no snapshot is in the set, and none gets a place meanwhile.
void Snapshots::end_period() {
    state_.store(State::off);
    engine_.keeps_versions.store(false);
    // SH-2: no change is between the flag and its version.
    Result<void> done = on_each_worker([]() -> Result<void> { return {}; });
    while (!done) {  // no thread could be made: later
        threads::sleep_until(threads::now() + kRound);
        done = on_each_worker([]() -> Result<void> { return {}; });
    }
    table_.clear();
}

// On a thread of the worker: its transactions do not run while this thread does.
Result<void> Snapshots::catch_up() {
    std::vector<Writer> writers;
    Result<void> done;
    for (const auto& seen : engine_.txns->seen()) {
        if (seen.worker != threads::worker_index() || seen.first == kLsnNone) continue;
        txn::Transaction& txn = engine_.txns->at(seen.slot);
        if (txn.id != seen.id || txn.first_lsn.load() == 0) continue;
        if (!table_.begin_writer(txn)) {
            done = fail(ErrorCode::out_of_memory, "outcome of a transaction");
            break;
        }
        DCHECK(txn.outcome->earlier <= txn.last_lsn);  // SH-3
        txn.outcome->add_use();
        writers.push_back({txn.outcome, txn.outcome->earlier});
    }
    for (Writer& writer : writers) {
        if (done) done = catch_up_with(writer);
        txn::Outcome::drop(writer.outcome);
    }
    return done;
}

// Its changes since then have versions. Once it has ended none is missed: the snapshot that waits
// for us gets its place later.
Result<void> Snapshots::catch_up_with(Writer& writer) {
    DCHECK(writer.outcome != nullptr);
    std::string buffer;
    for (Lsn at = writer.last; at != kLsnNone && writer.outcome->active();) {
        const Result<txn::LogRecordView> read = engine_.log->read(at, buffer);
        if (!writer.outcome->active()) return {};  // the log may be recycled
        if (!read) return std::unexpected(read.error());
        const txn::LogRecordView& record = *read;
        Result<void> made;
        if (record.header->flags & txn::kLogUndoable) {
            uint32_t cursor = 0;
            for (PartView part; TRY(next_part(record, cursor, part));) {
                const bool in_heap = part.action == PageAction::heap_put ||
                                     part.action == PageAction::heap_replace ||
                                     part.action == PageAction::heap_remove;
                records_undone(part.action, ObjectId{record.header->object}, part.page,
                               part.payload, [&](const RecordName& name, Undo undo) {
                                   if (made) made = make_version(writer, name, in_heap, undo);
                               });
            }
        }
        if (!made) return made;
        DCHECK(record.header->prev < at.value);  // it ends
        at = Lsn{record.header->prev};
        if (table_.incomplete()) return {};
    }
    return {};
}

Result<void> Snapshots::make_version(Writer& writer, const RecordName& name, bool in_heap,
                                     FunctionRef<void(RecordCopy&)> undo) {
    DCHECK(!name.key.empty() || !in_heap);
    // The page is latched: the writer cannot change the record, and its rollback neither.
    const auto see = [&](const RecordState& now) {
        if (!writer.outcome->active()) return;
        RecordCopy state(now);
        table_.oldest_of(name, state);
        undo(state);
        table_.note_earlier(*writer.outcome, name, state.state());
    };
    Result<void> seen;
    if (in_heap) {
        if (HeapFile* const heap = engine_.objects->heap_by_id(name.object); heap != nullptr)
            seen = heap->see_record(slot_of(name.key), see);
    } else if (BTree* const tree = engine_.objects->index_by_id(name.object); tree != nullptr) {
        seen = tree->see_record(name.key, see);
    }
    // The writer has made the object, and rolls back: no snapshot sees it.
    if (!seen && seen.error().code == ErrorCode::no_such_object) return {};
    return seen;
}

Result<void> Snapshots::start_cleaner() {
    if (cleaner_started_) return {};
    cleaner_ended_ = std::make_unique<threads::Completion>();
    const auto thread = engine_.runtime->spawn(0, "version cleaner", [this] { run_cleaner(); });
    if (!thread) return std::unexpected(thread.error());
    cleaner_started_ = true;
    return {};
}

void Snapshots::run_cleaner() {
    cleaner_.store(threads::current(), std::memory_order_release);
    Nanos idle_since = 0;
    while (!stopping_.load(std::memory_order_acquire) && !engine_.failed()) {
        if (state_.load() == State::off) {
            threads::park_until(threads::now() + kSecond, threads::ParkReason::sleep);
            idle_since = 0;
            continue;
        }
        threads::sleep_until(threads::now() + kRound);
        table_.prepare();
        turn_.acquire();  // end_period() frees what a sweep is about to free
        if (state_.load() == State::on) clean(idle_since);
        turn_.release();
    }
    cleaner_ended_->set();
}

// One round. `idle_since`: the first round without a snapshot; 0: there is one.
void Snapshots::clean(Nanos& idle_since) {
    while (table_.sweep(limits::versions_swept()) >= limits::versions_swept()) threads::yield();
    sweep_keys();
    const Nanos now = threads::now();
    if (table_.snapshots().open() != 0) idle_since = 0;
    else if (idle_since == 0) idle_since = now;
    if ((idle_since == 0 || now - idle_since < kLinger) && !table_.incomplete()) return;
    state_.store(State::off);
    if (table_.snapshots().open() == 0) end_period();
    else state_.store(State::on);
}

// Most keys stay as long as the oldest snapshot. While looks at them free nothing, each takes half
// as many as the one before.
void Snapshots::sweep_keys() {
    DCHECK(keys_looked_ <= limits::keys_swept());
    const Lsn oldest = table_.snapshots().oldest();
    if (oldest != keys_oldest_) keys_looked_ = limits::keys_swept();
    keys_oldest_ = oldest;
    for (;;) {
        const size_t freed = table_.sweep_keys(keys_looked_);
        if (freed == 0) keys_looked_ = std::max(keys_looked_ / 2, kSweepKeysMin);
        else keys_looked_ = limits::keys_swept();
        if (freed < keys_looked_ / 2) return;
        threads::yield();
    }
}

void Snapshots::stop() {
    DCHECK(threads::current() != nullptr);
    turn_.acquire();
    stopping_.store(true, std::memory_order_release);
    const bool started = cleaner_started_;
    turn_.release();
    if (!started) return;
    if (threads::Thread* cleaner = cleaner_.load(std::memory_order_acquire)) threads::wake(cleaner);
    cleaner_ended_->wait();
    engine_.keeps_versions.store(false);
}

}  // namespace lockstep::sm
