// lock_cycle.h - for which requests a request waits, and the state of the deadlock search.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "txn/lock/lock_bucket.h"

namespace lockstep::txn {

// Calls visit(blocker, queued) for each request that `request` waits for: a granted one, or one
// before it in the queue. Stops when visit returns false. Under the bucket's latch.
template <class Visit>
void for_each_blocker(const LockRequest& request, Visit visit) {
    for (const LockRequest* at = request.head->granted_first; at; at = at->next)
        if (at->owner != request.owner && !compatible(request.wanted, at->granted))
            if (!visit(*at, false)) return;
    // Conversions wait for granted rights only (LK-2).
    if (request.own) return;
    for (const LockRequest* at = request.prev; at; at = at->prev)
        if (!compatible(at->wanted, request.wanted))
            if (!visit(*at, true)) return;
}

// One request that another one waits for, as of some moment; for texts.
struct Blocker {
    TxnId txn{};
    LockMode mode = LockMode::none;
    bool queued = false;
    TxnId inner{};   // in a cycle: what its thread runs meanwhile, if that is the next member
    Nanos time = 0;  // held for at least so long, or waiting so long

    Blocker() = default;
    Blocker(const LockRequest& at, bool is_queued, Nanos now)
        : txn(at.owner->txn),
          mode(is_queued ? at.wanted : at.granted),
          queued(is_queued),
          time(at.entered != 0 && now > at.entered ? now - at.entered : 0) {
        DCHECK(mode != LockMode::none);
    }
    // `in_doubt`: see LockOptions::in_doubt_text; may be empty.
    std::string text(const std::function<std::string(TxnId)>& in_doubt) const;
};
// What a request waited for when its time was up.
struct Blockers {
    static constexpr uint32_t kMax = 3;
    uint32_t count = 0;  // those beyond kMax are not kept
    Nanos waited = 0;
    Blocker of[kMax];
};

// One line of a recorded deadlock: `txn` waits for `wanted` on `name`, because of `blocker`.
struct CycleLine {
    TxnId txn{};
    uint64_t name = 0;
    ObjectId object = kNoObject;
    LockMode wanted = LockMode::none;
    LockPlace place;  // what `name` stands for, if `txn` says so
    Blocker blocker;
};
struct CycleRecord {
    static constexpr size_t kLines = 16;
    uint32_t id = 0;
    uint32_t length = 0;  // members of the cycle; lines beyond kLines are not kept
    TxnId victim{};
    CycleLine lines[kLines];
};

// State of the deadlock search, under `latch`. Sized once: a search allocates nothing.
struct DeadlockSearch {
    struct Node {
        LockOwner* owner;
        LockRequest* request;  // as seen under its bucket's latch
        LockBucket* bucket;
        uint32_t parent;  // index in nodes
        // The member before it waits for another owner of its thread.
        bool nested = false;
        LockOwner* blocker = nullptr;  // the one that it waits for
    };
    static constexpr size_t kKept = 64;
    // Under the latch: each owner is a node once, so nothing grows beyond the slots.
    void assert_state() const {
        DCHECK(latch.is_held());
        DCHECK(nodes.size() <= seen.size() && path.size() <= nodes.size());
        DCHECK(path.empty() || path.front() == 0);
    }

    SpinLock latch;
    uint32_t round = 0;
    uint32_t cycles = 0;
    std::vector<uint32_t> seen;        // by owner slot: round that made it a node
    std::vector<Node> nodes;           // breadth first
    std::vector<uint32_t> path;        // indices of nodes in the cycle
    std::vector<LockBucket*> buckets;  // of the cycle, sorted
    CycleRecord kept[kKept];
};

}  // namespace lockstep::txn
