// lock_queue.cc - the lock stage: which request waits, which is granted next, how a wait ends.
//
// Concepts   The thread that releases rights makes the grants, never the waiter. A woken thread
//            already owns its lock (hand-off), so no other request can slip in between. All
//            requests that can be granted are granted in one pass, as a group, and woken one after
//            the other. On their worker they stand next to each other in the ready queue, reach
//            their next operation together, and so join one team. The order of a line is the
//            stage's (threads/sync/stage.h); this file says only which request precedes which.
// Invariants LM-2, LK-2, LK-3.
//            STG-2 (stage.h) No request is overtaken by a new one more than bypass_max times.
//                  [checked: verify()]
// Blocking   Everything here runs under the bucket's latch.
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

using threads::Precedence;

// Conversions always precede new requests: their owner holds the lock, so other waiters wait for it
// anyway.
template <bool (*kBefore)(const LockOwner& arriving, const LockOwner& waiting)>
Precedence order(const LockRequest& arriving, const LockRequest& waiting) {
    if (waiting.own) return Precedence::behind;
    if (arriving.own) return Precedence::always_before;
    return kBefore(*arriving.owner, *waiting.owner) ? Precedence::before : Precedence::behind;
}

bool never(const LockOwner&, const LockOwner&) { return false; }
bool shorter(const LockOwner& a, const LockOwner& b) {
    return a.operations_left < b.operations_left;
}
bool more_important(const LockOwner& a, const LockOwner& b) { return a.priority > b.priority; }

threads::StageOrder<LockRequest> order_of(LockPolicy policy) {
    switch (policy) {
        case LockPolicy::short_first: return order<shorter>;
        case LockPolicy::priority: return order<more_important>;
        case LockPolicy::local_first:  // chooses at grant time, see prefer_local()
        case LockPolicy::fifo: break;
    }
    return order<never>;
}

// A name held is about one operation done, so transactions that never wait need no counter.
uint32_t operations_left(const LockOwner& owner) {
    if (owner.operations == 0) return UINT32_MAX;
    return owner.operations > owner.locks_held
               ? owner.operations - static_cast<uint32_t>(owner.locks_held)
               : 1;
}

// True if each right in `waited_for` conflicts with `granted`. Then no new request can be granted,
// and a long queue need not be walked.
bool all_conflict(LockMode waited_for, LockMode granted) {
    for (unsigned bits = static_cast<uint8_t>(waited_for); bits; bits &= bits - 1)
        if (compatible(static_cast<LockMode>(bits & -bits), granted)) return false;
    return true;
}

// Foreign kernel threads may unlock but have no clock: the waits that they end count as zero time.
Nanos time_of_grant() { return threads::current() ? threads::now() : 0; }

}  // namespace

threads::StageOptions<LockRequest> lock_stage_options(const LockStageOptions& options) {
    return {.order = order_of(options.policy), .bypass_max = options.bypass_max};
}

// The queue is bounded by the number of owners, since each waits for one name (LM-3). No
// back-pressure is needed.
void LockManager::Impl::enqueue(LockRequest* request, Nanos now) {
    LockHead* head = request->head;
    LockOwner* owner = request->owner;
    DCHECK(request->wanted != LockMode::none && owner->thread == threads::current());
    head->assert_state();
    CHECK(owner->waiting.load(std::memory_order_relaxed) == nullptr);  // LM-3
    owner->operations_left = operations_left(*owner);
    owner->wait_began = now;
    partition(request->name.load(std::memory_order_relaxed))
        .stage.enqueue(head->line, *request, now);
    head->waiting.add(request->wanted);
    owner->outcome = WaitOutcome::none;
    DCHECK(owner->thread->lock_wait.load(std::memory_order_relaxed) == nullptr);  // LM-7
    owner->thread->lock_wait.store(owner, std::memory_order_relaxed);
    owner->waiting.store(request, std::memory_order_release);
}

// LK-3. Clearing `waiting` is the last access to the owner.
void LockManager::Impl::end_wait(LockRequest* request, WaitOutcome outcome, WakeBatch& wakes) {
    LockOwner* owner = request->owner;
    DCHECK(owner->waiting.load(std::memory_order_relaxed) == request);  // LM-3
    DCHECK(outcome != WaitOutcome::none && owner->outcome == WaitOutcome::none);
    owner->outcome = outcome;
    wakes.add(owner->thread);
    owner->waiting.store(nullptr, std::memory_order_release);
}

// One pass from the front is enough: a grant adds rights, so it cannot make an earlier refused
// request possible.
void LockManager::Impl::grant_waiters(uint64_t name, LockHead* head, WakeBatch& wakes) {
    head->assert_state();
    LockStage& stage = partition(name).stage;
    Nanos now = 0;
    uint64_t group = 0;
    // Rights wanted by the waiters that stay before the current one.
    LockMode ahead = LockMode::none;
    bool choose = options.stage.policy == LockPolicy::local_first && threads::current() != nullptr;
    for (LockRequest *request = head->line.first, *next; request; request = next) {
        if (choose && !request->own) {
            choose = false;
            request = prefer_local(stage, head, request, ahead);
        }
        if (!request->own && all_conflict(head->waiting.mask, head->granted.mask)) break;
        next = request->next;
        const LockRequest* own = request->own;
        const LockMode others = own ? head->granted.without(own->granted) : head->granted.mask;
        if (!compatible(request->wanted, others) || (!own && !compatible(ahead, request->wanted))) {
            ahead = ahead | request->wanted;
            continue;
        }
        if (group++ == 0) now = time_of_grant();
        stage.take(head->line, *request, now);
        request->entered = now;
        head->waiting.remove(request->wanted);
        end_wait(request, WaitOutcome::granted, wakes);
        grant_request(name, head, request);
    }
    head->assert_state();
    if (group == 0) return;
    stage.finish(group);
    stage.served_together(group);
}

// Chooses the request to grant instead of `first`, the first that is no conversion: a request of
// this worker, moved to that place. Only a request that is granted at once may move. Otherwise it
// would add a waits-for edge that the deadlock search has not seen (LM-5).
LockRequest* LockManager::Impl::prefer_local(LockStage& stage, LockHead* head, LockRequest* first,
                                             LockMode ahead) {
    const uint32_t here = threads::worker_index();
    DCHECK(first != nullptr && !first->own);
    for (LockRequest* at = first; at && first->bypassed < options.stage.bypass_max; at = at->next) {
        if (at->worker != here || !compatible(at->wanted, head->granted.mask) ||
            !compatible(ahead, at->wanted))
            continue;
        return at == first || !stage.promote(head->line, *at, *first) ? first : at;
    }
    return first;
}

// Gives a granted request, already out of the line, its rights.
void LockManager::Impl::grant_request(uint64_t name, LockHead* head, LockRequest* request) {
    LockRequest* own = request->own;
    DCHECK(!own || (own->owner == request->owner && own->head == head));
    DCHECK(own || request->instant || granted_of(head, request->owner) == nullptr);
    if (!own && !request->instant) {
        request->granted = request->wanted;
        request->prev = nullptr;
        request->next = head->granted_first;
        if (head->granted_first) head->granted_first->prev = request;
        head->granted_first = request;
        head->granted.add(request->granted);
        return;
    }
    if (!request->instant) {
        head->granted.add(without(request->wanted, own->granted));
        own->granted = own->granted | request->wanted;
    }
    partition(name).requests.put(request);
}

void LockManager::Impl::deny(LockBucket& bucket, LockRequest* request, WaitOutcome outcome,
                             uint32_t cycle, WakeBatch& wakes) {
    const uint64_t name = request->name.load(std::memory_order_relaxed);
    LockHead* head = request->head;
    DCHECK(has_name(bucket, name));
    DCHECK(outcome != WaitOutcome::granted);
    head->assert_state();
    partition(name).stage.cancel(head->line, *request);
    head->waiting.remove(request->wanted);
    request->owner->cycle = cycle;
    end_wait(request, outcome, wakes);
    partition(name).requests.put(request);
    grant_waiters(name, head, wakes);
    LockEntry* entry = find(bucket, name);
    DCHECK(entry && word::head(entry->word) == head);
    deflate(bucket, entry);
}

}  // namespace lockstep::txn
