// group.h - one snapshot, and the reports that share it.
//
// States     queued -> opening (keep(), as its thread begins) -> open (its snapshot is there) or
//            failed -> ended. A report joins a group that is queued, so begins after the call, or
//            one that is open and young enough.
// Concepts   A snapshot transaction belongs to a user thread, so each group has a thread that holds
//            it: the keeper. GroupUse counts who needs the group; with the last one the keeper ends
//            the transaction, as soon as nobody reads (Reading).
// Blocking   wait_open() and the keeper wait. All else takes the group's mutex briefly.
#pragma once

#include <functional>
#include <memory>

#include <lockstep/function_ref.h>
#include <lockstep/sync.h>
#include "sm/version/snapshot_set.h"
#include "threads/thread/fork_watch.h"

namespace lockstep::sm::scan {

// Opens a snapshot transaction on the calling user thread, calls `hold` with its snapshot, and ends
// the transaction when that returns. The store passes it in.
using HoldSnapshot = std::function<Result<void>(FunctionRef<void(const Snapshot&)> hold)>;

class Group {
public:
    // On the keeper's thread, until nobody needs the group.
    void keep(const HoldSnapshot& hold);
    // Nobody needs it any more, or the store closes.
    void release();
    // A keeper could not be started.
    void fail_with(const Error& error);
    // Until it is open: the end of the log that it sees. Errors: those of opening a snapshot,
    // store_closed.
    Result<Lsn> wait_open();
    // When its snapshot was taken; 0: it has none.
    Nanos began();
    // May a report at `now` join?
    bool joinable(Nanos now, Nanos max_age);

private:
    friend class Reading;
    enum class State : uint8_t { queued, opening, open, failed, ended };
    void assert_state() const {  // under mutex_
        DCHECK((state_ == State::open) == (snapshot_ != nullptr));
        DCHECK(readers_ == 0 || state_ == State::open);
        DCHECK((state_ == State::failed) == (error_.code != ErrorCode::none));
    }

    const threads::ForkMark fork_mark_;
    Mutex mutex_;
    Condition changed_;
    // All under mutex_.
    State state_ = State::queued;
    bool released_ = false;
    uint32_t readers_ = 0;
    const Snapshot* snapshot_ = nullptr;
    Nanos began_ = 0;
    Lsn sees_{};
    Error error_{};
};

// Counts by its references: the last one releases the group.
class GroupUse {
public:
    explicit GroupUse(std::shared_ptr<Group> group) : group_(std::move(group)) {}
    ~GroupUse() { group_->release(); }
    GroupUse(const GroupUse&) = delete;
    GroupUse& operator=(const GroupUse&) = delete;
    const std::shared_ptr<Group>& group() const { return group_; }

private:
    const std::shared_ptr<Group> group_;
};

// While it lives the group's snapshot stays. False: it has gone.
class Reading {
public:
    explicit Reading(Group& group);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    explicit operator bool() const { return snapshot_ != nullptr; }
    const Snapshot& snapshot() const {
        DCHECK(snapshot_ != nullptr);
        return *snapshot_;
    }

private:
    Group& group_;
    const Snapshot* snapshot_ = nullptr;
};

}  // namespace lockstep::sm::scan
