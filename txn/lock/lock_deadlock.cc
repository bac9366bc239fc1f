// lock_deadlock.cc - deadlocks: a search over the waiting owners when one of them blocks.
//
// Concepts   A waiting owner has one request. It waits for the owners with conflicting rights and
//            for those before it in the queue that it would delay. The search goes breadth first
//            from the owner that just blocked, so it finds a shortest cycle. It then latches all
//            buckets of the cycle and checks the cycle again. What it sees then is one moment, not
//            a mixture of several, so there are no false victims. The victim is a first attempt if
//            there is one, that with the least work to lose. Among repetitions level and age decide
//            (lock_line.h). It is taken out of its queue at once, and the search repeats until the
//            starter is in no cycle. The owner that the victim waited for gets the first place in
//            the line where the victim's repetition will wait.
// Invariants LM-5 (lock_manager.h) No deadlock is missed, with any number of workers. Proof: the
//                 members of a cycle do not run, so its edges are stable once it is complete. It is
//                 complete when the last member has enqueued its request. Every member searches
//                 after it enqueued, and searches are serial (search.latch). The member that
//                 searches last does so after all have enqueued. It reads each edge under its
//                 bucket's latch, so it sees every edge of the cycle, and it is itself in the
//                 cycle. An edge can appear after its source enqueued, because another owner was
//                 granted or was put before it. Such an edge leads to an owner that is running or
//                 just enqueuing, and that owner's own search comes later.
//            LM-7 (lock_manager.h) A thread may run several owners (nested transactions) and waits
//                 for one of them. The others cannot end meanwhile, so the search goes on from the
//                 one that waits. A cycle of one member is an owner that waits for another one of
//                 its thread. Thread::lock_wait is stored before LockOwner::waiting, so the proof
//                 of LM-5 holds for these edges too. An owner whose thread has ended has no such
//                 edge, although its Thread object runs others (LockOwner::thread_use).
//            LK-4 (lock_impl.h) Only the search holds the latches of several buckets, and it takes
//                 them in address order.
// Blocking   Spins. Allocates nothing. Wakes the victim and the waiters that can then be granted.
// Source     Gray & Reuter 7.11 (waits-for graph, detection at block time).
#include <algorithm>

#include "threads/base/hints.h"
#include "txn/lock/lock_impl.h"
#include "txn/lock/lock_line.h"

namespace lockstep::txn {
namespace {

uint64_t loss(const LockOwner& owner) { return owner.work + owner.locks_held; }

// LNE-1. Among first attempts the least loss, and among equals the younger one.
bool better_victim(const LockOwner& a, const LockOwner& b) {
    const uint8_t level = level_of(a), other = level_of(b);
    if (level != other) return level < other;
    if (level != 0) return a.age > b.age;
    return loss(a) != loss(b) ? loss(a) < loss(b) : a.txn > b.txn;
}

class Searcher {
public:
    Searcher(LockManager::Impl& impl, LockOwner& start)
        : impl_(impl), search_(impl.search), start_(start) {}

    // Fills search.path with a cycle through the start. False if no cycle exists.
    bool find();
    // Ends the wait of the cycle's victim. False if the cycle does not exist any more.
    bool break_cycle(WakeBatch& wakes);

private:
    bool expand(uint32_t index);
    bool add(LockOwner* owner, uint32_t parent);
    bool confirm(CycleRecord& record);
    const DeadlockSearch::Node* choose_victim() const;
    LockOwner* waiter_for(LockOwner* blocker) const;
    void put_first_in_line(const DeadlockSearch::Node& victim);
    LockBucket* latch_beside(uint64_t name, bool& latched) const;

    LockManager::Impl& impl_;
    DeadlockSearch& search_;
    LockOwner& start_;
};

bool Searcher::find() {
    DCHECK(search_.latch.is_held());
    search_.nodes.clear();
    ++search_.round;
    add(&start_, 0);
    for (uint32_t i = 0; i < search_.nodes.size(); ++i)
        if (expand(i)) {
            search_.path.clear();
            for (uint32_t at = i; at != 0; at = search_.nodes[at].parent)
                search_.path.push_back(at);
            search_.path.push_back(0);
            std::reverse(search_.path.begin(), search_.path.end());
            search_.assert_state();
            return true;
        }
    return false;
}

bool Searcher::add(LockOwner* owner, uint32_t parent) {
    DCHECK(owner->slot < search_.seen.size() && search_.nodes.size() <= search_.seen.size());
    DCHECK(search_.nodes.empty() || parent < search_.nodes.size());
    uint32_t& seen = search_.seen[owner->slot];
    DCHECK(seen <= search_.round);
    if (seen == search_.round) return false;
    seen = search_.round;
    search_.nodes.push_back(
        {.owner = owner, .request = nullptr, .bucket = nullptr, .parent = parent});
    return true;
}

// Adds the owners that node `index` waits for. True if the start is among them.
bool Searcher::expand(uint32_t index) {
    LockOwner* const owner = search_.nodes[index].owner;
    while (LockRequest* request = owner->waiting.load(std::memory_order_acquire)) {
        LockBucket& bucket = impl_.latch(request->name.load(std::memory_order_relaxed));
        const BucketGuard guard(bucket);
        if (owner->waiting.load(std::memory_order_acquire) != request) continue;
        if (!impl_.has_name(bucket, request->name.load(std::memory_order_relaxed))) continue;
        DCHECK(request->owner == owner && request->head != nullptr);
        search_.nodes[index].request = request;
        search_.nodes[index].bucket = &bucket;
        bool closed = false;
        // An earlier waiter for the same rights waits only for owners that `owner` waits for too,
        // so a path through it adds nothing. A long queue thus costs no search of all its members.
        for_each_blocker(*request, [&](const LockRequest& at, bool queued) {
            LockOwner* const next = waiter_for(at.owner);
            closed = next == &start_;
            if (!closed && !(queued && at.wanted == request->wanted)) add(next, index);
            return !closed;
        });
        return closed;
    }
    return false;
}

// With the latches of all the cycle's buckets held: does every member wait for the next member?
bool Searcher::confirm(CycleRecord& record) {
    const auto& path = search_.path;
    for (size_t i = 0; i < path.size(); ++i) {
        DeadlockSearch::Node& node = search_.nodes[path[i]];
        DeadlockSearch::Node& next = search_.nodes[path[(i + 1) % path.size()]];
        if (node.owner->waiting.load(std::memory_order_acquire) != node.request) return false;
        const uint64_t name = node.request->name.load(std::memory_order_relaxed);
        if (!impl_.has_name(*node.bucket, name)) return false;  // its lock has moved
        DCHECK(node.request->owner == node.owner);
        bool found = false;
        for_each_blocker(*node.request, [&](const LockRequest& at, bool queued) {
            found = waiter_for(at.owner) == next.owner;
            if (!found) return true;
            next.nested = at.owner != next.owner;
            node.blocker = at.owner;
            if (i >= CycleRecord::kLines) return false;
            record.lines[i] = {.txn = node.owner->txn,
                               .name = name,
                               .object = node.owner->waits_in,
                               .wanted = node.request->wanted,
                               .place = node.owner->place ? *node.owner->place : LockPlace{},
                               .blocker = Blocker(at, queued, start_.wait_began)};
            if (next.nested) record.lines[i].blocker.inner = next.owner->txn;
            return false;
        });
        if (!found) return false;
    }
    return true;
}

// The owner that must get its lock before `blocker` can go on: itself, or the one for which its
// thread waits meanwhile (LM-7). Under the latch of a bucket where `blocker` has rights, so its
// thread is constant.
LockOwner* Searcher::waiter_for(LockOwner* blocker) const {
    if (!impl_.options.owners_have_threads ||
        blocker->waiting.load(std::memory_order_relaxed) != nullptr)
        return blocker;
    threads::Thread* thread = std::atomic_ref(blocker->thread).load(std::memory_order_relaxed);
    if (thread == nullptr) return blocker;
    auto* inner = static_cast<LockOwner*>(thread->lock_wait.load(std::memory_order_acquire));
    DCHECK(inner == nullptr || inner->slot < search_.seen.size());
    if (!inner || !inner->waiting.load(std::memory_order_acquire)) return blocker;
    // The thread of `blocker` has ended and left it open, and the Thread object serves another one.
    const auto use = [](LockOwner& of) {
        return std::atomic_ref(of.thread_use).load(std::memory_order_relaxed);
    };
    return use(*inner) == use(*blocker) ? inner : blocker;
}

// The least loss, but a nested owner only if all are nested: its thread's other owner keeps its
// rights, and the cycle would form again. One that waits in line comes before all: it begins at
// once, and nothing is rolled back.
const DeadlockSearch::Node* Searcher::choose_victim() const {
    const DeadlockSearch::Node* victim = nullptr;
    for (const uint32_t at : search_.path) {
        const DeadlockSearch::Node& node = search_.nodes[at];
        if (is_line(LockName{node.request->name.load(std::memory_order_relaxed)})) return &node;
        if (!victim || (node.nested != victim->nested ? victim->nested
                                                      : better_victim(*node.owner, *victim->owner)))
            victim = &node;
    }
    DCHECK(victim != nullptr && victim->request->owner == victim->owner);
    return victim;
}

bool Searcher::break_cycle(WakeBatch& wakes) {
    search_.assert_state();
    DCHECK(!search_.path.empty());
    auto& buckets = search_.buckets;
    buckets.clear();
    for (const uint32_t at : search_.path) buckets.push_back(search_.nodes[at].bucket);
    std::sort(buckets.begin(), buckets.end());
    buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    size_t latched = 0;
    while (latched < buckets.size() && impl_.latch_bucket(*buckets[latched])) ++latched;

    const uint32_t id = search_.cycles + 1;
    CycleRecord record;
    const bool real = latched == buckets.size() && confirm(record);
    if (real) {
        const DeadlockSearch::Node* victim = choose_victim();
        record.id = search_.cycles = id;
        record.length = static_cast<uint32_t>(search_.path.size());
        record.victim = victim->owner->txn;
        search_.kept[id % DeadlockSearch::kKept] = record;
        if (record.length > 1) put_first_in_line(*victim);
        impl_.deny(*victim->bucket, victim->request,
                   record.length == 1 ? WaitOutcome::own_thread : WaitOutcome::deadlock, id, wakes);
    }
    while (latched > 0) buckets[--latched]->unlatch();
    return real;
}

// With the latches of all the cycle's buckets held. So neither the blocker nor, if it is nested,
// its thread goes on meanwhile, and its list of names stands still. Does nothing if it would have
// to wait: then the repetition may begin too early.
void Searcher::put_first_in_line(const DeadlockSearch::Node& victim) {
    DCHECK(victim.blocker != nullptr && victim.blocker != victim.owner);
    const LockName lost{victim.request->name.load(std::memory_order_relaxed)};
    LockOwner& winner = *victim.blocker;
    if (is_line(lost)) return;
    const LockName line = line_of_record(lost);
    bool latched = false;
    LockBucket* const bucket = latch_beside(line.value, latched);
    if (bucket == nullptr) return;
    // The lock for which the winner waits needs the last place of its list.
    if (LockManager::Impl::find(*bucket, line.value) == nullptr &&
        (has_room_for(winner, 2) || impl_.grow_names(winner))) {
        if (LockEntry* entry = impl_.insert(*bucket, line.value)) {
            entry->word = word::thin(winner.slot, LockMode::X);
            push_name(winner, line);
            ++winner.waits;  // not a lock that it was granted at once
        }
    }
    if (latched) bucket->unlatch();
}

// The bucket of `name`, which the search holds already, or which is latched here. Not in address
// order (LK-4), so it gives up soon. Null: it has moved, or another thread keeps its latch.
LockBucket* Searcher::latch_beside(uint64_t name, bool& latched) const {
    constexpr int kTries = 100;
    LockBucket& bucket =
        impl_.array.bucket(impl_.array.shape.load(std::memory_order_relaxed), name);
    if (std::binary_search(search_.buckets.begin(), search_.buckets.end(), &bucket))
        return impl_.has_name(bucket, name) ? &bucket : nullptr;
    for (int i = 0; i < kTries && !latched; ++i) {
        const uint64_t h = bucket.header.load(std::memory_order_acquire);
        if (LockBucket::depth_of(h) == 0) return nullptr;
        latched = !(h & LockBucket::kLatched) && bucket.try_latch(h);
        if (!latched) cpu_relax();
    }
    if (!latched || impl_.has_name(bucket, name)) return latched ? &bucket : nullptr;
    bucket.unlatch();
    return nullptr;
}

}  // namespace

void LockManager::Impl::resolve_deadlocks(LockOwner& start) {
    const WatchGuard watch(watchers);
    WakeBatch wakes;  // flushed after the guard below
    const SpinGuard guard(search.latch);
    Searcher searcher(*this, start);
    while (searcher.find())
        if (searcher.break_cycle(wakes)) deadlocks.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace lockstep::txn
