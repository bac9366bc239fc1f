// index.cc - of the Python binding: records of indexes, one and many; bulk load.
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "tools/python/src/core.h"
#include "tools/python/src/reads.h"

namespace lockstep::python {

namespace {

lockstep_txn* c(Number txn) { return handle<lockstep_txn>(txn); }

nb::object get(Number txn, nb::handle object, nb::handle key, nb::handle given) {
    lockstep_index* const index = index_of(object);
    const Key bytes(key);
    const int access = access_of(given);
    return read_whole([&](char* buffer, size_t room, size_t* size, bool* found,
                          lockstep_error* error) {
        return lockstep_get(c(txn), index, bytes.slice(), access, buffer, room, size, found, error);
    });
}

nb::object get_into(Number txn, nb::handle object, nb::handle key, nb::handle buffer,
                    nb::handle given) {
    lockstep_index* const index = index_of(object);
    const Key bytes(key);
    const int access = access_of(given);
    const Room room(buffer);
    size_t size = 0;
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_get(c(txn), index, bytes.slice(), access, room.data(), room.size(), &size,
                            &found, error);
    });
    return found ? nb::cast(size) : nb::none();
}

// Most values fit into the first room; those that do not are asked for again.
constexpr size_t kRoomFirst = 256;

std::vector<char> look_up(Number txn, lockstep_index* index, std::vector<lockstep_lookup>& rows,
                          const std::vector<size_t>& rooms, int access) {
    size_t total = 0;
    for (const size_t room : rooms) total += room;
    std::vector<char> memory(total);
    size_t used = 0;
    for (size_t n = 0; n < rows.size(); ++n) {
        rows[n].buffer = memory.data() + used;
        rows[n].room = rooms[n];
        used += rooms[n];
    }
    call([&](lockstep_error* error) {
        return lockstep_get_many(c(txn), index, rows.data(), rows.size(), access, nullptr, error);
    });
    return memory;
}

nb::list get_many(Number txn, nb::handle object, nb::handle given, nb::handle lock) {
    lockstep_index* const index = index_of(object);
    const int access = access_of(lock);
    if (PyUnicode_Check(given.ptr())) raise(PyExc_TypeError, "keys is a list of keys, not a text");
    std::deque<Key> keys;
    for (const nb::handle key : given) keys.emplace_back(key);
    std::vector<lockstep_lookup> rows(keys.size());
    for (size_t n = 0; n < rows.size(); ++n) rows[n].key = keys[n].slice();
    std::vector<size_t> rooms(rows.size(), kRoomFirst);
    std::vector<char> memory;
    // At read_committed a value may become longer between two calls.
    for (bool cut = true; cut;) {
        memory = look_up(txn, index, rows, rooms, access);
        cut = false;
        for (size_t n = 0; n < rows.size(); ++n) {
            if (!rows[n].found || rows[n].bytes <= rooms[n]) continue;
            rooms[n] = rows[n].bytes;
            cut = true;
        }
    }
    nb::list result;
    for (const lockstep_lookup& row : rows)
        result.append(row.found ? bytes_of(row.buffer, row.bytes) : nb::none());
    return result;
}

void insert_many(Number txn, nb::handle object, nb::handle given) {
    lockstep_index* const index = index_of(object);
    std::deque<Key> keys;
    std::deque<Value> values;
    std::vector<lockstep_record> records;
    for (const nb::handle one : given) {
        const auto [key, value] = pair_of(one);
        keys.emplace_back(key);
        values.emplace_back(value);
        records.push_back({keys.back().slice(), values.back().slice()});
    }
    call([&](lockstep_error* error) {
        return lockstep_insert_many(c(txn), index, records.data(), records.size(), error);
    });
}

void insert(Number txn, nb::handle object, nb::handle key, nb::handle value) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(value);
    call([&](lockstep_error* error) {
        return lockstep_insert(c(txn), index, k.slice(), v.slice(), error);
    });
}

void put(Number txn, nb::handle object, nb::handle key, nb::handle value) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(value);
    call([&](lockstep_error* error) {
        return lockstep_put(c(txn), index, k.slice(), v.slice(), error);
    });
}

bool update(Number txn, nb::handle object, nb::handle key, nb::handle value) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(value);
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_update(c(txn), index, k.slice(), v.slice(), &found, error);
    });
    return found;
}

bool patch(Number txn, nb::handle object, nb::handle key, nb::handle from, nb::handle part) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    const Value v(part);
    const auto offset = whole<size_t>(from, "offset");
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_patch(c(txn), index, k.slice(), offset, v.slice(), nullptr, &found, error);
    });
    return found;
}

bool erase(Number txn, nb::handle object, nb::handle key) {
    lockstep_index* const index = index_of(object);
    const Key k(key);
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_erase(c(txn), index, k.slice(), &found, error);
    });
    return found;
}

size_t erase_range(Number txn, nb::handle object, nb::handle low, nb::handle high) {
    lockstep_index* const index = index_of(object);
    const Bound from(low), to(high);
    size_t count = 0;
    call([&](lockstep_error* error) {
        return lockstep_erase_range(c(txn), index, from.slice(), to.slice(), &count, error);
    });
    return count;
}

// The records of a bulk load, from an iterator of tuples (key, value).
class Records {
public:
    explicit Records(nb::handle iterable) : iterator_(nb::steal(PyObject_GetIter(iterable.ptr()))) {
        if (!iterator_.is_valid()) throw nb::python_error();
    }
    // lockstep_bulk_load()'s `next`, on the thread that made the call.
    static bool next(void* arg, lockstep_record* record) {
        auto& self = *static_cast<Records*>(arg);
        const HeldGil gil;
        try {
            return self.step(*record);
        } catch (...) {
            self.raised_ = std::current_exception();
            return false;
        }
    }
    // What the iterator raised. With the GIL.
    void raise_again() {
        key_.reset();
        value_.reset();
        if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
    }

private:
    bool step(lockstep_record& record) {
        key_.reset();
        value_.reset();
        const nb::object one =
            nb::steal(unless_ended([&] { return PyIter_Next(iterator_.ptr()); }));
        if (!one.is_valid()) {
            if (PyErr_Occurred() != nullptr) throw nb::python_error();
            return false;
        }
        const auto [key, value] = pair_of(one);
        key_.emplace(key);
        value_.emplace(value);
        record = {key_->slice(), value_->slice()};
        return true;
    }

    nb::object iterator_;
    std::optional<Key> key_;
    std::optional<Value> value_;
    std::exception_ptr raised_;
};

void bulk_load(Number txn, nb::handle object, nb::handle given, nb::handle fill) {
    lockstep_index* const index = index_of(object);
    const auto fill_percent = whole<uint32_t>(fill, "fill_percent");
    Records records(given);
    EmptyError error;
    const int code = run(
        [&](lockstep_error* out) {
            return lockstep_bulk_load(c(txn), index, Records::next, &records, fill_percent, out);
        },
        error);
    raise_interrupt();
    records.raise_again();
    check(code, error);
}

}  // namespace

void add_index(nb::module_& module) {
    module.def("get", get, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("get_into", get_into, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none(), nb::arg().none());
    module.def("get_many", get_many, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("insert", insert, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("insert_many", insert_many, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("put", put, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("update", update, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    module.def("patch", patch, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("erase", erase, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("erase_range", erase_range, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("bulk_load", bulk_load, nb::arg(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
}

}  // namespace lockstep::python
