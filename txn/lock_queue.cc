// lock_queue.cc - the queue of a fat lock: who waits, who is granted next, how a wait ends.
//
// Concepts   Grants are made by whoever gives rights back, never by the waiter: a woken thread owns its lock already (hand-off), so
//            nobody can slip in between. All requests that can be granted are granted in one pass, as a group.
// Invariants LM-2, LK-2, LK-3, and the ageing bound: a waiter bypassed bypass_max times is overtaken no more. [checked: enqueue()]
// Blocking   Everything here runs under the bucket's latch.
#include "txn/lock_impl.h"

namespace lockstep::txn {
namespace {

LockWaiter view(const LockRequest& request) {
    return {.wanted = request.wanted,
            .priority = request.owner->priority,
            .operations_left = request.owner->operations_left,
            .work = request.owner->work};
}

// The waiter that a new request goes before; null: the end. From the end forwards, so that only neighbours are overtaken.
LockRequest* place_by_policy(const LockRequest& request, const LockOptions& options) {
    LockRequest* place = nullptr;
    for (LockRequest* at = request.head->waiting_last; at && !at->own; at = at->prev) {
        if (at->bypassed >= options.bypass_max || !options.policy->before(view(request), view(*at))) break;
        place = at;
    }
    for (LockRequest* at = place; at; at = at->next) ++at->bypassed;
    return place;
}

LockRequest* first_new(const LockHead& head) {
    LockRequest* at = head.waiting_first;
    while (at && at->own) at = at->next;
    return at;
}

}  // namespace

void LockManager::Impl::enqueue(LockRequest* request) {
    LockHead* head = request->head;
    LockRequest* next = nullptr;
    if (request->own) next = first_new(*head);
    else if (options.policy) next = place_by_policy(*request, options);
    request->next = next;
    request->prev = next ? next->prev : head->waiting_last;
    (request->prev ? request->prev->next : head->waiting_first) = request;
    (next ? next->prev : head->waiting_last) = request;
    head->waiting.add(request->wanted);
    LockOwner* owner = request->owner;
    CHECK(owner->waiting.load(std::memory_order_relaxed) == nullptr);        // LM-3
    owner->outcome = WaitOutcome::none;
    owner->waiting.store(request, std::memory_order_release);
}

void LockManager::Impl::dequeue(LockRequest* request) {
    LockHead* head = request->head;
    (request->prev ? request->prev->next : head->waiting_first) = request->next;
    (request->next ? request->next->prev : head->waiting_last) = request->prev;
    head->waiting.remove(request->wanted);
}

// LK-3. Clearing `waiting` is the last touch of the owner.
void LockManager::Impl::end_wait(LockRequest* request, WaitOutcome outcome, WakeBatch& wakes) {
    LockOwner* owner = request->owner;
    owner->outcome = outcome;
    wakes.add(request->thread);
    owner->waiting.store(nullptr, std::memory_order_release);
}

// One pass from the front is enough: a grant adds rights, so nothing refused earlier in the pass becomes possible by it.
void LockManager::Impl::grant_waiters(uint64_t name, LockHead* head, WakeBatch& wakes) {
    LockMode ahead = LockMode::none;             // wanted by those who stay before the one looked at
    for (LockRequest *request = head->waiting_first, *next; request; request = next) {
        next = request->next;
        LockRequest* own = request->own;
        const LockMode others = own ? head->granted.without(own->granted) : head->granted.mask;
        if (!compatible(request->wanted, others) || (!own && !compatible(ahead, request->wanted))) {
            ahead = ahead | request->wanted;
            continue;
        }
        dequeue(request);
        end_wait(request, WaitOutcome::granted, wakes);
        if (!own && !request->instant) {
            request->granted = request->wanted;
            request->prev = nullptr;
            request->next = head->granted_first;
            if (head->granted_first) head->granted_first->prev = request;
            head->granted_first = request;
            head->granted.add(request->granted);
            continue;
        }
        if (!request->instant) {
            head->granted.add(without(request->wanted, own->granted));
            own->granted = own->granted | request->wanted;
        }
        partition(name).requests.put(request);
    }
}

void LockManager::Impl::deny(LockBucket& bucket, LockRequest* request, WaitOutcome outcome, uint32_t cycle, WakeBatch& wakes) {
    const uint64_t name = request->name.load(std::memory_order_relaxed);
    LockHead* head = request->head;
    dequeue(request);
    request->owner->cycle = cycle;
    end_wait(request, outcome, wakes);
    partition(name).requests.put(request);
    grant_waiters(name, head, wakes);
    LockEntry* entry = find(bucket, name);
    DCHECK(entry && word::head(entry->word) == head);
    deflate(bucket, entry);
}

}  // namespace lockstep::txn
