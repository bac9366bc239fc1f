// log_room.cc - the waits of a log that fills up.
#include "sm/store/log_room.h"

#include "sm/recovery/recovery.h"
#include "sm/store/engine.h"
#include "sm/store/txn_watch.h"
#include "threads/base/mutants.h"
#include "threads/thread/between_calls.h"

namespace lockstep::sm {

namespace {

using Seen = txn::TransactionTable::Seen;

constexpr Nanos kPoll = 1 * kMillisecond, kDelayMax = 10 * kMillisecond;
// For checkpoints, for checkpoints that fail, and for the oldest writer to be gone after TxnWatch
// has ended it.
constexpr Nanos kCheckpointMax = 60 * kSecond, kFailingMax = 4 * kSecond, kEndMax = 1 * kSecond;

// Only the writers that can end the shortage.
bool may_go_on(TxnWatch& watch, const txn::Transaction* self, const Seen& oldest, bool helps) {
    DCHECK(self == nullptr || !self->must_abort());
    if (self == nullptr || helps) return false;
    if (oldest.id == kTxnNone || oldest.id == self->id) return true;  // LR-2
    return oldest.waits && watch.blocks_oldest(self->id);
}

// Packets that wait to begin still count as admitted (executors.h), or others would follow them.
void pause(Nanos until, const txn::Transaction* self) {
    if (self != nullptr) return threads::sleep_until(until);
    while (threads::park_until(until, threads::ParkReason::admission)) {}
}

void wait_while_scarce(Engine& engine, const txn::Transaction* self) {
    // An older transaction of this thread can be rolled back meanwhile.
    const threads::BetweenCalls waits;
    TxnWatch& watch = *engine.watch;
    const Nanos began = threads::now(), vain_max = watch.slow_max() + kEndMax;
    Nanos vain_since = began, unchanged_since = began;
    Seen before = watch.oldest();
    while (engine.log->scarce() && !engine.failed() && (!self || !self->must_abort())) {
        const Nanos now = threads::now();
        const Seen oldest = watch.oldest();
        const bool helps = watch.checkpoint_helps(oldest);
        if (may_go_on(watch, self, oldest, helps)) return;
        // While a checkpoint can help, the oldest writer may be waiting here, too.
        if (helps || oldest.id != before.id) vain_since = unchanged_since = now;
        else if (oldest.last != before.last) unchanged_since = now;
        DCHECK(began <= vain_since && vain_since <= unchanged_since && unchanged_since <= now);
        before = oldest;
        const Nanos checkpoint_max = engine.checkpointer->failing() ? kFailingMax : kCheckpointMax;
        if (vain_since - began > checkpoint_max || now - vain_since > vain_max) return;  // LR-1
        watch.relieve_log(oldest, now - vain_since, now - unchanged_since);
        pause(now + kPoll, self);
    }
}

}  // namespace

void wait_to_begin(Engine& engine) {
    DCHECK(threads::current()->latch_depth == 0);
    const uint64_t most = engine.log->promises_max() / 4 * 3;
    const uint64_t least = engine.log->capacity_bytes() / 2;
    const uint64_t taken = engine.log->taken_bytes();
    static_assert(kDelayMax < TxnWatch::kPatience && TxnWatch::kPatience < TxnWatch::kIdleMax);
    DCHECK(most > 0 && least < engine.log->capacity_bytes());
    if (taken > least && taken < most) {  // `most` may be the smaller one, in a log of 4 MB
        const double full = static_cast<double>(taken - least) / static_cast<double>(most - least);
        const threads::BetweenCalls waits;
        pause(threads::now() + static_cast<Nanos>(full * full * kDelayMax), nullptr);
    }
    if (engine.log->scarce()) {
        engine.waiting_for_log.fetch_add(1, std::memory_order_relaxed);
        wait_while_scarce(engine, nullptr);
        [[maybe_unused]] const uint32_t before =
            engine.waiting_for_log.fetch_sub(1, std::memory_order_relaxed);
        DCHECK(before > 0);
    }
}

void wait_to_go_on(Engine& engine, txn::Transaction& txn) {
    DCHECK(threads::current()->latch_depth == 0 && txn.runs_here());
    if (MUTANT(scarce_log_ignored)) return;
    wait_while_scarce(engine, &txn);
}

// change_pages() gives the numbers.
bool caused_by_others(const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    return error.code == ErrorCode::log_full && error.c != 0 && error.a <= error.c;
}

}  // namespace lockstep::sm
