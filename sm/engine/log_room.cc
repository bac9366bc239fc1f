// log_room.cc - the waits of a log that fills up.
#include "sm/engine/log_room.h"

#include "sm/engine/engine.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "threads/base/error_detail.h"
#include "threads/thread/between_calls.h"

namespace lockstep::sm {

namespace {

using Seen = txn::TransactionTable::Seen;

constexpr Nanos kPoll = 1 * kMillisecond, kDelayMax = 10 * kMillisecond;
// For checkpoints, for a keeper of the log, and for the oldest writer to be gone after TxnWatch has
// ended it.
constexpr Nanos kCheckpointMax = 60 * kSecond, kKeeperMax = 5 * kSecond, kEndMax = 1 * kSecond;

// Only the writers that can end the shortage.
bool may_go_on(TxnWatch& watch, const txn::Transaction* self, const Seen& oldest, bool helps) {
    DCHECK(self == nullptr || !self->must_abort());
    if (self == nullptr || helps) return false;
    if (oldest.id == kTxnNone || oldest.id == self->id) return true;  // LR-2
    return oldest.waits && watch.blocks_oldest(self->id);
}

// Packets that wait to begin still count as admitted (executors.h), or others would follow them.
std::unexpected<Error> refuse(const LogKeeper& keeper) {
    DCHECK(!keeper.text.empty());
    auto error = fail_os(ErrorCode::log_full, keeper.os, "log_bytes");
    set_error_detail(error.error(), keeper.text);
    return error;
}

void pause(Nanos until, const txn::Transaction* self) {
    if (self != nullptr) return threads::sleep_until(until);
    while (threads::park_until(until, threads::ParkReason::admission)) {}
}

Result<void> wait_while_scarce(Engine& engine, const txn::Transaction* self) {
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
        if (may_go_on(watch, self, oldest, helps)) return {};
        if (engine.log->writers_stopped()) return {};  // the next change returns archive_failed
        if (const auto keeper = keeper_of_log(engine)) {
            Nanos since = engine.keeper_wait.note(keeper->in_doubt, now, kKeeperMax);
            if (keeper->since != 0) since = std::min(since, keeper->since);
            if (now >= since + kKeeperMax) return refuse(*keeper);
            pause(now + kPoll, self);
            continue;
        }
        // While a checkpoint can help, the oldest writer may be waiting here, too.
        if (helps || oldest.id != before.id) vain_since = unchanged_since = now;
        else if (oldest.last != before.last) unchanged_since = now;
        DCHECK(began <= vain_since && vain_since <= unchanged_since && unchanged_since <= now);
        before = oldest;
        if (vain_since - began > kCheckpointMax || now - vain_since > vain_max) return {};  // LR-1
        watch.relieve_log(oldest, now - vain_since, now - unchanged_since);
        pause(now + kPoll, self);
    }
    return {};
}

}  // namespace

std::optional<LogKeeper> keeper_of_log(Engine& engine) {
    TxnWatch& watch = *engine.watch;
    const Seen oldest = watch.oldest();
    if (watch.checkpoint_helps(oldest)) {
        const auto failing = engine.checkpointer->failing();
        if (!failing) return std::nullopt;
        return LogKeeper{.in_doubt = kTxnNone,
                         .os = failing->os,
                         .since = std::min(failing->since, engine.pool->writes_fail_since()),
                         .text =
                             "checkpoints fail, so no log can be recycled; see to the device "
                             "of the data: " +
                             failing->why};
    }
    if (oldest.id == kTxnNone || oldest.state != txn::TxnState::prepared) return std::nullopt;
    std::string text = watch.describe_in_doubt(oldest);
    if (text.empty()) return std::nullopt;
    return LogKeeper{.in_doubt = oldest.id, .text = std::move(text)};
}

Nanos KeeperWait::note(TxnId in_doubt, Nanos now, Nanos patience) {
    DCHECK(patience > 0);
    DCHECK(now != 0 && now != kNever && patience > 0);
    const SpinGuard guard(lock_);
    if (since_ == 0 || in_doubt != in_doubt_ || now > noticed_ + patience) since_ = now;
    in_doubt_ = in_doubt;
    noticed_ = std::max(noticed_, now);
    return std::min(since_, now);
}

Result<void> wait_to_begin(Engine& engine) {
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
        const auto waited = wait_while_scarce(engine, nullptr);
        [[maybe_unused]] const uint32_t before =
            engine.waiting_for_log.fetch_sub(1, std::memory_order_relaxed);
        DCHECK(before > 0);
        return waited;
    }
    return {};
}

void wait_to_go_on(Engine& engine, txn::Transaction& txn) {
    DCHECK(threads::current()->latch_depth == 0 && txn.runs_here());
    (void)wait_while_scarce(engine, &txn);  // an operation that needs space says why there is none
}

// change_pages() gives the numbers.
bool caused_by_others(const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    return error.code == ErrorCode::log_full && error.c != 0 && error.a <= error.c;
}

}  // namespace lockstep::sm
