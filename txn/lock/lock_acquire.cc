// lock_acquire.cc - the general lock and unlock, for requests that the fast path on a thin entry
// cannot serve.
//
// Concepts   Convoys: a lock is handed over to the next waiter. Suppose a queue has formed at a hot
//            lock, for example while its holder waited for a page. Each newcomer then finds the
//            lock owned by a thread that was just woken and has not run yet, and queues too. The
//            queue never ends, although no holder needs the lock for long. So a newcomer that finds
//            the only holder ready on its own worker yields to it and tries again. The queue
//            drains, and later requests find the lock free. After limits::lock_yields() yields the
//            newcomer queues. With teams this is off: their members are normally ready and hold
//            locks.
// Source     M. Blasgen, J. Gray, M. Mitoma, T. Price, "The Convoy Phenomenon", 1979.
// Blocking   acquire() parks when asked to wait and the request cannot be granted; release() never
//            does.
#include "threads/base/limits.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {

namespace {}  // namespace

bool LockManager::Impl::holder_is_ready_here(const LockEntry* entry) const {
    LockOwner* holder = nullptr;
    if (!word::is_fat(entry->word)) {
        holder = owners[word::slot(entry->word)].load(std::memory_order_relaxed);
    } else if (const LockRequest* granted = word::head(entry->word)->granted_first;
               !granted->next) {
        holder = granted->owner;
    }
    if (!holder) return false;
    // The holder's thread may write this field concurrently, when it waits for another lock.
    const threads::Thread* thread = std::atomic_ref(holder->thread).load(std::memory_order_relaxed);
    return thread && thread->worker == threads::current()->worker &&
           thread->state.load(std::memory_order_relaxed) == threads::Thread::kRunning;
}

// Decides under the latch: the request is granted, refused or queued.
LockManager::Impl::Step LockManager::Impl::decide(LockBucket& bucket, LockOwner& owner,
                                                  LockName name, LockMode mode, Ask ask,
                                                  bool may_yield) {
    DCHECK(has_name(bucket, name.value));
    bucket.assert_state();
    LockEntry* entry = find(bucket, name.value);
    LockMode others, waiting;
    const LockMode own = rights_of(entry, owner, &others, &waiting);
    const bool conversion = own != LockMode::none;
    // covers() first: a holder of S may ask for S again while another holds U, which admits no new
    // S.
    const bool possible = covers(own, mode) ||
                          (compatible(mode, others) && (conversion || compatible(waiting, mode)));
    if (ask == Ask::instant && possible) return Step::again;
    if (!possible) {
        if (ask == Ask::attempt) return Step::refused;
        if (owner.never_waits) return Step::unwanted;
        if (may_yield && !conversion && holder_is_ready_here(entry)) return Step::later;
        return queue_up(bucket, entry, owner, mode, ask, conversion);
    }
    if (!entry) {
        entry = insert(bucket, name.value);
        if (!entry) return Step::out_of_memory;
        entry->word = word::thin(owner.slot, mode);
        return Step::fresh;
    }
    if (!word::is_fat(entry->word)) {
        if (conversion) {
            entry->word |= static_cast<uint8_t>(mode);
            return Step::again;
        }
        if (!inflate(name.value, entry)) return Step::out_of_memory;
    }
    LockHead* head = word::head(entry->word);
    head->assert_state();
    if (LockRequest* granted = conversion ? granted_of(head, &owner) : nullptr) {
        head->granted.add(without(mode, granted->granted));
        granted->granted = granted->granted | mode;
        return Step::again;
    }
    if (add_granted(name.value, head, &owner, mode)) return Step::fresh;
    deflate(bucket, entry);
    return Step::out_of_memory;
}

LockManager::Impl::Step LockManager::Impl::queue_up(LockBucket& bucket, LockEntry* entry,
                                                    LockOwner& owner, LockMode mode, Ask ask,
                                                    bool conversion) {
    DCHECK(entry != nullptr && mode != LockMode::none && ask != Ask::attempt);
    const uint64_t name = entry->name;
    threads::Thread* thread = threads::current();
    if (!thread) return Step::wrong_thread;
    LockHead* head = word::is_fat(entry->word) ? word::head(entry->word) : inflate(name, entry);
    if (!head) return Step::out_of_memory;
    LockRequest* request = partition(name).requests.get();
    if (!request) {
        deflate(bucket, entry);
        return Step::out_of_memory;
    }
    request->name.store(name, std::memory_order_relaxed);
    request->owner = &owner;
    request->head = head;
    request->own = conversion ? granted_of(head, &owner) : nullptr;
    DCHECK(!conversion || (request->own != nullptr && request->own->granted != LockMode::none));
    request->granted = LockMode::none;
    request->wanted = mode;
    request->instant = ask == Ask::instant;
    request->worker = static_cast<uint8_t>(threads::worker_index());
    std::atomic_ref(owner.thread).store(thread, std::memory_order_relaxed);
    const Nanos now = threads::now();
    enqueue(request, now);
    note_held(head, now);
    // The policy may have put it before the waiters in whose favour it was refused.
    if (request->next && reorders_arrivals(options.stage.policy)) {
        WakeBatch wakes;
        grant_waiters(name, head, wakes);
    }
    return conversion ? Step::converting : Step::queued;
}

Result<Grant> LockManager::Impl::acquire(LockBucket& latched, LockOwner& owner, LockName name,
                                         LockMode mode, Ask ask) {
    LockBucket* bucket = &latched;
    uint32_t yields_left =
        ask != Ask::attempt && threads::current() && threads::worker_local.steps == nullptr
            ? limits::lock_yields()
            : 0;
    Step step;
    while ((step = decide(*bucket, owner, name, mode, ask, yields_left > 0)) == Step::later) {
        bucket->unlatch();
        --yields_left;
        threads::yield();
        bucket = &latch(name.value);
    }
    const bool crowded = step == Step::fresh && bucket->overflow != nullptr;
    bucket->unlatch();
    if (crowded) [[unlikely]]
        tend_table(0, true);
    switch (step) {
        case Step::fresh: return Grant::fresh;
        case Step::again: return Grant::again;
        case Step::refused: return Grant::refused;
        case Step::out_of_memory: return fail(ErrorCode::out_of_memory, "lock table");
        case Step::wrong_thread:
            return fail(ErrorCode::wrong_thread, "lock wait outside a user thread", name.value);
        case Step::unwanted: return fail(ErrorCode::lock_refused, "lock", name.value);
        case Step::later:  // the loop above ends with something else
        case Step::converting:
        case Step::queued: break;
    }
    TRY(wait(owner, name, mode));
    return step == Step::queued && ask != Ask::instant ? Grant::fresh : Grant::again;
}

bool LockManager::Impl::release(LockBucket& bucket, LockOwner& owner, LockName name,
                                LockMode rights, uint64_t note) {
    WakeBatch wakes;  // destroyed last, so it wakes after the latch is free
    bool nothing_left = true;
    DCHECK(has_name(bucket, name.value) && rights != LockMode::none);
    bucket.assert_state();
    if (LockEntry* entry = find(bucket, name.value); entry && !word::is_fat(entry->word)) {
        if (word::slot(entry->word) == owner.slot) {
            if (may_have_changed(entry->word)) bucket.raise_note(note);
            entry->word &= ~uint64_t{static_cast<uint8_t>(rights)};
            nothing_left = word::mode(entry->word) == LockMode::none;
            if (nothing_left) erase(bucket, entry);
        }
    } else if (entry) {
        LockHead* head = word::head(entry->word);
        head->assert_state();
        if (LockRequest* own = granted_of(head, &owner)) {
            if (may_have_changed(static_cast<uint8_t>(own->granted))) bucket.raise_note(note);
            head->granted.remove(own->granted & rights);
            own->granted = without(own->granted, rights);
            nothing_left = own->granted == LockMode::none;
            DCHECK(!nothing_left || (own->prev ? own->prev->next : head->granted_first) == own);
            if (nothing_left) {
                (own->prev ? own->prev->next : head->granted_first) = own->next;
                if (own->next) own->next->prev = own->prev;
                partition(name.value).requests.put(own);
            }
            if (!head->line.empty()) grant_waiters(name.value, head, wakes);
            deflate(bucket, entry);
        }
    }
    bucket.unlatch();
    return nothing_left;
}

bool LockManager::Impl::release_one(LockOwner& owner, LockName name, LockMode rights,
                                    uint64_t note) {
    LockBucket& b = latch(name.value);
    const Rest rest = release_thin(b, owner.slot, name, rights, note);
    if (rest == Rest::slow) [[unlikely]]
        return release(b, owner, name, rights, note);
    b.unlatch_thin();
    return rest == Rest::none;
}

void LockManager::Impl::release_noted(LockOwner& owner, LockName name, uint64_t note) {
    LockBucket& b = latch(name.value);
    if (release_thin(b, owner.slot, name, kAllRights, note) == Rest::slow) [[unlikely]]
        release(b, owner, name, kAllRights, note);
    else b.unlatch_thin();
}

// The note is read before the owner gives its rights back: it then covers every commit that had X
// on the name before this owner.
uint64_t LockManager::Impl::release_seen(LockOwner& owner, LockName name) {
    LockBucket& b = latch(name.value);
    const uint64_t seen = b.note();
    if (release_thin(b, owner.slot, name, kAllRights) == Rest::slow) [[unlikely]]
        release(b, owner, name, kAllRights);
    else b.unlatch_thin();
    return seen;
}

}  // namespace lockstep::txn
