// group.cc - the keeper of a snapshot, and those that read with it.
#include "sm/scan/group.h"

#include <mutex>

#include "threads/runtime/runtime.h"

namespace lockstep::sm::scan {

void Group::keep(const HoldSnapshot& hold) {
    {
        const std::lock_guard lock(mutex_);
        DCHECK(state_ == State::queued && readers_ == 0);
        state_ = released_ ? State::ended : State::opening;
        if (released_) return;
    }
    const Result<void> held = hold([this](const Snapshot& snapshot) {
        const std::lock_guard lock(mutex_);
        DCHECK(state_ == State::opening);
        state_ = State::open;
        snapshot_ = &snapshot;
        sees_ = snapshot.sees;
        began_ = threads::now();
        assert_state();
        changed_.notify_all();
        changed_.wait(mutex_, [this] { return released_ && readers_ == 0; });
        DCHECK(snapshot_ == &snapshot && readers_ == 0);
        snapshot_ = nullptr;
        state_ = State::ended;
        assert_state();
    });
    const std::lock_guard lock(mutex_);
    if (state_ == State::opening) {
        DCHECK(!held);
        state_ = State::failed;
        error_ = held.error();
    }
    assert_state();
    changed_.notify_all();
}

void Group::release() {
    if (fork_mark_.forked()) return;
    const std::lock_guard lock(mutex_);
    assert_state();
    released_ = true;
    changed_.notify_all();
}

void Group::fail_with(const Error& error) {
    const std::lock_guard lock(mutex_);
    DCHECK(state_ == State::queued && error.code != ErrorCode::none);
    state_ = State::failed;
    error_ = error;
    assert_state();
    changed_.notify_all();
}

Result<Lsn> Group::wait_open() {
    const std::lock_guard lock(mutex_);
    changed_.wait(mutex_, [this] { return state_ > State::opening || released_; });
    assert_state();
    if (state_ == State::failed) return std::unexpected(error_);
    if (state_ != State::open) return fail(ErrorCode::store_closed, "report");
    return sees_;
}

Nanos Group::began() {
    const std::lock_guard lock(mutex_);
    assert_state();
    return state_ == State::open ? began_ : 0;
}

bool Group::joinable(Nanos now, Nanos max_age) {
    const std::lock_guard lock(mutex_);
    assert_state();
    if (released_) return false;
    if (state_ == State::queued) return true;
    return state_ == State::open && max_age > 0 && now - began_ <= max_age &&
           !snapshot_->too_old.load();
}

Reading::Reading(Group& group) : group_(group) {
    const std::lock_guard lock(group.mutex_);
    if (group.state_ != Group::State::open || group.released_) return;
    group.assert_state();
    snapshot_ = group.snapshot_;
    ++group.readers_;
}
Reading::~Reading() {
    if (snapshot_ == nullptr) return;
    const std::lock_guard lock(group_.mutex_);
    group_.assert_state();
    DCHECK(group_.readers_ > 0 && group_.snapshot_ == snapshot_);
    --group_.readers_;
    group_.changed_.notify_all();
}

}  // namespace lockstep::sm::scan
