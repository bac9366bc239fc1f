// prepared.cc - the C interface of two-phase commit.
#include <lockstep/c/prepared.h>

#include "sm/c/objects.h"

namespace lockstep::c {

static_assert(LOCKSTEP_GID_BYTES_MAX == kGidBytesMax);
static_assert(LOCKSTEP_VOTE_PREPARED == static_cast<int>(Vote::prepared));
static_assert(LOCKSTEP_VOTE_READ_ONLY == static_cast<int>(Vote::read_only));

namespace {

// end(Store, gid) -> Result<bool>.
template <class End>
int end_prepared(lockstep_store* store, lockstep_slice gid, bool* ended, lockstep_error* error,
                 End end) {
    return on_store(store, error, [&](StoreObject& s) -> Result<void> {
        LOCKSTEP_SOUND(gid);
        set(ended, TRY(end(s.store, slice_of(gid))));
        return {};
    });
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;
using lockstep::Slice;
using lockstep::Store;

int lockstep_prepare(lockstep_txn* txn, lockstep_slice gid, int* vote, lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_SOUND(gid);
        c::set(vote, static_cast<int>(TRY(c::prepare_here(t, c::slice_of(gid)))));
        return {};
    });
}

int lockstep_list_prepared(lockstep_store* store,
                           bool (*each)(void* arg, const lockstep_prepared_info* info), void* arg,
                           lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        for (const lockstep::PreparedInfo& of : s.store.prepared()) {
            const lockstep_prepared_info told = {.size = sizeof told,
                                                 .gid = c::to_c(of.gid),
                                                 .id = of.id.value,
                                                 .age_nanos = of.age,
                                                 .locks = of.locks};
            if (!each(arg, &told)) break;
        }
        return {};
    });
}

int lockstep_commit_prepared(lockstep_store* store, lockstep_slice gid, bool* ended,
                             lockstep_error* error) {
    return c::end_prepared(store, gid, ended, error,
                           [](Store& s, Slice name) { return s.commit_prepared(name); });
}

int lockstep_rollback_prepared(lockstep_store* store, lockstep_slice gid, bool* ended,
                               lockstep_error* error) {
    return c::end_prepared(store, gid, ended, error,
                           [](Store& s, Slice name) { return s.rollback_prepared(name); });
}
