// lock_wait.cc - the wait of a blocked request, and how it ends: grant, deadline, cancellation.
//
// States     queued -> granted (grant_waiters) | deadlock or own_thread (resolve_deadlocks) |
//            timeout or store_failed (cancel by the waiter) | cancelled (cancel).
// Blocking   wait() parks and must be called without any latch.
#include <algorithm>

#include "txn/lock/lock_impl.h"
#include "txn/lock/lock_line.h"

namespace lockstep::txn {
namespace {

static_assert(kFailureLook <= 5 * kSecond);  // the bound on every wait in a failed store

Nanos deadline_after(Nanos now, Nanos longest) {
    return longest >= kNever - now ? kNever : now + longest;
}

}  // namespace

[[gnu::noinline]] Result<void> LockManager::Impl::wait(LockOwner& owner, LockName name,
                                                       LockMode mode) {
    DCHECK(threads::current()->latch_depth == 0);
    DCHECK(owner.thread == threads::current() && name.value != 0);
    waits.fetch_add(1, std::memory_order_relaxed);
    resolve_deadlocks(owner);
    Blockers blockers;
    if (owner.waiting.load(std::memory_order_acquire)) {
        const Nanos before = threads::waited(threads::ParkReason::lock);
        const Nanos deadline =
            deadline_after(owner.wait_began, std::min(owner.timeout, options.timeout));
        while (owner.waiting.load(std::memory_order_acquire)) {
            // The holder's thread may never end its transaction once the store has failed.
            const Nanos look = options.store_state ? threads::now() + kFailureLook : kNever;
            if (threads::park_until(std::min(deadline, look), threads::ParkReason::lock)) continue;
            DCHECK(options.store_state || deadline != kNever);  // else only a wake ends it
            if (options.store_state && !options.store_state())
                cancel(owner, WaitOutcome::store_failed, &blockers);
            else if (threads::now() >= deadline) cancel(owner, WaitOutcome::timeout, &blockers);
        }
        const Nanos waited = threads::waited(threads::ParkReason::lock) - before;
        wait_nanos.fetch_add(waited, std::memory_order_relaxed);
        hot.note(name, owner.waits_in, owner.place, waited, threads::now_coarse());
    }
    DCHECK(owner.waiting.load() == nullptr);
    DCHECK(owner.thread->lock_wait.load(std::memory_order_relaxed) == &owner);
    owner.thread->lock_wait.store(nullptr, std::memory_order_relaxed);
    const WaitOutcome outcome = owner.outcome;
    owner.outcome = WaitOutcome::none;
    if (outcome != WaitOutcome::granted) [[unlikely]] {
        if (outcome == WaitOutcome::timeout && !is_line(name))
            timeouts.fetch_add(1, std::memory_order_relaxed);
        owner.lost = name;
        return wait_failed(owner, name, mode, outcome, blockers);
    }
    ++owner.waits;
    return {};
}

// The request may end and its memory may serve another lock meanwhile. It is valid only if, under
// the latch of the bucket that it names, the owner still waits for it.
void LockManager::Impl::cancel(LockOwner& owner, WaitOutcome outcome, Blockers* blockers) {
    WakeBatch wakes;
    while (LockRequest* request = owner.waiting.load(std::memory_order_acquire)) {
        LockBucket& b = latch(request->name.load(std::memory_order_relaxed));
        const BucketGuard guard(b);
        if (owner.waiting.load(std::memory_order_acquire) != request) continue;
        if (!has_name(b, request->name.load(std::memory_order_relaxed))) continue;
        if (blockers) {
            const Nanos now = threads::now();
            DCHECK(blockers->count == 0 && now >= owner.wait_began);
            blockers->waited = now - owner.wait_began;
            for_each_blocker(*request, [&](const LockRequest& at, bool queued) {
                if (blockers->count < Blockers::kMax)
                    blockers->of[blockers->count] = Blocker(at, queued, now);
                ++blockers->count;
                return true;
            });
        }
        deny(b, request, outcome, 0, wakes);
        return;
    }
}

// The same care as in cancel().
std::optional<LockManager::Wait> LockManager::wait_of(const LockOwner& owner) const {
    static_assert(Wait::kHoldersMax == Blockers::kMax);
    while (LockRequest* request = owner.waiting.load(std::memory_order_acquire)) {
        const uint64_t name = request->name.load(std::memory_order_relaxed);
        Blockers blockers;
        Wait wait;
        {
            const BucketGuard guard(impl_->latch(name));
            if (owner.waiting.load(std::memory_order_acquire) != request) continue;
            if (request->name.load(std::memory_order_relaxed) != name) continue;
            if (owner.place != nullptr) wait.place = *owner.place;
            DCHECK(owner.place == nullptr || wait.place.kind != PlaceKind::unknown);
            const Nanos now = threads::now();
            wait.mode = request->wanted;
            wait.object = owner.waits_in;
            wait.name = name;
            wait.waited = now > owner.wait_began ? now - owner.wait_began : 0;
            for_each_blocker(*request, [&](const LockRequest& at, bool queued) {
                if (blockers.count < Blockers::kMax)
                    blockers.of[blockers.count] = Blocker(at, queued, now);
                ++blockers.count;
                return true;
            });
        }
        wait.holders = blockers.count;
        for (uint32_t i = 0; i < std::min(blockers.count, Blockers::kMax); ++i) {
            wait.held += "; " + blockers.of[i].text(impl_->options.in_doubt_text);
            wait.holder[i] = blockers.of[i].txn;
        }
        return wait;
    }
    return std::nullopt;
}

std::string LockManager::text_of(const Wait& wait) const {
    DCHECK(wait.name != 0 && wait.mode != LockMode::none);
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);
    return std::string(lock_mode_name(wait.mode)) + " on " +
           impl_->place_text(wait.object, wait.name, wait.place) + wait.held;
}

std::vector<LockManager::HotLock> LockManager::hot_locks(size_t max, Nanos now) const {
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);
    std::vector<HotLock> all;
    for (const HotLockEntry& entry : impl_->hot.list(max, now))
        all.push_back({.text = impl_->place_text(entry.object, entry.name.value, entry.place),
                       .waits = entry.waits,
                       .waited = entry.waited});
    return all;
}
Nanos LockManager::hot_locks_look_back(Nanos now) { return HotLocks::looks_back(now); }

void LockManager::cancel(LockOwner& owner) { impl_->cancel(owner, WaitOutcome::cancelled); }

}  // namespace lockstep::txn
