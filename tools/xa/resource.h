// resource.h - an open store as a resource manager: its branches, and what ends them.
//
// Concepts   All threads of a process that have opened one directory share a Resource. A branch is
//            a session of the C interface until it is prepared. Then it is a transaction in doubt
//            under the gid of its XID, and its entry here only says so. Those that the store has in
//            doubt when it is opened get entries, too.
// States     idle <-> active (start, join, end); idle -> prepared (prepare); active, idle ->
//            rollback_only (end, abandon); prepared -> completed, if somebody else has ended it
//            (commit, roll_back). Each of them -> gone.
// Invariants XR-1 A branch has at most one associated thread. Others wait in start().
//            XR-2 While `busy`, one call works on the branch without the lock; others wait.
//            [test: Xa.AJoinWaitsForTheOtherThread]
//            XR-3 An entry is prepared only if the store has answered `prepared` or has listed it.
//            [test: Xa.RecoversAfterTheStoreWasClosed]
// Blocking   All calls but state_of() may wait: for the store, and for other threads of the branch.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tools/xa/lockstep_xa.h"

namespace lockstep::xa {

// S1 to S5 of the standard; S0 is no entry.
enum class BranchState : unsigned char { active, idle, prepared, rollback_only, completed };

struct Branch {
    BranchState state = BranchState::idle;
    lockstep_txn* txn = nullptr;  // until it is prepared
    bool busy = true;             // XR-2
    bool associated = false;      // with a thread that works on it
    unsigned suspended = 0;       // associations that are suspended
    unsigned movable = 0;         // of them: of no thread
    int outcome = XA_RBROLLBACK;  // rollback_only: the code; completed: XA_HEURHAZ
};
using BranchPtr = std::shared_ptr<Branch>;

class Resource {
public:
    // The one of that directory, opened if no thread has it. Null: error code in `result`.
    static std::shared_ptr<Resource> open(const std::string& directory, int& result);
    // The caller's reference is its last use of it; the last one closes the store.
    static int close(std::shared_ptr<Resource> resource);
    ~Resource();

    lockstep_store* store() const { return store_; }
    const std::string& directory() const { return directory_; }

    // A new branch, active. Codes: XA_OK, XAER_DUPID, XAER_RMERR, XAER_RMFAIL.
    int start(const std::string& gid, BranchPtr& branch);
    // An existing branch for another association. `resumes`: it was suspended by this thread or,
    // with `moves`, by any. Codes: XA_OK, XAER_NOTA, XAER_PROTO, XA_RETRY, XA_RB...
    struct Join {
        bool resumes = false, moves = false, waits = true;
    };
    int join(const std::string& gid, Join how, BranchPtr& branch);
    // How an association ends. `was_active`: it was not suspended.
    enum class End : unsigned char { success, fail, suspend, suspend_movable };
    int end(Branch& branch, bool was_active, End how);
    // The thread is gone, and with it its association.
    void abandon(Branch& branch, bool was_active);

    int prepare(const std::string& gid);
    int commit(const std::string& gid, bool one_phase);
    int roll_back(const std::string& gid);
    int forget(const std::string& gid);
    // Prepared and heuristically completed branches.
    std::vector<XID> recover();
    // Nothing: S0.
    std::optional<BranchState> state_of(const std::string& gid);

private:
    using Lock = std::unique_lock<std::mutex>;

    explicit Resource(std::string directory) : directory_(std::move(directory)) {}
    int open_store();
    BranchPtr find(const std::string& gid);
    BranchPtr claim(Lock& lock, const std::string& gid);
    void release(Branch& branch);
    void leave(Branch& branch, bool was_active);
    void erase(const std::string& gid, Branch& branch);
    int end_prepared(Lock& lock, const std::string& gid, Branch& branch, bool commit);
    int end_session(Lock& lock, const std::string& gid, Branch& branch, bool commit);

    const std::string directory_;
    lockstep_store* store_ = nullptr;
    std::mutex mutex_;  // of what follows, and of the branches
    std::condition_variable changed_;
    std::map<std::string, BranchPtr, std::less<>> branches_;  // by gid
};

}  // namespace lockstep::xa
