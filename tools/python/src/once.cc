// once.cc - of the Python binding: calls on indexes without a transaction.
#include "tools/python/src/core.h"
#include "tools/python/src/reads.h"

namespace lockstep::python {

namespace {

lockstep_store* c(Number store) { return handle<lockstep_store>(store); }

lockstep_txn_options how(bool lazy) {
    lockstep_txn_options options;
    lockstep_txn_options_init(&options, sizeof options);
    options.durability = lazy ? LOCKSTEP_LAZY : LOCKSTEP_DURABLE;
    return options;
}

nb::object get(Number store, nb::handle object, nb::handle key) {
    lockstep_index* const index = index_of(object);
    const Key bytes(key);
    // A value that becomes longer between two calls is asked for once more.
    return read_whole(
        [&](char* buffer, size_t room, size_t* size, bool* found, lockstep_error* error) {
            return lockstep_get_once(c(store), index, bytes.slice(), buffer, room, size, found,
                                     nullptr, error);
        });
}

void insert(Number store, nb::handle object, nb::handle key, nb::handle value, bool lazy) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(value);
    const lockstep_txn_options options = how(lazy);
    call([&](lockstep_error* error) {
        return lockstep_insert_once(c(store), index, k.slice(), v.slice(), &options, error);
    });
}

void put(Number store, nb::handle object, nb::handle key, nb::handle value, bool lazy) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(value);
    const lockstep_txn_options options = how(lazy);
    call([&](lockstep_error* error) {
        return lockstep_put_once(c(store), index, k.slice(), v.slice(), &options, error);
    });
}

bool erase(Number store, nb::handle object, nb::handle key, bool lazy) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const lockstep_txn_options options = how(lazy);
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_erase_once(c(store), index, k.slice(), &found, &options, error);
    });
    return found;
}

nb::object add(Number store, nb::handle object, nb::handle key, nb::handle from, nb::handle given,
               bool lazy) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const auto offset = whole<size_t>(from, "offset");
    const auto n = whole<int64_t>(given, "n");
    const lockstep_txn_options options = how(lazy);
    int64_t sum = 0;
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_add_once(c(store), index, k.slice(), offset, n, &sum, &found, &options,
                                 error);
    });
    return found ? nb::cast(sum) : nb::none();
}

size_t erase_range(Number store, nb::handle object, nb::handle low, nb::handle high, bool lazy) {
    lockstep_index* const index = index_of(object);
    const Bound from(low), to(high);
    const lockstep_txn_options options = how(lazy);
    size_t records = 0;
    call([&](lockstep_error* error) {
        return lockstep_erase_range_once(c(store), index, from.slice(), to.slice(), &records,
                                         &options, error);
    });
    return records;
}

nb::tuple approximate_size(Number store, nb::handle object, nb::handle low, nb::handle high) {
    lockstep_index* const index = index_of(object);
    const Bound from(low), to(high);
    uint64_t bytes = 0, records = 0;
    call([&](lockstep_error* error) {
        return lockstep_approximate_size(c(store), index, from.slice(), to.slice(), &bytes,
                                         &records, error);
    });
    return nb::make_tuple(bytes, records);
}

size_t count(Number store, nb::handle object, nb::handle low, nb::handle high) {
    lockstep_index* const index = index_of(object);
    const Bound from(low), to(high);
    size_t records = 0;
    call([&](lockstep_error* error) {
        return lockstep_count_once(c(store), index, from.slice(), to.slice(), &records, error);
    });
    return records;
}

}  // namespace

void add_once_calls(nb::module_& module) {
    module.def("get_once", get, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("insert_once", insert, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg());
    module.def("put_once", put, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg());
    module.def("erase_once", erase, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg());
    module.def("add_once", add, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg());
    module.def("erase_range_once", erase_range, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg());
    module.def("approximate_size", approximate_size, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("count_once", count, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
}

}  // namespace lockstep::python
