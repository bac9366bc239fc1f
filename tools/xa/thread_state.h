// thread_state.h - what a thread of control has opened, and with which branches it is associated.
//
// Invariants XT-1 A thread is associated with at most one branch of a resource manager (T1), and
//            with any number of others by a suspended association (T2).
//            [test: Xa.SuspendedBranches]
// Blocking   The end of a thread may wait: for the store that it leaves open.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/xa/resource.h"

namespace lockstep::xa {

struct Opened {
    Opened() = default;
    Opened(const Opened&) = delete;
    // Of a thread that ends without xa_close().
    ~Opened();

    std::shared_ptr<Resource> resource;
    std::string info;                                         // its open string
    std::string gid;                                          // of the active branch
    BranchPtr active;                                         // T1
    std::map<std::string, BranchPtr, std::less<>> suspended;  // T2, by gid
    lockstep_txn* outside = nullptr;
    std::vector<XID> scan;  // of xa_recover()
    size_t scanned = 0;
    bool scanning = false;

    // A transaction of lockstep_xa_begin_outside() has not ended.
    bool works_outside() const { return outside != nullptr && lockstep_txn_id(outside) != 0; }
};

// What the present thread has opened as `rmid`; null: nothing.
Opened* opened(int rmid);
Opened& open_as(int rmid);
void forget(int rmid);

}  // namespace lockstep::xa
