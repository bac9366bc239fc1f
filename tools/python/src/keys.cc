// keys.cc - of the Python binding: tuples as keys, with the bytes of lockstep::Key.
#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

[[noreturn]] void out_of_range(Py_ssize_t place, const char* type) {
    raise(PyExc_OverflowError,
          "part " + std::to_string(place) + " of the key does not fit into " + type);
}

int64_t signed_part(PyObject* part, Py_ssize_t place, int64_t low, int64_t high, const char* type) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(part, &overflow);
    if (overflow != 0 || value < low || value > high) out_of_range(place, type);
    return value;
}

uint64_t unsigned_part(PyObject* part, Py_ssize_t place, uint64_t high, const char* type) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(part);
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        out_of_range(place, type);
    }
    if (value > high) out_of_range(place, type);
    return value;
}

bool is_a(PyObject* part, PyObject* type) {
    return PyObject_TypeCheck(part, reinterpret_cast<PyTypeObject*>(type)) != 0;
}

// A number of Python. One of a class derived from U8 is a U8.
void append_number(lockstep_key& key, PyObject* part, Py_ssize_t place) {
    const Types& known = types();
    if (PyLong_CheckExact(part))
        lockstep_key_i64(&key, signed_part(part, place, INT64_MIN, INT64_MAX, "64 bits"));
    else if (is_a(part, known.u8))
        lockstep_key_u8(&key, static_cast<uint8_t>(unsigned_part(part, place, UINT8_MAX, "U8")));
    else if (is_a(part, known.u16))
        lockstep_key_u16(&key,
                         static_cast<uint16_t>(unsigned_part(part, place, UINT16_MAX, "U16")));
    else if (is_a(part, known.u32))
        lockstep_key_u32(&key,
                         static_cast<uint32_t>(unsigned_part(part, place, UINT32_MAX, "U32")));
    else if (is_a(part, known.u64))
        lockstep_key_u64(&key, unsigned_part(part, place, UINT64_MAX, "U64"));
    else if (is_a(part, known.i32))
        lockstep_key_i32(
            &key, static_cast<int32_t>(signed_part(part, place, INT32_MIN, INT32_MAX, "I32")));
    else lockstep_key_i64(&key, signed_part(part, place, INT64_MIN, INT64_MAX, "64 bits"));
}

// An integer of another library, as numpy's; null: the object is none.
nb::object integer_of(PyObject* part) {
    if (PyIndex_Check(part) == 0 || PyBool_Check(part)) return {};
    PyObject* const found = PyNumber_Index(part);
    if (found != nullptr) return nb::steal(found);
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return {};
}

// An array of bytes is bytes also if it has an __index__, as those of numpy.
void append(lockstep_key& key, PyObject* part, Py_ssize_t place) {
    if (PyLong_Check(part) && !PyBool_Check(part)) return append_number(key, part, place);
    ByteBuffer buffer;
    if (PyUnicode_Check(part) || PyBytes_Check(part)) {
        const Bytes text(part, Bytes::Use::value);
        lockstep_key_text(&key, text.slice());
    } else if (buffer.open(part)) {
        lockstep_key_text(&key, {buffer.data(), buffer.size()});
    } else if (const nb::object number = integer_of(part)) {
        append_number(key, number.ptr(), place);
    } else {
        raise(PyExc_TypeError,
              "part " + std::to_string(place) +
                  " of the key is an integer, str, bytes, U8, U16, U32, U64 or I32, not " +
                  described(part));
    }
}

}  // namespace

std::string encode(nb::handle tuple) {
    lockstep_key key;
    lockstep_key_init(&key);
    for (Py_ssize_t place = 0; place < PyTuple_Size(tuple.ptr()); ++place)
        append(key, PyTuple_GetItem(tuple.ptr(), place), place);
    const lockstep_slice bytes = lockstep_key_slice(&key);
    return string_of(bytes);
}

void add_keys(nb::module_& module) {
    module.def(
        "key_bytes", [](nb::handle key) { return bytes_of(Key(key).slice()); }, nb::arg().none());
    module.def(
        "buffer_bytes",
        [](nb::handle buffer) { return bytes_of(Bytes(buffer, Bytes::Use::buffer).slice()); },
        nb::arg().none());
    module.def("encode", [](const nb::tuple& parts) { return bytes_of(encode(parts)); });
    module.def("set_types", [](nb::handle make_error, nb::handle record_id, nb::handle index,
                               nb::handle heap, nb::handle u8, nb::handle u16, nb::handle u32,
                               nb::handle u64, nb::handle i32) {
        // They live as long as the process.
        types() = {make_error.inc_ref().ptr(), record_id.inc_ref().ptr(), index.inc_ref().ptr(),
                   heap.inc_ref().ptr(),       u8.inc_ref().ptr(),        u16.inc_ref().ptr(),
                   u32.inc_ref().ptr(),        u64.inc_ref().ptr(),       i32.inc_ref().ptr()};
    });
    module.def("error_name", [](int code) { return nb::str(lockstep_error_name(code)); });
    module.def("strerror", [](int code) { return nb::str(lockstep_strerror(code)); });
    module.attr("NEVER") = LOCKSTEP_NEVER;
    module.attr("DERIVED") = LOCKSTEP_DERIVED;
    module.attr("NO_ESCALATION") = LOCKSTEP_NO_ESCALATION;
    module.attr("KEY_BYTES_MAX") = LOCKSTEP_KEY_BYTES_MAX;
    module.attr("VALUE_BYTES_MAX") = LOCKSTEP_VALUE_BYTES_MAX;
}

}  // namespace lockstep::python
