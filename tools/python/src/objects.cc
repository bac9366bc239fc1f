// objects.cc - of the Python binding: indexes and heaps within a transaction.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <tuple>

#include "tools/python/src/callbacks.h"

namespace lockstep::python {

namespace {

lockstep_txn* c(Number txn) { return handle<lockstep_txn>(txn); }

// How a name is looked up.
enum : int { kCreate, kOpenOrCreate, kFind };

void progressed(void* arg, uint64_t pages_read, uint64_t entries_loaded) {
    const HeldGil gil;
    auto* const tell = static_cast<PyObject*>(arg);
    guarded(tell, [&] { invoke(tell, pages_read, entries_loaded); });
}

using MakeIndex = int (*)(lockstep_txn*, const char*, const lockstep_secondary_options*,
                          lockstep_index**, lockstep_error*);

Number index(Number txn, nb::handle given, int how) {
    const std::string name = text(given, "name");
    lockstep_index* made = nullptr;
    call([&](lockstep_error* error) {
        if (how == kFind) return lockstep_find_index_in(c(txn), name.c_str(), &made, error);
        const MakeIndex make =
            how == kCreate ? lockstep_create_index : lockstep_open_or_create_index;
        return make(c(txn), name.c_str(), nullptr, &made, error);
    });
    return number(made);
}

// `store` keeps the key function.
Number secondary(Number store, Number txn, nb::handle given, bool open_too, nb::handle of,
                 nb::handle key, nb::handle unique, nb::handle build_bytes, nb::handle progress) {
    const std::string name = text(given, "name");
    lockstep_secondary_options options;
    lockstep_secondary_options_init(&options, sizeof options);
    options.of = index_of(of, "of");
    options.key = secondary_keys;
    options.unique = flag(unique, "unique");
    if (!build_bytes.is_none()) options.build_bytes = whole<uint64_t>(build_bytes, "build_bytes");
    if (!progress.is_none()) {
        options.progress = progressed;
        options.progress_arg = function(progress, "progress").ptr();
    }
    Function* const kept = keep(store, referenced(function(key, "key"), name));
    options.key_arg = kept;
    const bool kept_before = kept->uses > 1;  // then other calls may wait for its exceptions
    lockstep_index* made = nullptr;
    const MakeIndex make = open_too ? lockstep_open_or_create_index : lockstep_create_index;
    try {
        call([&](lockstep_error* error) {
            return make(c(txn), name.c_str(), &options, &made, error);
        });
    } catch (...) {  // a build runs the function on several threads
        if (!kept_before) discard_raised(kept);
        throw;
    }
    return number(made);
}

Number heap(Number txn, nb::handle given, int how) {
    const std::string name = text(given, "name");
    lockstep_heap* made = nullptr;
    call([&](lockstep_error* error) {
        const auto make = how == kFind     ? lockstep_find_heap_in
                          : how == kCreate ? lockstep_create_heap
                                           : lockstep_open_or_create_heap;
        return make(c(txn), name.c_str(), &made, error);
    });
    return number(made);
}

void drop(Number txn, nb::handle given) {
    const std::string name = text(given, "name");
    call([&](lockstep_error* error) { return lockstep_drop(c(txn), name.c_str(), error); });
}

}  // namespace

void add_objects(nb::module_& module) {
    module.def("index", index, nb::arg(), nb::arg().none(), nb::arg());
    module.def("secondary", secondary, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
               nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("heap", heap, nb::arg(), nb::arg().none(), nb::arg());
    module.def("index_id", [](nb::handle index) { return lockstep_index_id(index_of(index)); });
    module.def("heap_id", [](nb::handle heap) { return lockstep_heap_id(heap_of(heap)); });
    module.def("drop", drop, nb::arg(), nb::arg().none());
}

}  // namespace lockstep::python
