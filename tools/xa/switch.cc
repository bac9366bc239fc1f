// switch.cc - the entries of the switch: arguments, associations, and the way to the branches.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tools/xa/codes.h"
#include "tools/xa/lockstep_xa.h"
#include "tools/xa/thread_state.h"
#include "tools/xa/xid.h"

namespace lockstep::xa {

namespace {

// No exception leaves an entry.
template <class Call>
int guarded(Call call) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return XAER_RMERR;
    }
}

// What holds for the flags of each call. XA_OK: they are allowed.
int check_flags(long flags, long allowed) {
    if ((flags & TMASYNC) != 0) return XAER_ASYNC;
    return (flags & ~allowed) == 0 ? XA_OK : XAER_INVAL;
}

// Runs call(Opened, gid) if flags, name and context are right.
template <class Call>
int on_branch(const XID* xid, int rmid, long flags, long allowed, Call call) {
    return guarded([&] {
        if (const int wrong = check_flags(flags, allowed); wrong != XA_OK) return wrong;
        if (!sound(xid)) return int{XAER_INVAL};
        Opened* const of = opened(rmid);
        if (of == nullptr) return int{XAER_PROTO};
        return int{call(*of, gid_of(*xid))};
    });
}

int xa_open(char* info, int rmid, long flags) {
    return guarded([&] {
        if (const int wrong = check_flags(flags, TMNOFLAGS); wrong != XA_OK) return wrong;
        const size_t bytes = info == nullptr ? 0 : strnlen(info, MAXINFOSIZE);
        if (bytes == 0 || bytes == MAXINFOSIZE) return int{XAER_INVAL};
        if (const Opened* const of = opened(rmid))
            return of->info == info ? int{XA_OK} : int{XAER_INVAL};
        int result = XA_OK;
        std::shared_ptr<Resource> resource = Resource::open(info, result);
        if (resource == nullptr) return result;
        Opened& of = open_as(rmid);
        of.resource = std::move(resource);
        of.info = info;
        return result;
    });
}

int xa_close(char*, int rmid, long flags) {
    return guarded([&] {
        if (const int wrong = check_flags(flags, TMNOFLAGS); wrong != XA_OK) return wrong;
        Opened* const of = opened(rmid);
        if (of == nullptr) return int{XA_OK};
        if (of->active != nullptr || !of->suspended.empty() || of->works_outside())
            return int{XAER_PROTO};
        std::shared_ptr<Resource> resource = std::move(of->resource);
        forget(rmid);
        return Resource::close(std::move(resource));
    });
}

int join(Opened& of, const std::string& gid, long flags) {
    const bool resumes = (flags & TMRESUME) != 0;
    const auto own = of.suspended.find(gid);
    const bool is_own = own != of.suspended.end();
    if (!resumes && is_own) return XAER_PROTO;  // T2 is resumed or ended, not joined
    const Resource::Join how = {
        .resumes = resumes, .moves = resumes && !is_own, .waits = (flags & TMNOWAIT) == 0};
    const int code = of.resource->join(gid, how, of.active);
    if (code != XA_OK) return code;
    if (is_own) of.suspended.erase(own);
    of.gid = gid;
    return XA_OK;
}

int xa_start(XID* xid, int rmid, long flags) {
    return on_branch(xid, rmid, flags, TMJOIN | TMRESUME | TMNOWAIT,
                     [&](Opened& of, const std::string& gid) -> int {
                         const long both = TMJOIN | TMRESUME;
                         if ((flags & both) == both) return XAER_INVAL;
                         if (of.active != nullptr) return XAER_PROTO;  // XT-1
                         if (of.works_outside()) return XAER_OUTSIDE;
                         if ((flags & both) != 0) return join(of, gid, flags);
                         const int code = of.resource->start(gid, of.active);
                         if (code == XA_OK) of.gid = gid;
                         return code;
                     });
}

Resource::End end_of(long flags) {
    if ((flags & TMFAIL) != 0) return Resource::End::fail;
    if ((flags & TMMIGRATE) != 0) return Resource::End::suspend_movable;
    return (flags & TMSUSPEND) != 0 ? Resource::End::suspend : Resource::End::success;
}

int end_active(Opened& of, long flags) {
    const Resource::End how = end_of(flags);
    const int code = of.resource->end(*of.active, true, how);
    if (code == XAER_PROTO) return code;
    if (code == XA_OK && how == Resource::End::suspend)
        of.suspended.emplace(of.gid, std::move(of.active));
    of.active = nullptr;
    return code;
}

int xa_end(XID* xid, int rmid, long flags) {
    constexpr long kHow = TMSUSPEND | TMSUCCESS | TMFAIL;
    return on_branch(xid, rmid, flags, kHow | TMMIGRATE,
                     [&](Opened& of, const std::string& gid) -> int {
                         const long how = flags & kHow;
                         const bool migrates = (flags & TMMIGRATE) != 0;
                         if (how != TMSUSPEND && (migrates || (how != TMSUCCESS && how != TMFAIL)))
                             return XAER_INVAL;
                         if (of.active != nullptr && of.gid == gid) return end_active(of, flags);
                         const auto own = of.suspended.find(gid);
                         if (own == of.suspended.end())
                             return of.resource->state_of(gid) ? XAER_PROTO : XAER_NOTA;
                         if (how == TMSUSPEND) return XAER_PROTO;
                         const int code = of.resource->end(*own->second, false, end_of(flags));
                         of.suspended.erase(own);
                         return code;
                     });
}

int xa_rollback(XID* xid, int rmid, long flags) {
    return on_branch(xid, rmid, flags, TMNOFLAGS, [](Opened& of, const std::string& gid) {
        return of.resource->roll_back(gid);
    });
}

int xa_prepare(XID* xid, int rmid, long flags) {
    return on_branch(xid, rmid, flags, TMNOFLAGS,
                     [](Opened& of, const std::string& gid) { return of.resource->prepare(gid); });
}

int xa_commit(XID* xid, int rmid, long flags) {
    return on_branch(xid, rmid, flags, TMONEPHASE | TMNOWAIT,
                     [&](Opened& of, const std::string& gid) {
                         return of.resource->commit(gid, (flags & TMONEPHASE) != 0);
                     });
}

int xa_forget(XID* xid, int rmid, long flags) {
    return on_branch(xid, rmid, flags, TMNOFLAGS,
                     [](Opened& of, const std::string& gid) { return of.resource->forget(gid); });
}

int xa_recover(XID* xids, long count, int rmid, long flags) {
    return guarded([&] {
        if ((flags & ~(TMSTARTRSCAN | TMENDRSCAN)) != 0 || count < 0 ||
            (xids == nullptr && count != 0))
            return int{XAER_INVAL};
        Opened* const of = opened(rmid);
        if (of == nullptr) return int{XAER_PROTO};
        if ((flags & TMSTARTRSCAN) != 0) {
            of->scan = of->resource->recover();
            of->scanned = 0;
            of->scanning = true;
        }
        if (!of->scanning) return int{XAER_INVAL};
        const size_t n = std::min(static_cast<size_t>(count), of->scan.size() - of->scanned);
        std::copy_n(of->scan.begin() + static_cast<ptrdiff_t>(of->scanned), n, xids);
        of->scanned += n;
        if ((flags & TMENDRSCAN) != 0) of->scanning = false;
        return static_cast<int>(n);
    });
}

// Nothing is ever asynchronous here, so there is nothing to complete.
// NOLINTNEXTLINE(readability-non-const-parameter): the standard's signature
int xa_complete(int* handle, int* result, int, long flags) {
    if ((flags & ~(TMMULTIPLE | TMNOWAIT)) != 0 || handle == nullptr || result == nullptr)
        return XAER_INVAL;
    return XAER_PROTO;
}

}  // namespace
}  // namespace lockstep::xa

namespace xa = lockstep::xa;

struct xa_switch_t lockstep_xa_switch = {.name = "Lockstep",
                                         .flags = TMNOFLAGS,
                                         .version = 0,
                                         .xa_open_entry = xa::xa_open,
                                         .xa_close_entry = xa::xa_close,
                                         .xa_start_entry = xa::xa_start,
                                         .xa_end_entry = xa::xa_end,
                                         .xa_rollback_entry = xa::xa_rollback,
                                         .xa_prepare_entry = xa::xa_prepare,
                                         .xa_commit_entry = xa::xa_commit,
                                         .xa_recover_entry = xa::xa_recover,
                                         .xa_forget_entry = xa::xa_forget,
                                         .xa_complete_entry = xa::xa_complete};

int lockstep_xa_store(int rmid, lockstep_store** store) {
    if (store == nullptr) return XAER_INVAL;
    const xa::Opened* const of = xa::opened(rmid);
    *store = of == nullptr ? nullptr : of->resource->store();
    return of == nullptr ? XAER_PROTO : XA_OK;
}

int lockstep_xa_transaction(int rmid, lockstep_txn** txn) {
    if (txn == nullptr) return XAER_INVAL;
    const xa::Opened* const of = xa::opened(rmid);
    const bool inside = of != nullptr && of->active != nullptr;
    *txn = inside ? of->active->txn : nullptr;
    return inside ? XA_OK : XAER_PROTO;
}

int lockstep_xa_begin_outside(int rmid, const lockstep_txn_options* options, lockstep_txn** txn,
                              lockstep_error* error) {
    if (txn == nullptr) return XAER_INVAL;
    *txn = nullptr;
    xa::Opened* const of = xa::opened(rmid);
    if (of == nullptr || of->active != nullptr || of->works_outside()) return XAER_PROTO;
    if (lockstep_begin(of->resource->store(), options, txn, error) != LOCKSTEP_OK)
        return XAER_RMERR;
    of->outside = *txn;
    return XA_OK;
}
