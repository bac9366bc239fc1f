// version_queue.h - the groups of versions that the threads of one worker have made, in their
// order.
#pragma once

#include <atomic>

#include <lockstep/types.h>
#include "sm/version/version.h"
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "txn/outcome.h"

namespace lockstep::sm {

struct alignas(kCacheLineBytes) VersionQueue {
    SpinLock lock;
    VersionGroup* first = nullptr;  // under lock
    VersionGroup* last = nullptr;
    std::atomic<uint64_t> made{0};  // by threads of the worker
    txn::OutcomeSource outcomes;    // of its transactions

    // By a thread of the worker.
    [[gnu::always_inline]] void count_made(size_t n) {
        made.store(made.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    // A list of groups.
    void push(VersionGroup& front, VersionGroup& back) {
        DCHECK(lock.is_held() && (first == nullptr) == (last == nullptr));
        front.before = last;
        back.behind = nullptr;
        (last != nullptr ? last->behind : first) = &front;
        last = &back;
    }
    void remove(VersionGroup& group) {
        DCHECK(first != nullptr && (group.before != nullptr || first == &group));
        DCHECK(group.behind != nullptr || last == &group);
        (group.before != nullptr ? group.before->behind : first) = group.behind;
        (group.behind != nullptr ? group.behind->before : last) = group.before;
    }
};

}  // namespace lockstep::sm
