// heap.cc - of the Python binding: records of heaps.
#include <string>
#include <utility>
#include <vector>

#include "tools/python/src/core.h"
#include "tools/python/src/reads.h"

namespace lockstep::python {

namespace {

lockstep_txn* c(Number txn) { return handle<lockstep_txn>(txn); }

nb::object insert(Number txn, nb::handle object, nb::handle record) {
    lockstep_heap* const heap = heap_of(object);
    const Value value(record);
    lockstep_record_id id{};
    call([&](lockstep_error* error) {
        return lockstep_heap_insert(c(txn), heap, value.slice(), &id, error);
    });
    return record_id(id);
}

nb::object get(Number txn, nb::handle object, nb::handle given, nb::handle lock) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_record_id id = record_id_of(given);
    const int access = access_of(lock);
    return read_whole(
        [&](char* buffer, size_t room, size_t* bytes, bool* found, lockstep_error* error) {
            return lockstep_heap_get(c(txn), heap, id, access, buffer, room, bytes, found, error);
        });
}

bool update(Number txn, nb::handle object, nb::handle given, nb::handle record) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_record_id id = record_id_of(given);
    const Value value(record);
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_heap_update(c(txn), heap, id, value.slice(), &found, error);
    });
    return found;
}

bool erase(Number txn, nb::handle object, nb::handle given) {
    lockstep_heap* const heap = heap_of(object);
    const lockstep_record_id id = record_id_of(given);
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_heap_erase(c(txn), heap, id, &found, error);
    });
    return found;
}

// A Python function that sees each record, and the exception that it raised.
struct Visitor {
    nb::handle function;
    std::exception_ptr raised;

    static bool visit(void* arg, lockstep_record_id id, lockstep_slice record) {
        auto& self = *static_cast<Visitor*>(arg);
        const HeldGil gil;
        try {
            return !invoke(self.function.ptr(), record_id(id), bytes_of(record)).is(Py_False);
        } catch (...) {
            self.raised = std::current_exception();
            return false;
        }
    }
};

void each(Number txn, nb::handle object, nb::handle function) {
    lockstep_heap* const heap = heap_of(object);
    Visitor visitor{python::function(function, "each"), nullptr};
    call([&](lockstep_error* error) {
        return lockstep_heap_scan(c(txn), heap, Visitor::visit, &visitor, error);
    });
    if (visitor.raised) std::rethrow_exception(std::exchange(visitor.raised, nullptr));
}

// All records, without the GIL while they are read.
nb::list scan(Number txn, nb::handle object) {
    lockstep_heap* const heap = heap_of(object);
    std::vector<std::pair<lockstep_record_id, std::string>> records;
    const auto take = [](void* arg, lockstep_record_id id, lockstep_slice record) {
        static_cast<decltype(records)*>(arg)->emplace_back(id, string_of(record));
        return true;
    };
    call([&](lockstep_error* error) {
        return lockstep_heap_scan(c(txn), heap, take, &records, error);
    });
    nb::list result;
    for (const auto& [id, record] : records)
        result.append(nb::make_tuple(record_id(id), bytes_of(record)));
    return result;
}

}  // namespace

void add_heap(nb::module_& module) {
    module.def("heap_insert", insert, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("heap_get", get, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("heap_update", update, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("heap_erase", erase, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("heap_each", each, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("heap_scan", scan, nb::arg(), nb::arg().none());
}

}  // namespace lockstep::python
