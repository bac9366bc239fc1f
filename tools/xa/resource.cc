// resource.cc - branches of an open store.
#include "tools/xa/resource.h"

#include <filesystem>
#include <utility>

#include "tools/xa/codes.h"
#include "tools/xa/xid.h"

namespace lockstep::xa {

namespace {

// The process has one table: threads that name one directory mean one store.
std::mutex& registry_mutex() {
    static std::mutex mutex;
    return mutex;
}
std::map<std::string, std::weak_ptr<Resource>, std::less<>>& registry() {
    static std::map<std::string, std::weak_ptr<Resource>, std::less<>> open;
    return open;
}

// Whether the session can still commit: what asks for a savepoint finds that out.
int code_of_session(lockstep_txn* txn) {
    lockstep_savepoint point;
    return lockstep_set_savepoint(txn, &point, nullptr);
}

}  // namespace

std::shared_ptr<Resource> Resource::open(const std::string& directory, int& result) {
    std::error_code failed;
    std::string path = std::filesystem::weakly_canonical(directory, failed).string();
    if (failed) path = directory;
    const std::lock_guard guard(registry_mutex());
    std::weak_ptr<Resource>& known = registry()[path];
    std::shared_ptr<Resource> resource = known.lock();
    result = XA_OK;
    if (resource != nullptr) return resource;
    resource = std::shared_ptr<Resource>(new Resource(path));
    result = resource->open_store();
    if (result != XA_OK) {
        registry().erase(path);
        return nullptr;
    }
    known = resource;
    return resource;
}

int Resource::open_store() {
    if (lockstep_open(directory_.c_str(), nullptr, &store_, nullptr) != LOCKSTEP_OK) {
        store_ = nullptr;
        return XAER_RMERR;
    }
    const auto note = [](void* arg, const lockstep_prepared_info* info) {
        auto& self = *static_cast<Resource*>(arg);
        std::string gid(static_cast<const char*>(info->gid.data), info->gid.size);
        if (!xid_of(gid)) return true;  // of another coordinator
        auto branch = std::make_shared<Branch>();
        branch->state = BranchState::prepared;
        branch->busy = false;
        self.branches_.emplace(std::move(gid), std::move(branch));
        return true;
    };
    return lockstep_list_prepared(store_, note, this, nullptr) == LOCKSTEP_OK ? XA_OK : XAER_RMERR;
}

// Under the registry's lock, so that nobody finds a resource that is being closed, or opens the
// directory before it is closed.
int Resource::close(std::shared_ptr<Resource> resource) {
    const std::lock_guard guard(registry_mutex());
    if (resource.use_count() > 1) {
        resource.reset();
        return XA_OK;
    }
    registry().erase(resource->directory_);
    const int code = lockstep_close(std::exchange(resource->store_, nullptr), nullptr);
    return code == LOCKSTEP_OK ? XA_OK : XAER_RMERR;
}

Resource::~Resource() {
    if (store_ != nullptr) (void)lockstep_close(store_, nullptr);
}

BranchPtr Resource::find(const std::string& gid) {
    const auto at = branches_.find(gid);
    return at == branches_.end() ? nullptr : at->second;
}

// The branch, busy for the caller. Null: there is none any more.
BranchPtr Resource::claim(Lock& lock, const std::string& gid) {
    for (;;) {
        BranchPtr branch = find(gid);
        if (branch == nullptr || !std::exchange(branch->busy, true)) return branch;
        changed_.wait(lock);
    }
}

void Resource::release(Branch& branch) {
    branch.busy = false;
    changed_.notify_all();
}

void Resource::erase(const std::string& gid, Branch& branch) {
    branch.txn = nullptr;
    branches_.erase(gid);
    release(branch);
}

int Resource::start(const std::string& gid, BranchPtr& branch) {
    Lock lock(mutex_);
    const auto [at, made] = branches_.try_emplace(gid, nullptr);
    if (!made) return XAER_DUPID;
    branch = at->second = std::make_shared<Branch>();
    lock.unlock();
    const int code = lockstep_begin(store_, nullptr, &branch->txn, nullptr);
    lock.lock();
    if (code != LOCKSTEP_OK) {
        erase(gid, *std::exchange(branch, nullptr));
        return error_code(code);
    }
    branch->state = BranchState::active;
    branch->associated = true;
    release(*branch);
    return XA_OK;
}

int Resource::join(const std::string& gid, Join how, BranchPtr& branch) {
    Lock lock(mutex_);
    for (;; changed_.wait(lock)) {
        const BranchPtr found = find(gid);
        if (found == nullptr) return XAER_NOTA;
        if (how.resumes && how.moves && found->movable == 0) return XAER_PROTO;
        const bool taken = found->busy || found->associated;  // XR-1
        if (taken && !how.waits) return XA_RETRY;
        if (taken) continue;
        if (found->state == BranchState::rollback_only) return found->outcome;
        if (found->state != BranchState::idle) return XAER_PROTO;
        if (how.resumes) --found->suspended;
        if (how.resumes && how.moves) --found->movable;
        found->state = BranchState::active;
        found->associated = true;
        branch = found;
        return XA_OK;
    }
}

int Resource::end(Branch& branch, bool was_active, End how) {
    const bool suspends = how == End::suspend || how == End::suspend_movable;
    int code = LOCKSTEP_OK;
    if (was_active && how != End::fail) {
        code = code_of_session(branch.txn);
        if (code == LOCKSTEP_WRONG_THREAD) return XAER_PROTO;  // a call of the application runs
    }
    const Lock lock(mutex_);
    leave(branch, was_active);
    if (branch.state == BranchState::rollback_only) return branch.outcome;
    if (how == End::fail || code != LOCKSTEP_OK) {
        branch.state = BranchState::rollback_only;
        if (code != LOCKSTEP_OK) branch.outcome = rollback_code(code);
    } else if (was_active) {
        branch.state = BranchState::idle;
        branch.suspended += suspends ? 1 : 0;
        branch.movable += how == End::suspend_movable ? 1 : 0;
    }
    return branch.state == BranchState::rollback_only ? branch.outcome : XA_OK;
}

void Resource::leave(Branch& branch, bool was_active) {
    if (was_active) branch.associated = false;
    else --branch.suspended;
    changed_.notify_all();
}

void Resource::abandon(Branch& branch, bool was_active) {
    const Lock lock(mutex_);
    leave(branch, was_active);
    if (branch.state == BranchState::active || branch.state == BranchState::idle)
        branch.state = BranchState::rollback_only;
}

int Resource::prepare(const std::string& gid) {
    Lock lock(mutex_);
    const BranchPtr branch = claim(lock, gid);
    if (branch == nullptr) return XAER_NOTA;
    if (branch->state != BranchState::idle || branch->suspended != 0) {
        release(*branch);
        return XAER_PROTO;
    }
    lock.unlock();
    int vote = LOCKSTEP_VOTE_PREPARED;
    const int code = lockstep_prepare(branch->txn, {gid.data(), gid.size()}, &vote, nullptr);
    if (code != LOCKSTEP_OK) (void)lockstep_abort(branch->txn, nullptr);
    lock.lock();
    if (code == LOCKSTEP_OK && vote == LOCKSTEP_VOTE_PREPARED) {
        branch->txn = nullptr;
        branch->state = BranchState::prepared;  // XR-3
        release(*branch);
        return XA_OK;
    }
    erase(gid, *branch);
    if (code == LOCKSTEP_OK) return XA_RDONLY;
    return unavailable(code) ? XAER_RMFAIL : rollback_code(code);
}

int Resource::commit(const std::string& gid, bool one_phase) {
    Lock lock(mutex_);
    const BranchPtr branch = claim(lock, gid);
    if (branch == nullptr) return XAER_NOTA;
    const auto wanted = one_phase ? BranchState::idle : BranchState::prepared;
    if (branch->state == BranchState::completed || branch->state != wanted ||
        branch->suspended != 0) {
        const int code =
            branch->state == BranchState::completed ? branch->outcome : int{XAER_PROTO};
        release(*branch);
        return code;
    }
    return one_phase ? end_session(lock, gid, *branch, true)
                     : end_prepared(lock, gid, *branch, true);
}

int Resource::roll_back(const std::string& gid) {
    Lock lock(mutex_);
    const BranchPtr branch = claim(lock, gid);
    if (branch == nullptr) return XAER_NOTA;
    if (branch->state == BranchState::prepared) return end_prepared(lock, gid, *branch, false);
    const bool ends =
        branch->state == BranchState::idle || branch->state == BranchState::rollback_only;
    if (ends && branch->suspended == 0 && !branch->associated)
        return end_session(lock, gid, *branch, false);
    const int code = branch->state == BranchState::completed ? branch->outcome : int{XAER_PROTO};
    release(*branch);
    return code;
}

// Whoever ended it in place of the transaction manager, as by `lockstep commit`, left no word how.
int Resource::end_prepared(Lock& lock, const std::string& gid, Branch& branch, bool commit) {
    lock.unlock();
    const auto end = commit ? lockstep_commit_prepared : lockstep_rollback_prepared;
    bool ended = false;
    const int code = end(store_, {gid.data(), gid.size()}, &ended, nullptr);
    lock.lock();
    if (code == LOCKSTEP_OK && ended) {
        erase(gid, branch);
        return XA_OK;
    }
    if (code == LOCKSTEP_OK) {
        branch.state = BranchState::completed;
        branch.outcome = XA_HEURHAZ;
    }
    release(branch);
    return code == LOCKSTEP_OK ? XA_HEURHAZ : XAER_RMFAIL;
}

int Resource::end_session(Lock& lock, const std::string& gid, Branch& branch, bool commit) {
    lock.unlock();
    const int code = commit ? lockstep_commit(branch.txn, nullptr, nullptr)
                            : lockstep_abort(branch.txn, nullptr);
    lock.lock();
    erase(gid, branch);
    if (code == LOCKSTEP_OK) return XA_OK;
    if (unavailable(code)) return XAER_RMFAIL;
    // The application may have ended the transaction itself: nothing is left to roll back.
    return commit ? rollback_code(code) : code == LOCKSTEP_TXN_ENDED ? XA_RBPROTO : XA_RBROLLBACK;
}

int Resource::forget(const std::string& gid) {
    Lock lock(mutex_);
    const BranchPtr branch = claim(lock, gid);
    if (branch == nullptr) return XAER_NOTA;
    if (branch->state == BranchState::completed) {
        erase(gid, *branch);
        return XA_OK;
    }
    release(*branch);
    return XAER_PROTO;
}

std::vector<XID> Resource::recover() {
    std::vector<XID> found;
    const Lock lock(mutex_);
    for (const auto& [gid, branch] : branches_)
        if (branch->state == BranchState::prepared || branch->state == BranchState::completed)
            if (const auto xid = xid_of(gid)) found.push_back(*xid);
    return found;
}

std::optional<BranchState> Resource::state_of(const std::string& gid) {
    const Lock lock(mutex_);
    const BranchPtr branch = find(gid);
    if (branch == nullptr) return {};
    return branch->state;
}

}  // namespace lockstep::xa
