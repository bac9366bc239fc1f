// sync.cc - mutex, condition, event, semaphore, channel and timer of the public interface.
#include <lockstep/sync.h>

#include <lockstep/timer.h>
#include "threads/sync/sync_wait.h"

namespace lockstep {

using detail::SyncGuard;
using detail::SyncRelease;
using detail::SyncWaiter;

namespace {

constexpr const char* kSendTimeout = "channel: full";
constexpr const char* kSendClosed = "channel: it was closed";

// Who has a mutex.
const void* self() { return SyncWaiter().identity; }

[[gnu::cold]] std::unexpected<Error> timed_out(const char* what) {
    return fail(ErrorCode::timeout, what);
}
[[gnu::cold]] std::unexpected<Error> closed(const char* what) {
    return fail(ErrorCode::cancelled, what);
}

// The wait of a queued waiter, as a result.
Result<void> outcome(bool in_time, const SyncWaiter& waiter, const char* on_timeout,
                     const char* on_close) {
    DCHECK(!waiter.queued);
    if (!in_time) return timed_out(on_timeout);
    if (!waiter.served) return closed(on_close);
    return {};
}

}  // namespace

// --- Mutex

Mutex::~Mutex() { CHECK(owner_ == nullptr && waiters_.first == nullptr); }

// Nobody waits for a free mutex (SY-2).
inline void Mutex::assert_state() const {
    detail::assert_queue(waiters_);
    DCHECK(owner_ != nullptr || waiters_.first == nullptr);
}

bool Mutex::lock_until(Nanos deadline) {
    SyncWaiter me;
    {
        const SyncGuard guard(lock_);
        assert_state();
        if (owner_ == nullptr) {
            owner_ = self();
            return true;
        }
        if (deadline == 0) return false;
        CHECK(owner_ != self());  // it would wait for itself
        detail::sync_enqueue(waiters_, me);
    }
    return detail::sync_wait(lock_, waiters_, me, deadline);
}

void Mutex::lock() { (void)lock_until(kNever); }
bool Mutex::try_lock() { return lock_until(0); }
bool Mutex::try_lock_for(Nanos timeout) { return lock_until(detail::deadline_in(timeout)); }

void Mutex::unlock() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    CHECK(owner_ == self());
    SyncWaiter* next = waiters_.first;
    owner_ = nullptr;
    if (next == nullptr) return;
    owner_ = next->identity;
    release.take(waiters_, *next, true);
}

// --- Condition

Condition::~Condition() { CHECK(waiters_.first == nullptr); }

// Queued before the mutex is free: a notify by its next owner finds the waiter.
bool Condition::wait_until(Mutex& mutex, Nanos deadline) {
    CHECK(mutex.owner_ == self());
    SyncWaiter me;
    {
        const SyncGuard guard(lock_);
        detail::sync_enqueue(waiters_, me);
    }
    mutex.unlock();
    const bool notified = detail::sync_wait(lock_, waiters_, me, deadline);
    mutex.lock();
    return notified;
}

void Condition::notify_one() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    detail::assert_queue(waiters_);
    if (waiters_.first != nullptr) release.take(waiters_, *waiters_.first, true);
}

void Condition::notify_all() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    release.take_all(waiters_, true);
}

// --- Event

Event::~Event() { CHECK(waiters_.first == nullptr); }

// Nobody waits for what has happened (SY-1).
inline void Event::assert_state() const {
    detail::assert_queue(waiters_);
    DCHECK(waiters_.first == nullptr || (!set_.load(std::memory_order_relaxed) && !closed_));
}

void Event::set() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    set_.store(true, std::memory_order_release);
    release.take_all(waiters_, true);
}

void Event::reset() {
    const SyncGuard guard(lock_);
    assert_state();
    if (!closed_) set_.store(false, std::memory_order_relaxed);
}

void Event::close() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    closed_ = true;
    release.take_all(waiters_, false);
}

Result<void> Event::wait(Nanos timeout) {
    constexpr const char* kTimeout = "event: not set in time";
    constexpr const char* kClosed = "event: it was closed";
    const Nanos deadline = detail::deadline_in(timeout);
    SyncWaiter me;
    {
        // Also if it is set: the setter must have left (SY-3).
        const SyncGuard guard(lock_);
        assert_state();
        if (set_.load(std::memory_order_relaxed)) return {};
        if (closed_) return closed(kClosed);
        if (deadline == 0) return timed_out(kTimeout);
        detail::sync_enqueue(waiters_, me);
    }
    return outcome(detail::sync_wait(lock_, waiters_, me, deadline), me, kTimeout, kClosed);
}

// --- Semaphore

Semaphore::~Semaphore() { CHECK(waiters_.first == nullptr); }

// The first waiter wants more than there is (SY-2); nobody waits at a closed one.
inline void Semaphore::assert_state() const {
    detail::assert_queue(waiters_);
    DCHECK(waiters_.first == nullptr || (waiters_.first->wanted > units_ && !closed_));
}

bool Semaphore::try_acquire(uint64_t units) {
    const SyncGuard guard(lock_);
    assert_state();
    if (units == 0 || units_ < units || waiters_.first != nullptr) return false;
    units_ -= units;
    return true;
}

Result<void> Semaphore::acquire(uint64_t units, Nanos timeout) {
    constexpr const char* kTimeout = "semaphore: not enough units in time";
    constexpr const char* kClosed = "semaphore: it was closed";
    if (units == 0) return fail(ErrorCode::bad_argument, "units of a semaphore");
    const Nanos deadline = detail::deadline_in(timeout);
    SyncWaiter me;
    me.wanted = units;
    {
        const SyncGuard guard(lock_);
        assert_state();
        if (units_ >= units && waiters_.first == nullptr) {
            units_ -= units;
            return {};
        }
        if (closed_) return closed(kClosed);
        if (deadline == 0) return timed_out(kTimeout);
        detail::sync_enqueue(waiters_, me);
    }
    const bool in_time = detail::sync_wait(lock_, waiters_, me, deadline);
    if (!in_time) grant(0);  // later waiters may have waited only behind this one
    return outcome(in_time, me, kTimeout, kClosed);
}

void Semaphore::release(uint64_t units) { grant(units); }

// Adds units, and serves waiters in order as far as the units last.
void Semaphore::grant(uint64_t units) {
    SyncRelease release;
    const SyncGuard guard(lock_);
    DCHECK(units_ + units >= units_);
    units_ += units;
    while (waiters_.first != nullptr && waiters_.first->wanted <= units_) {
        units_ -= waiters_.first->wanted;
        release.take(waiters_, *waiters_.first, true);
    }
    assert_state();
}

void Semaphore::close() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    closed_ = true;
    release.take_all(waiters_, false);
}

// --- Channel

namespace detail {

ChannelCore::~ChannelCore() {
    CHECK(senders_.first == nullptr && receivers_.first == nullptr && first_ == nullptr);
}

// Receivers wait for an empty channel, senders for a full one, and nobody for a closed one (SY-2).
inline void ChannelCore::assert_state() const {
    assert_queue(senders_), assert_queue(receivers_);
    DCHECK((first_ == nullptr) == (last_ == nullptr) && (first_ == nullptr) == (size_ == 0));
    DCHECK(size_ <= capacity_);
    DCHECK(receivers_.first == nullptr || (size_ == 0 && senders_.first == nullptr && !closed_));
    DCHECK(senders_.first == nullptr || (size_ == capacity_ && !closed_));
}

Result<void> ChannelCore::send(ChannelItem& item, Nanos timeout) {
    const Nanos deadline = deadline_in(timeout);
    SyncWaiter me;
    {
        SyncRelease release;
        const SyncGuard guard(lock_);
        assert_state();
        if (closed_) return lockstep::closed(kSendClosed);
        if (SyncWaiter* receiver = receivers_.first; receiver != nullptr) {
            receiver->item = &item;
            release.take(receivers_, *receiver, true);
            return {};
        }
        if (size_ < capacity_) {
            append(item);
            return {};
        }
        if (deadline == 0) return timed_out(kSendTimeout);
        me.item = &item;
        sync_enqueue(senders_, me);
    }
    return outcome(sync_wait(lock_, senders_, me, deadline), me, kSendTimeout, kSendClosed);
}

Result<ChannelItem*> ChannelCore::receive(Nanos timeout) {
    const Nanos deadline = deadline_in(timeout);
    SyncWaiter me;
    {
        SyncRelease release;
        const SyncGuard guard(lock_);
        assert_state();
        ChannelItem* item = remove_first();
        if (SyncWaiter* sender = senders_.first; sender != nullptr) {
            // The longest waiting sender's item moves up; without capacity it is the one.
            if (item != nullptr) append(*sender->item);
            else item = sender->item;
            release.take(senders_, *sender, true);
        }
        if (item != nullptr || closed_) return item;
        if (deadline == 0) return timed_out("channel: empty");
        sync_enqueue(receivers_, me);
    }
    if (!sync_wait(lock_, receivers_, me, deadline)) return timed_out("channel: empty");
    DCHECK(me.served == (me.item != nullptr));
    return me.item;
}

void ChannelCore::close() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    closed_ = true;
    release.take_all(senders_, false);
    release.take_all(receivers_, false);
}

bool ChannelCore::closed() const {
    const SyncGuard guard(lock_);
    return closed_;
}

size_t ChannelCore::size() const {
    const SyncGuard guard(lock_);
    return size_;
}

ChannelItem* ChannelCore::take_all() {
    const SyncGuard guard(lock_);
    assert_state();
    size_ = 0;
    last_ = nullptr;
    return std::exchange(first_, nullptr);
}

// Under lock_.
void ChannelCore::append(ChannelItem& item) {
    DCHECK(size_ < capacity_);
    item.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &item;
    last_ = &item;
    ++size_;
}

// Under lock_; null if there is none.
ChannelItem* ChannelCore::remove_first() {
    ChannelItem* item = first_;
    if (item == nullptr) return nullptr;
    first_ = item->next;
    if (first_ == nullptr) last_ = nullptr;
    --size_;
    return item;
}

}  // namespace detail

// --- Timer

void sleep_until(Nanos deadline) {
    Event never;
    const Nanos now = detail::sync_now();
    if (deadline > now) (void)never.wait(deadline == kNever ? kNever : deadline - now);
}

Timer::~Timer() { CHECK(waiters_.first == nullptr); }

// Waits exist while the timer runs.
inline void Timer::assert_state() const {
    detail::assert_queue(waiters_);
    DCHECK(waiters_.first == nullptr || next_ != kNever);
}

void Timer::start(Nanos first, Nanos period) {
    const Nanos now = detail::sync_now();
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    next_ = first < kNever - now ? now + first : kNever - 1;
    period_ = period;
    release.take_all(waiters_, true);  // they wait again, for the new expiry
}

void Timer::cancel() {
    SyncRelease release;
    const SyncGuard guard(lock_);
    assert_state();
    next_ = kNever;
    release.take_all(waiters_, false);
}

Result<uint64_t> Timer::wait() {
    for (;;) {
        const Nanos now = detail::sync_now();
        SyncWaiter me;
        Nanos due = kNever;
        {
            SyncRelease release;
            const SyncGuard guard(lock_);
            assert_state();
            if (next_ == kNever) return closed("timer: it does not run");
            if (now >= next_) return expire(now, release);
            due = next_;
            detail::sync_enqueue(waiters_, me);
        }
        if (detail::sync_wait(lock_, waiters_, me, due) && !me.served)
            return closed("timer: it was cancelled");
    }
}

// Under lock_: takes all expiries up to `now`. A timer that ends so ends the other waits.
uint64_t Timer::expire(Nanos now, SyncRelease& release) {
    DCHECK(now >= next_ && next_ != kNever);
    if (period_ == 0) {
        next_ = kNever;
        release.take_all(waiters_, false);
        return 1;
    }
    const uint64_t late = (now - next_) / period_;
    const Nanos last = next_ + late * period_;
    DCHECK(last <= now);
    next_ = period_ < kNever - 1 - last ? last + period_ : kNever - 1;
    return late + 1;
}

}  // namespace lockstep
