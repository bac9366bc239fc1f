// checkpoint.cc - fuzzy checkpoints: they bound the log and the work of a restart while
// transactions run.
//
// Argument   Let B be the LSN of the begin record. Redo may start at B under two conditions. (1)
//            Each change logged below B is in the volume's synced copy. (2) The first record of
//            every page at or above B brings the page with it.
//            (1) A change marks its pages dirty before it publishes its record (PC-4).
//            write_dirty() first waits until earlier records are published. After that, every page
//            that a record below B changes is marked, or was written since. write_dirty() then
//            writes what is marked and waits for threads that are still changing it. Its sync also
//            covers what the cleaner wrote before.
//            (2) The full-page-image LSN is "everything" before B is reserved, and then the end of
//            the begin record. A change reads it again after its reservation. If it still saw the
//            old value there, its reservation came before ours, so it lies below B. If it lies
//            above B, it saw "everything" or the new value. Page lsns are ends of records, so those
//            of changes below B are at most B. They are not above the new value, so the next change
//            of such a page logs its image.
//            The list of transactions is taken after the dirty pages are written. A transaction
//            that is live at a later crash was live then, or has all its records above B. The log
//            is kept from min(B, oldest first record of a live transaction).
// Invariants RC-3 (recovery.h) The superblock is written after the pages are synced and the end
//                 record is durable. [checked: name_checkpoint()]
// Blocking   run() parks for a long time; one at a time.
#include <algorithm>
#include <mutex>

#include "sm/buffer/buffer_pool.h"
#include "sm/recovery/recovery_parts.h"
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/latch.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

struct Checkpointer::Impl {
    threads::Latch running{5, "checkpoint"};
    std::atomic<uint64_t> last_begin{0}, completed{0};
    mutable SpinLock failing_lock;
    std::optional<Failing> failing;        // under failing_lock
    std::unique_ptr<threads::Event> stop;  // of the background thread
    std::unique_ptr<threads::Completion> stopped;
    bool hurry() const { return stop && stop->is_set(); }
    void note(const Result<void>& done, Nanos now) {
        std::string why = done ? "" : done.error().text();
        DCHECK(now > 0 && (done || !why.empty()));
        const SpinGuard guard(failing_lock);
        if (done) failing.reset();
        else failing = {failing ? failing->since : now, done.error().os, std::move(why)};
    }
    void assert_state() const {
        DCHECK(!stopped || stop);
        DCHECK(completed.load(std::memory_order_relaxed) == 0 ||
               last_begin.load(std::memory_order_relaxed) != 0);
    }
};

namespace {

constexpr Nanos kPoll = 20 * kMillisecond, kPauseAfterError = kSecond, kWriteTimeMax = 20 * kSecond,
                kRest = 5 * kMillisecond;

// A record of the checkpoint itself: belongs to no transaction, changes no page.
Lsn append(txn::Log& log, txn::TxnLogKind kind, Slice payload, uint64_t& end) {
    const uint32_t bytes =
        txn::log_align(static_cast<uint32_t>(sizeof(txn::LogRecordHeader) + payload.size()));
    DCHECK(bytes <= txn::kLogRecordMax);
    const txn::LogSpace space = log.reserve(bytes);
    *space.header() = {};
    space.header()->kind = static_cast<uint16_t>(kind);
    std::memset(space.payload(), 0, bytes - sizeof(txn::LogRecordHeader));
    if (!payload.empty()) std::memcpy(space.payload(), payload.data(), payload.size());
    log.publish(space);
    end = space.lsn.value + bytes;
    return space.lsn;
}

uint64_t interval_bytes(const RestartEnv& env) {
    return env.options.checkpoint_log_bytes.value_or(env.log->capacity_bytes() / 4);
}
bool log_is_scarce(const RestartEnv& env, uint64_t percent) {
    return env.log->used_bytes() + env.log->undo_reserved_bytes() >
           env.log->capacity_bytes() / 100 * percent;
}

// The writes keep pace with the log that is produced, so they end by half of the interval. If
// little log is produced, they keep pace with the clock. They do not pause when the log gets
// scarce.
Nanos rest(const RestartEnv& env, Lsn begin, Nanos started, uint64_t done, uint64_t total) {
    DCHECK(done <= total && total > 0);
    if (log_is_scarce(env, 50)) return 0;
    const double by_log = static_cast<double>(env.log->tail() - begin) /
                          (static_cast<double>(interval_bytes(env)) / 2);
    const double by_time =
        static_cast<double>(env.runtime->clock().now() - started) / kWriteTimeMax;
    return static_cast<double>(done) / static_cast<double>(total) > std::max(by_log, by_time)
               ? kRest
               : 0;
}

Lsn begin_checkpoint(RestartEnv& env) {
    // Sequentially consistent, as the appenders' second look is.
    env.image_lsn.store(kLsnMax.value);
    uint64_t end = 0;
    const Lsn begin = append(*env.log, txn::TxnLogKind::checkpoint_begin, {}, end);
    DCHECK(begin.value > env.superblock.checkpoint_lsn && env.image_lsn.load() == kLsnMax.value);
    env.image_lsn.store(end);
    return begin;
}

// Writes the list of live transactions; the end of the last record is returned.
Lsn end_checkpoint(RestartEnv& env, Lsn begin, Lsn& oldest, TxnId& next) {
    std::vector<txn::TransactionTable::Live> live = env.txns->live();
    oldest = env.txns->oldest_first_lsn();
    if (env.losers)
        for (const Unended& loser : *env.losers) {
            live.push_back({loser.id, loser.first, loser.last, txn::TxnState::aborting});
            oldest = std::min(oldest, loser.first);
        }
    std::erase_if(live, [](const auto& t) {
        return t.state == txn::TxnState::committed || t.first == kLsnNone;
    });
    next = env.txns->next_id();
    const uint32_t parts = static_cast<uint32_t>(live.size() / kCheckpointTxnsMax + 1);
    uint64_t end = 0;
    std::string payload;
    for (uint32_t part = 0; part < parts; ++part) {
        const size_t from = size_t{part} * kCheckpointTxnsMax,
                     to = std::min<size_t>(live.size(), from + kCheckpointTxnsMax);
        const CheckpointEnd head{begin.value,
                                 next.value,
                                 oldest.value,
                                 part,
                                 parts,
                                 static_cast<uint32_t>(to - from),
                                 0};
        DCHECK(from <= to && (part + 1 == parts) == (to == live.size()));
        payload.assign(reinterpret_cast<const char*>(&head), sizeof head);
        for (size_t i = from; i < to; ++i) {
            const CheckpointTxn t{live[i].id.value, live[i].first.value, live[i].last.value};
            payload.append(reinterpret_cast<const char*>(&t), sizeof t);
        }
        append(*env.log, txn::TxnLogKind::checkpoint_end, payload, end);
    }
    return Lsn{end};
}

// A failed sync is never asked twice: what it covered may be lost although a second one succeeds.
Result<void> write_superblock_of(RestartEnv& env, Superblock block) {
    block.assert_state();
    TRY(store_superblock(env.data_file, block));
    DCHECK(block.sequence > env.superblock.sequence);  // SB-1
    if (env.options.sync) {
        auto synced = threads::io_sync(env.data_file, "superblock");
        if (!synced)
            env.log->fail_store({.what = "sync of data file",
                                 .file = env.log_options.directory.path("data"),
                                 .cause = synced.error()});
        TRY(synced);
    }
    // Fields that a checkpoint does not change are read by other threads meanwhile.
    env.superblock.checkpoint_lsn = block.checkpoint_lsn;
    env.superblock.log_start = block.log_start;
    env.superblock.next_txn = block.next_txn;
    env.superblock.clean = block.clean;
    env.superblock.sequence = block.sequence;
    return {};
}

// What cannot be saved is merely not known after a restart (LW-4): no reason to do without the
// checkpoint.
void save_written_lsns(RestartEnv& env) {
    auto saved = env.pool->written_lsns().save(env.lsns_file, env.superblock.store_number(),
                                               env.options.sync);
    if (!saved) env.report(1, "which lsns pages have was not saved: " + saved.error().text());
}

Result<void> name_checkpoint(RestartEnv& env, Lsn begin, Lsn end, Lsn oldest, TxnId next) {
    CHECK(env.options.sync == false || env.log->durable() >= end);  // RC-3
    // Checkpoints, the log's start and the numbers of transactions only go up.
    DCHECK(begin <= end && begin.value > env.superblock.checkpoint_lsn);
    DCHECK(std::min(begin, oldest).value >= env.superblock.log_start);
    DCHECK(next.value >= env.superblock.next_txn);
    Superblock block = env.superblock;
    block.checkpoint_lsn = begin.value;
    block.log_start = std::min(begin, oldest).value;
    block.next_txn = next.value;
    block.clean = 0;
    const bool both = block.sequence == 0;  // a new store: neither copy exists
    TRY(write_superblock_of(env, block));
    if (both) TRY(write_superblock_of(env, env.superblock));
    DCHECK(env.first_record.load() <= block.log_start);
    env.first_record.store(block.log_start);
    return {};
}

// Whether the next checkpoint is due.
bool is_due(const RestartEnv& env, Lsn last_begin) {
    DCHECK(last_begin <= env.log->tail());
    const uint64_t since = env.log->tail() - last_begin;
    if (since >= interval_bytes(env)) return true;
    // Before begin() slows down (sm/engine/log_room.h).
    if (!log_is_scarce(env, 45)) return false;
    // If an old transaction holds the log, checkpoints one after another would not help: some log
    // must have been written, or the transaction must have ended.
    if (since > env.log->capacity_bytes() / 32) return true;
    const Lsn upto = std::min(env.txns->oldest_first_lsn(), env.log->tail());
    // A hold keeps the start back, and no checkpoint moves it.
    const uint64_t start = env.first_record.load();
    return upto.value > start + env.log->capacity_bytes() / 16;
}

}  // namespace

Checkpointer::Checkpointer(RestartEnv& env) : env_(env), impl_(std::make_shared<Impl>()) {}

Result<void> Checkpointer::run(bool fast) {
    const std::lock_guard held(impl_->running);
    impl_->assert_state();
    const auto done = make(fast);
    impl_->note(done, env_.runtime->clock().now());
    return done;
}

Result<void> Checkpointer::make(bool fast) {
    if (env_.failed()) return env_.log->refused();
    const Lsn begin = begin_checkpoint(env_);
    impl_->last_begin.store(begin.value, std::memory_order_relaxed);
    TRY(env_.pool->write_dirty(
        [&, fast, started = env_.runtime->clock().now()](uint64_t done, uint64_t total) {
            return fast || impl_->hurry() ? 0 : rest(env_, begin, started, done, total);
        }));
    save_written_lsns(env_);
    Lsn oldest;
    TxnId next;
    const Lsn end = end_checkpoint(env_, begin, oldest, next);
    TRY(env_.log->wait_durable(end));
    TRY(name_checkpoint(env_, begin, end, oldest, next));
    env_.log->truncate_before(std::min(begin, oldest));
    impl_->completed.fetch_add(1, std::memory_order_relaxed);
    return {};
}

Result<void> Checkpointer::mark_clean() {
    const std::lock_guard held(impl_->running);
    Superblock block = env_.superblock;
    DCHECK(block.checkpoint_lsn != 0 && block.clean == 0);
    block.clean = 1;
    return write_superblock_of(env_, block);
}

Result<void> Checkpointer::start() {
    CHECK(!impl_->stopped);
    if (impl_->last_begin.load() == 0) impl_->last_begin.store(env_.superblock.checkpoint_lsn);
    impl_->stop = std::make_unique<threads::Event>();
    impl_->stopped = std::make_unique<threads::Completion>();
    auto started = env_.runtime->spawn(0, "checkpointer", [this, impl = impl_] {
        const Clock& clock = env_.runtime->clock();
        for (Nanos pause = kPoll;
             !impl->stop->wait_until(clock.now() + pause, threads::ParkReason::sleep);) {
            pause = kPoll;
            if (env_.tick) env_.tick();
            if (!is_due(env_, last_begin())) continue;
            const auto done = run(false);
            if (!done) {
                if (env_.failed()) break;
                env_.report(1, "checkpoint: " + done.error().text());
                pause = kPauseAfterError;
            }
        }
        impl->stopped->set();
    });
    if (!started) {
        impl_->stopped.reset();
        return std::unexpected(started.error());
    }
    return {};
}

void Checkpointer::stop() {
    impl_->assert_state();
    if (!impl_->stopped) return;
    impl_->stop->set();
    impl_->stopped->wait();
    impl_->stopped.reset();
    impl_->stop.reset();  // a later run() is in no hurry
}

Lsn Checkpointer::last_begin() const {
    return Lsn{impl_->last_begin.load(std::memory_order_relaxed)};
}
uint64_t Checkpointer::completed() const {
    return impl_->completed.load(std::memory_order_relaxed);
}
std::optional<Checkpointer::Failing> Checkpointer::failing() const {
    const SpinGuard guard(impl_->failing_lock);
    return impl_->failing;
}

}  // namespace lockstep::sm
