// cursor.cc - of the Python binding: scans in both directions.
#include <string>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

lockstep_cursor* c(Number cursor) { return handle<lockstep_cursor>(cursor); }

Number scan(Number txn, nb::handle object, nb::handle low, nb::handle high, nb::handle given) {
    lockstep_index* const index = index_of(object);
    const Bound from(low), to(high);
    const int access = access_of(given);
    lockstep_cursor* cursor = nullptr;
    call([&](lockstep_error* error) {
        return lockstep_scan(handle<lockstep_txn>(txn), index, from.slice(), to.slice(), access,
                             &cursor, error);
    });
    return number(cursor);
}

Number scan_by(Number txn, nb::handle object, nb::handle low, nb::handle high, bool only,
               nb::handle given) {
    lockstep_index* const secondary = index_of(object, "secondary");
    const Bound from(low), to(high);
    const int access = access_of(given);
    lockstep_cursor* cursor = nullptr;
    call([&](lockstep_error* error) {
        return lockstep_scan_by(handle<lockstep_txn>(txn), secondary, from.slice(), to.slice(),
                                only, access, &cursor, error);
    });
    return number(cursor);
}

void seek(Number cursor, nb::handle low, nb::handle high) {
    const Bound from(low), to(high);
    call([&](lockstep_error* error) {
        return lockstep_cursor_seek(c(cursor), from.slice(), to.slice(), error);
    });
}

// A block of records that a call of lockstep_cursor_read() fills.
struct Block {
    size_t count = 0;
    size_t needed = 0;
    void read(Number cursor, bool forward, std::vector<lockstep_record>& rows, char* memory,
              size_t bytes) {
        call([&](lockstep_error* error) {
            return lockstep_cursor_read(c(cursor), forward, rows.data(), rows.size(), memory, bytes,
                                        &count, &needed, error);
        });
    }
    bool at_end(size_t rows_max) const { return count < rows_max && needed == 0; }
};

// (key, value), or None at the end. The record is copied to memory of this call, so that another
// thread cannot take it away.
nb::object step(Number cursor, bool forward) {
    static thread_local std::vector<char> memory(size_t{16} << 10);
    std::vector<lockstep_record> row(1);
    Block block;
    for (;; memory.resize(block.needed)) {
        block.read(cursor, forward, row, memory.data(), memory.size());
        if (block.count == 1) return nb::make_tuple(bytes_of(row[0].key), bytes_of(row[0].value));
        if (block.needed == 0) return nb::none();
    }
}

// A step of a cursor of a secondary index. The bytes are the cursor's, which another thread may
// end. So the user thread of the transaction copies them.
struct Step {
    lockstep_cursor* cursor;
    bool forward;
    lockstep_error* error = nullptr;
    int code = LOCKSTEP_OK;
    bool found = false;
    std::string key{}, value{}, secondary{};

    static int run(lockstep_txn*, void* arg) {
        auto& step = *static_cast<Step*>(arg);
        const auto move = step.forward ? lockstep_cursor_next : lockstep_cursor_prev;
        lockstep_slice key{}, value{}, secondary{};
        step.code = move(step.cursor, &key, &value, &secondary, &step.found, step.error);
        if (step.code != LOCKSTEP_OK || !step.found) return LOCKSTEP_OK;
        step.key = string_of(key);
        step.value = string_of(value);
        step.secondary = string_of(secondary);
        return LOCKSTEP_OK;
    }
};

// (key, value, secondary key), or None at the end.
nb::object step_by(Number txn, Number cursor, bool forward) {
    Step step{c(cursor), forward};
    call([&](lockstep_error* error) {
        step.error = error;
        const int code = lockstep_run_in(handle<lockstep_txn>(txn), Step::run, &step, error);
        return code != LOCKSTEP_OK ? code : step.code;
    });
    if (!step.found) return nb::none();
    return nb::make_tuple(bytes_of(step.key), bytes_of(step.value), bytes_of(step.secondary));
}

// ([(key, value)...], whether that is the end). One record at least, unless it is the end.
nb::tuple read(Number cursor, bool forward, size_t rows_max, size_t bytes) {
    std::vector<lockstep_record> rows(rows_max);
    std::vector<char> memory(bytes);
    Block block;
    block.read(cursor, forward, rows, memory.data(), memory.size());
    if (block.count == 0 && block.needed != 0) {
        memory.resize(block.needed);
        block.read(cursor, forward, rows, memory.data(), memory.size());
    }
    nb::list result;
    for (size_t n = 0; n < block.count; ++n)
        result.append(nb::make_tuple(bytes_of(rows[n].key), bytes_of(rows[n].value)));
    return nb::make_tuple(result, block.at_end(rows_max));
}

nb::object part_of(nb::handle view, const char* memory, const lockstep_slice& slice) {
    const auto at = static_cast<const char*>(slice.data) - memory;
    return view[nb::slice(at, at + static_cast<Py_ssize_t>(slice.size))];
}

// The same without copies: the records are memoryviews of one block, which lives as long as any.
nb::tuple read_views(Number cursor, bool forward, size_t rows_max, size_t bytes) {
    std::vector<lockstep_record> rows(rows_max);
    nb::object memory = bytes_of(nullptr, bytes);
    Block block;
    block.read(cursor, forward, rows, PyBytes_AsString(memory.ptr()), bytes);
    if (block.count == 0 && block.needed != 0) {
        memory = bytes_of(nullptr, block.needed);
        block.read(cursor, forward, rows, PyBytes_AsString(memory.ptr()), block.needed);
    }
    const nb::object view = nb::steal(PyMemoryView_FromObject(memory.ptr()));
    const char* const start = PyBytes_AsString(memory.ptr());
    nb::list result;
    for (size_t n = 0; n < block.count; ++n)
        result.append(
            nb::make_tuple(part_of(view, start, rows[n].key), part_of(view, start, rows[n].value)));
    return nb::make_tuple(result, block.at_end(rows_max));
}

bool patch(Number cursor, nb::handle from, nb::handle part) {
    const Value value(part);
    const auto offset = whole<size_t>(from, "offset");
    bool found = false;
    call([&](lockstep_error* error) {
        return lockstep_cursor_patch(c(cursor), offset, value.slice(), &found, error);
    });
    return found;
}

}  // namespace

void add_cursor(nb::module_& module) {
    module.def("scan", scan, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg().none());
    module.def("scan_by", scan_by, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
               nb::arg(), nb::arg().none());
    module.def("cursor_seek", seek, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("cursor_step", step);
    module.def("cursor_step_by", step_by);
    module.def("cursor_read", read);
    module.def("cursor_read_views", read_views);
    module.def("cursor_patch", patch, nb::arg(), nb::arg().none(), nb::arg().none());
    module.def("cursor_close", [](Number cursor) {
        call([&](lockstep_error* error) { return lockstep_cursor_close(c(cursor), error); });
    });
}

}  // namespace lockstep::python
