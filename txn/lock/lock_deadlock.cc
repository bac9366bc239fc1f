// lock_deadlock.cc - deadlocks: a search over the waiting owners when one of them blocks.
//
// Concepts   A waiting owner has one request. It waits for the owners with conflicting rights and
//            for those before it in the queue that it would delay. The search goes breadth first
//            from the owner that just blocked, so it finds a shortest cycle. It then latches all
//            buckets of the cycle and checks the cycle again. What it sees then is one moment, not
//            a mixture of several, so there are no false victims. The victim has the least work to
//            lose. It is taken out of its queue at once, and the search repeats until the starter
//            is in no cycle.
// Invariants LM-5 No deadlock is missed, with any number of workers. Proof: the members of a cycle
//                 do not run, so its edges are stable once it is complete. It is complete when the
//                 last member has enqueued its request. Every member searches after it enqueued,
//                 and searches are serial (search.latch). The member that searches last does so
//                 after all have enqueued. It reads each edge under its bucket's latch, so it sees
//                 every edge of the cycle, and it is itself in the cycle. An edge can appear after
//                 its source enqueued, because another owner was granted or was put before it. Such
//                 an edge leads to an owner that is running or just enqueuing, and that owner's own
//                 search comes later.
//            LK-4 Only the search holds the latches of several buckets, and it takes them in
//                 address order.
// Blocking   Spins. Allocates nothing. Wakes the victim and the waiters that can then be granted.
// Source     Gray & Reuter 7.11 (waits-for graph, detection at block time).
#include <algorithm>

#include "threads/base/mutants.h"
#include "txn/lock/lock_impl.h"

namespace lockstep::txn {
namespace {

// Calls visit(owner, rights, queued) for each owner that `request` waits for. Stops when visit
// returns false.
template <class Visit>
void for_each_blocker(const LockRequest& request, Visit visit) {
    for (const LockRequest* at = request.head->granted_first; at; at = at->next)
        if (at->owner != request.owner && !compatible(request.wanted, at->granted))
            if (!visit(at->owner, at->granted, false)) return;
    // Conversions wait for granted rights only (LK-2).
    if (request.own && !MUTANT(conversion_waits_behind)) return;
    for (const LockRequest* at = request.prev; at; at = at->prev)
        if (!compatible(at->wanted, request.wanted))
            if (!visit(at->owner, at->wanted, true)) return;
}

uint64_t loss(const LockOwner& owner) { return owner.work + owner.locks_held; }

// Least loss; among equals the younger one.
bool better_victim(const LockOwner& a, const LockOwner& b) {
    return loss(a) != loss(b) ? (loss(a) < loss(b)) != MUTANT(deadlock_worst_victim)
                              : a.txn > b.txn;
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
        LockBucket& bucket = impl_.bucket(request->name.load(std::memory_order_relaxed));
        const SpinGuard guard(bucket.latch);
        if (owner->waiting.load(std::memory_order_acquire) != request) continue;
        if (&impl_.bucket(request->name.load(std::memory_order_relaxed)) != &bucket) continue;
        DCHECK(request->owner == owner && request->head != nullptr);
        search_.nodes[index].request = request;
        search_.nodes[index].bucket = &bucket;
        bool closed = false;
        // An earlier waiter for the same rights waits only for owners that `owner` waits for too,
        // so a path through it adds nothing. A long queue thus costs no search of all its members.
        for_each_blocker(*request, [&](LockOwner* blocker, LockMode mode, bool queued) {
            closed = blocker == &start_;
            if (!closed && !(queued && mode == request->wanted)) add(blocker, index);
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
        const DeadlockSearch::Node& node = search_.nodes[path[i]];
        const LockOwner* next = search_.nodes[path[(i + 1) % path.size()]].owner;
        if (node.owner->waiting.load(std::memory_order_acquire) != node.request) return false;
        const uint64_t name = node.request->name.load(std::memory_order_relaxed);
        if (&impl_.bucket(name) != node.bucket) return false;
        DCHECK(node.bucket->latch.is_held() && node.request->owner == node.owner);
        bool found = false;
        for_each_blocker(*node.request, [&](const LockOwner* blocker, LockMode mode, bool queued) {
            found = blocker == next;
            if (found && i < CycleRecord::kLines)
                record.lines[i] = {.txn = node.owner->txn,
                                   .name = name,
                                   .wanted = node.request->wanted,
                                   .other = mode,
                                   .queued = queued};
            return !found;
        });
        if (!found) return false;
    }
    return true;
}

bool Searcher::break_cycle(WakeBatch& wakes) {
    search_.assert_state();
    DCHECK(!search_.path.empty());
    auto& buckets = search_.buckets;
    buckets.clear();
    for (const uint32_t at : search_.path) buckets.push_back(search_.nodes[at].bucket);
    std::sort(buckets.begin(), buckets.end());
    buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    for (LockBucket* bucket : buckets) bucket->latch.lock();

    const uint32_t id = search_.cycles + 1;
    CycleRecord record;
    const bool real = confirm(record) || MUTANT(cycle_unconfirmed);
    if (real) {
        const DeadlockSearch::Node* victim = &search_.nodes[search_.path[0]];
        for (const uint32_t at : search_.path)
            if (better_victim(*search_.nodes[at].owner, *victim->owner))
                victim = &search_.nodes[at];
        DCHECK(victim->request->owner == victim->owner);
        record.id = search_.cycles = id;
        record.length = static_cast<uint32_t>(search_.path.size());
        record.victim = victim->owner->txn;
        search_.kept[id % DeadlockSearch::kKept] = record;
        impl_.deny(*victim->bucket, victim->request, WaitOutcome::deadlock, id, wakes);
    }
    for (LockBucket* bucket : buckets) bucket->latch.unlock();
    return real;
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

std::string LockManager::describe_cycle(uint32_t id) const {
    CycleRecord record;
    {
        const SpinGuard guard(impl_->search.latch);
        record = impl_->search.kept[id % DeadlockSearch::kKept];
    }
    if (id == 0 || record.id != id) return {};
    const auto number = [](uint64_t value) { return std::to_string(value); };
    const auto hex = [](uint64_t value) {
        std::string digits;
        for (; value || digits.empty(); value >>= 4)
            digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
        return "0x" + digits;
    };
    std::string text;
    const uint32_t lines = std::min<uint32_t>(record.length, CycleRecord::kLines);
    for (uint32_t i = 0; i < lines; ++i) {
        const CycleLine& line = record.lines[i];
        const bool last_kept = i + 1 == CycleRecord::kLines && record.length > CycleRecord::kLines;
        if (i) text += "; ";
        text += "txn " + number(line.txn.value) + " waits for " + lock_mode_name(line.wanted) +
                " on " + hex(line.name) + (line.queued ? " behind " : " held by ");
        text += last_kept ? "another" : "txn " + number(record.lines[(i + 1) % lines].txn.value);
        text += std::string(" (") + lock_mode_name(line.other) + ")";
    }
    if (record.length > lines) text += "; and " + number(record.length - lines) + " more";
    return text + "; victim txn " + number(record.victim.value);
}

}  // namespace lockstep::txn
