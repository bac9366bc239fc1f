// version_table_impl.h - the queue of a worker, for the files of the table of versions.
#pragma once

#include "sm/version/version_table.h"

namespace lockstep::sm {

struct alignas(kCacheLineBytes) VersionTable::Queue {
    SpinLock lock;
    VersionGroup* first = nullptr;  // under lock
    VersionGroup* last = nullptr;
    std::atomic<uint64_t> made{0};  // by threads of the worker
    txn::OutcomeSource outcomes;    // of its transactions

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
