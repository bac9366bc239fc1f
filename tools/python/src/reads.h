// reads.h - of the Python binding: a read of one record, whose length is not known before.
#pragma once

#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

// read(buffer, room, &bytes, &found, error) -> code, once with a buffer of the thread, and again
// into the bytes object if the value is longer. The lock of the first read keeps the value. None if
// there is no record.
template <class Read>
nb::object read_whole(Read read) {
    static thread_local std::vector<char> buffer(size_t{16} << 10);
    size_t bytes = 0;
    bool found = false;
    call([&](lockstep_error* error) {
        return read(buffer.data(), buffer.size(), &bytes, &found, error);
    });
    if (!found) return nb::none();
    if (bytes <= buffer.size()) return bytes_of(buffer.data(), bytes);
    while (true) {
        nb::object whole = bytes_of(nullptr, bytes);
        const size_t room = bytes;
        char* const memory = PyBytes_AsString(whole.ptr());
        call([&](lockstep_error* error) { return read(memory, room, &bytes, &found, error); });
        if (!found) return nb::none();
        if (bytes == room) return whole;
        if (bytes < room) return bytes_of(memory, bytes);
    }
}

}  // namespace lockstep::python
