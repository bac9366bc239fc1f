// prepared.cc - of the Python binding: two-phase commit.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

// Whether the transaction is in doubt now; false: it changed nothing, and has ended.
bool prepare(Number txn, nb::handle gid) {
    const Value name(gid);
    int vote = LOCKSTEP_VOTE_READ_ONLY;
    call([&](lockstep_error* error) {
        return lockstep_prepare(handle<lockstep_txn>(txn), name.slice(), &vote, error);
    });
    return vote == LOCKSTEP_VOTE_PREPARED;
}

struct Info {
    std::string gid;
    uint64_t id, age_nanos, locks;
};

nb::list prepared(Number store) {
    std::vector<Info> found;
    const auto each = [](void* arg, const lockstep_prepared_info* info) {
        static_cast<std::vector<Info>*>(arg)->push_back(
            {string_of(info->gid), info->id, info->age_nanos, info->locks});
        return true;
    };
    call([&](lockstep_error* error) {
        return lockstep_list_prepared(handle<lockstep_store>(store), each, &found, error);
    });
    nb::list result;
    for (const Info& of : found)
        result.append(nb::make_tuple(bytes_of(of.gid), of.id, of.age_nanos, of.locks));
    return result;
}

bool end_prepared(Number store, nb::handle gid, bool commit) {
    const Value name(gid);
    const auto end = commit ? lockstep_commit_prepared : lockstep_rollback_prepared;
    bool ended = false;
    call([&](lockstep_error* error) {
        return end(handle<lockstep_store>(store), name.slice(), &ended, error);
    });
    return ended;
}

}  // namespace

void add_prepared(nb::module_& module) {
    module.attr("GID_BYTES_MAX") = LOCKSTEP_GID_BYTES_MAX;
    module.def("prepare", prepare, nb::arg(), nb::arg().none());
    module.def("prepared", prepared);
    module.def("end_prepared", end_prepared, nb::arg(), nb::arg().none(), nb::arg());
}

}  // namespace lockstep::python
