// stats.cc - of the Python binding: counters, metrics, transactions that run.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

nb::dict stats(Number store) {
    lockstep_stats counted;
    counted.size = sizeof counted;
    call_at_once([&](lockstep_error* error) {
        return lockstep_get_stats(handle<lockstep_store>(store), &counted, error);
    });
    nb::dict result;
#define LOCKSTEP_TAKE(field) result[#field] = counted.field;
    LOCKSTEP_COUNTERS(LOCKSTEP_TAKE)
#undef LOCKSTEP_TAKE
    return result;
}

template <class Read>
nb::str text_of(Number store, Read read) {
    std::string text(size_t{64} << 10, '\0');
    for (size_t bytes = 0;; text.resize(bytes)) {
        call_at_once([&](lockstep_error* error) {
            return read(handle<lockstep_store>(store), text.data(), text.size(), &bytes, error);
        });
        if (bytes <= text.size()) return nb::str(text.data(), bytes);
    }
}

struct Info {
    lockstep_transaction_info info;
    std::string waits_for, gid;
    std::vector<uint64_t> ids;
};

nb::list transactions(Number store) {
    std::vector<Info> found;
    const auto each = [](void* arg, const lockstep_transaction_info* info) {
        static_cast<std::vector<Info>*>(arg)->push_back(
            {*info,
             info->waits_for,
             string_of(info->gid),
             {info->waits_for_ids, info->waits_for_ids + info->waits_for_count}});
        return true;
    };
    call([&](lockstep_error* error) {
        return lockstep_transactions(handle<lockstep_store>(store), each, &found, error);
    });
    nb::list result;
    for (const Info& one : found) {
        const lockstep_transaction_info& i = one.info;
        nb::list ids;
        for (const uint64_t id : one.ids) ids.append(id);
        result.append(nb::make_tuple(i.id, i.age_nanos, i.thread, i.worker, i.state, i.read_only,
                                     i.internal, i.marked, i.locks, i.log_bytes, i.undo_bytes,
                                     i.log_pinned_bytes, one.waits_for, i.waited_nanos,
                                     nb::tuple(ids), bytes_of(one.gid)));
    }
    return result;
}

template <int (*kEnd)(lockstep_store*, uint64_t, lockstep_error*)>
void end_transaction(Number store, nb::handle given) {
    const auto id = whole<uint64_t>(given, "id");
    call([&](lockstep_error* error) { return kEnd(handle<lockstep_store>(store), id, error); });
}

}  // namespace

void add_stats(nb::module_& module) {
    module.def("stats", stats);
    module.def("metrics", [](Number store) { return text_of(store, lockstep_metrics); });
    module.def("failure", [](Number store) { return text_of(store, lockstep_failure); });
    module.def("transactions", transactions);
    module.def("end_transaction", end_transaction<lockstep_end_transaction>, nb::arg(),
               nb::arg().none());
    module.def("cancel_transaction", end_transaction<lockstep_cancel_transaction>, nb::arg(),
               nb::arg().none());
}

}  // namespace lockstep::python
