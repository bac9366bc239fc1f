// log_hold.cc - moves the start of the log, and keeps it back for those who still read the log.
#include <algorithm>

#include "txn/log/log_impl.h"

namespace lockstep::txn {

// Any kernel thread. `wanted` is a place up to which no restart and no rollback needs the log. True
// if the start has moved.
bool Log::Impl::move_start(uint64_t wanted) {
    bool moved = false;
    {
        SpinGuard guard(hold_lock);
        start_wanted = std::max(start_wanted, wanted);
        const uint64_t to = std::min(start_wanted, *std::min_element(holds, holds + kHoldsMax));
        const uint64_t from = start.load();
        DCHECK(from <= durable.load());
        moved = from < to;
        DCHECK(to <= durable.load() || !moved);
        if (moved) start.store(to);  // LOG-6; only here, once the log is open
    }
    return moved;
}

void Log::Impl::start_moved() {
    update_promise_limit();
    wake_all(room_lock, room_waiters);
    kick(kFlushMark);
    kick_keeper();
}

void Log::truncate_before(Lsn lsn) {
    Impl& log = *impl_;
    const uint64_t durable = log.durable.load();
    const bool keeps = log.options.kept_bytes != 0 && !scarce() && !log.device_was_full();
    const uint64_t kept = keeps ? std::min(log.options.kept_bytes, durable) : 0;
    log.move_start(std::min(lsn.value, kept != 0 ? block_floor(durable - kept) : durable));
    log.start_moved();
}

Result<LogHold> Log::hold() {
    Impl& log = *impl_;
    SpinGuard guard(log.hold_lock);
    for (size_t i = 0; i < Impl::kHoldsMax; ++i) {
        if (log.holds[i] != kNothingOpen) continue;
        log.holds[i] = log.start.load();
        DCHECK(log.holds[i] != kNothingOpen);
        return LogHold(this, i);
    }
    return lockstep::fail(ErrorCode::too_many, "holds of the log", Impl::kHoldsMax);
}

void Log::on_whole_segment(std::function<void()> told) {
    DCHECK(!impl_->running.load());
    impl_->on_whole_segment = std::move(told);
}

// The fast path of reserve_undo() compares with the limit, so it does not look at the flag.
void Log::stop_writers(bool stop) {
    if (impl_->writers_stopped.exchange(stop) == stop) return;
    impl_->update_promise_limit();
    Impl::wake_all(impl_->room_lock, impl_->room_waiters);  // they look again
}

bool Log::writers_stopped() const { return impl_->writers_stopped.load(); }

Lsn LogHold::from() const {
    DCHECK(log_ != nullptr);
    Log::Impl& log = *log_->impl_;
    SpinGuard guard(log.hold_lock);
    DCHECK(number_ < Log::Impl::kHoldsMax && log.holds[number_] != kNothingOpen);
    return Lsn{log.holds[number_]};
}

void LogHold::advance(Lsn lsn) {
    DCHECK(log_ != nullptr);
    Log::Impl& log = *log_->impl_;
    {
        SpinGuard guard(log.hold_lock);
        DCHECK(log.holds[number_] != kNothingOpen && log.start.load() <= log.holds[number_]);
        log.holds[number_] = std::max(log.holds[number_], lsn.value);
    }
    if (log.move_start(0)) log.start_moved();
}

LogHold::~LogHold() {
    if (log_ == nullptr) return;
    Log::Impl& log = *log_->impl_;
    {
        SpinGuard guard(log.hold_lock);
        log.holds[number_] = kNothingOpen;
    }
    if (log.move_start(0)) log.start_moved();
}

}  // namespace lockstep::txn
