// core.cc - of the Python binding: the module, errors, bytes of Python objects.
#include "tools/python/src/core.h"

#include <cstdio>
#include <cstring>

#include "tools/python/src/callbacks.h"

namespace lockstep::python {

Types& types() {
    static Types known;
    return known;
}

void raise(const lockstep_error& error) {
    raise_again(error);
    const nb::object exception = invoke(types().make_error, error.code, error.os, error.a, error.b,
                                        error.c, nb::str(error.text));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw nb::python_error();
}

void refuse(int code, const std::string& text) {
    lockstep_error error{};
    error.code = code;
    std::snprintf(error.text, sizeof error.text, "%s", text.c_str());
    raise(error);
}

void fill_in(int code, lockstep_error& error) {
    if (error.code == LOCKSTEP_OK) error.code = code;
    if (error.text[0] != '\0') return;
    std::snprintf(error.text, sizeof error.text, "%s: %s", lockstep_error_name(error.code),
                  lockstep_strerror(error.code));
}

void raise(PyObject* type, const std::string& text) {
    PyErr_SetString(type, text.c_str());
    throw nb::python_error();
}

namespace {

// What a message shows of a value: its repr() in ASCII, cut if it is long.
std::string shown(nb::handle value) {
    constexpr size_t kMost = 100;
    const nb::object text = nb::steal(PyObject_ASCII(value.ptr()));
    if (!text.is_valid()) throw nb::python_error();
    const std::string whole = PyUnicode_AsUTF8AndSize(text.ptr(), nullptr);
    return whole.size() <= kMost ? whole : whole.substr(0, kMost) + "...";
}

bool is_a(nb::handle value, PyObject* type) {
    return PyObject_TypeCheck(value.ptr(), reinterpret_cast<PyTypeObject*>(type));
}

// The handle of an Index or Heap, which are classes of Python.
Number handle_in(nb::handle object) {
    static PyObject* const name = PyUnicode_InternFromString("_number");
    const nb::object number = nb::steal(PyObject_GetAttr(object.ptr(), name));
    if (!number.is_valid()) throw nb::python_error();
    return nb::cast<Number>(number);
}

// One byte is one element, in whatever order of bytes.
bool is_format_of_bytes(const char* format) {
    if (format == nullptr) return true;
    if (std::strchr("@=<>!", *format) != nullptr && *format != '\0') ++format;
    return format[0] != '\0' && std::strchr("Bbc", format[0]) != nullptr && format[1] == '\0';
}

// False for a scalar of numpy whose memory looks like bytes and is a date: its dtype tells.
bool has_dtype_of_bytes(nb::handle object) {
    if (PyByteArray_Check(object.ptr()) || PyMemoryView_Check(object.ptr())) return true;
    const nb::object dtype = nb::getattr(object, "dtype", nb::none());
    const nb::object kind = nb::getattr(dtype, "kind", nb::none());
    return !nb::isinstance<nb::str>(kind) ||
           std::strchr("iu", nb::cast<nb::str>(kind).c_str()[0]) != nullptr;
}

// The name of the object's type, with the module if it is one of an extension: "numpy.int64".
std::string kind_of(nb::handle object) {
    PyTypeObject* const type = Py_TYPE(object.ptr());
    const nb::object name = nb::steal(PyType_GetName(type));
    if (!name.is_valid()) throw nb::python_error();
    const std::string alone = nb::cast<nb::str>(name).c_str();
    if ((PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) != 0) return alone;
    const std::string module = nb::cast<nb::str>(nb::getattr(object.type(), "__module__")).c_str();
    return module == "builtins" ? alone : module + "." + alone;
}

}  // namespace

void refuse_type(const std::string& name, const char* wanted, nb::handle value) {
    raise(PyExc_TypeError,
          name + " is " + wanted + ", not " + shown(value) + " of type " + kind_of(value));
}

void refuse_range(const std::string& name, const std::string& least, const std::string& most,
                  nb::handle value) {
    raise(PyExc_OverflowError,
          name + " is from " + least + " to " + most + ", not " + shown(value));
}

std::string text(nb::handle value, const std::string& name) {
    Py_ssize_t size = 0;
    if (!PyUnicode_Check(value.ptr())) refuse_type(name, "a text", value);
    const char* const utf8 = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (utf8 == nullptr) throw nb::python_error();
    std::string text(utf8, static_cast<size_t>(size));
    // The C interface would take what is before it, which is another name.
    if (text.find('\0') != std::string::npos)
        raise(PyExc_ValueError, name + " has no zero byte, not " + shown(value));
    return text;
}

bool flag(nb::handle value, const std::string& name) {
    if (!PyBool_Check(value.ptr())) refuse_type(name, "True or False", value);
    return value.is(Py_True);
}

nb::handle function(nb::handle value, const std::string& name) {
    if (PyCallable_Check(value.ptr()) == 0) refuse_type(name, "a function", value);
    return value;
}

lockstep_index* index_of(nb::handle value, const char* name) {
    if (!is_a(value, types().index)) [[unlikely]]
        refuse_type(name, "an Index, from Store.index()", value);
    return handle<lockstep_index>(handle_in(value));
}

lockstep_heap* heap_of(nb::handle value) {
    if (!is_a(value, types().heap)) [[unlikely]]
        refuse_type("heap", "a Heap, from Store.heap()", value);
    return handle<lockstep_heap>(handle_in(value));
}

lockstep_record_id record_id_of(nb::handle id) {
    const bool fits = PyTuple_Check(id.ptr()) || PyList_Check(id.ptr());
    if (!fits || PySequence_Size(id.ptr()) != 2) refuse_type("id", "a RecordId", id);
    const nb::object page(id[0]), slot(id[1]);
    return {whole<uint32_t>(page, "page of the id"), whole<uint32_t>(slot, "slot of the id")};
}

bool ByteBuffer::open(nb::handle object) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_ND | PyBUF_FORMAT) != 0) {
        if (PyErr_ExceptionMatches(PyExc_BufferError) != 0) throw nb::python_error();
        PyErr_Clear();  // numpy's dates and strided arrays
        return false;
    }
    return buffer_.ndim > 0 && buffer_.itemsize == 1 && is_format_of_bytes(buffer_.format) &&
           has_dtype_of_bytes(object);
}

std::string described(nb::handle object) {
    std::string text = kind_of(object);
    Py_buffer buffer;
    if (PyObject_CheckBuffer(object.ptr()) == 0) return text;
    if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_FULL_RO) != 0) {
        PyErr_Clear();
        return text + ", whose memory cannot be seen as bytes";
    }
    if (buffer.format != nullptr) text += std::string(" of format ") + buffer.format;
    if (buffer.ndim == 0) text += " without dimensions";
    if (PyBuffer_IsContiguous(&buffer, 'C') == 0) text += " that is not contiguous";
    if (buffer.readonly != 0) text += " that is read-only";
    PyBuffer_Release(&buffer);
    return text;
}

Bytes::Bytes(nb::handle object, Use use) : owner_(nb::borrow(object)) {
    if (PyBytes_Check(object.ptr())) {
        slice_ = {PyBytes_AsString(object.ptr()), static_cast<size_t>(PyBytes_Size(object.ptr()))};
    } else if (use != Use::buffer && PyUnicode_Check(object.ptr())) {
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
        if (text == nullptr) throw nb::python_error();
        slice_ = {text, static_cast<size_t>(size)};
    } else if (use == Use::key && PyTuple_Check(object.ptr())) {
        encoded_ = encode(object);
        slice_ = {encoded_.data(), encoded_.size()};
    } else if (buffer_.open(object)) {
        slice_ = {buffer_.data(), buffer_.size()};
    } else {
        const char* const what =
            use == Use::key     ? "a key is bytes, str, a tuple or an object with a buffer of bytes"
            : use == Use::value ? "a value is bytes, str or an object with a buffer of bytes"
                                : "a bytes-like object is required";
        raise(PyExc_TypeError, std::string(what) + ", not " + described(object));
    }
}

std::pair<nb::object, nb::object> pair_of(nb::handle record) {
    const bool fits = PyTuple_Check(record.ptr()) || PyList_Check(record.ptr());
    if (!fits || PySequence_Size(record.ptr()) != 2)
        raise(PyExc_TypeError, "a record is a tuple (key, value)");
    return {nb::object(record[0]), nb::object(record[1])};
}

Room::Room(nb::handle object) {
    constexpr int kWanted = PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT;
    if (PyObject_GetBuffer(object.ptr(), &buffer_, kWanted) != 0) throw nb::python_error();
    // Bytes in the place of pointers would end the process.
    if (buffer_.format == nullptr || std::strchr(buffer_.format, 'O') == nullptr) return;
    PyBuffer_Release(&buffer_);
    raise(PyExc_TypeError, "buffer is an object with room for bytes, not " + described(object));
}

}  // namespace lockstep::python

// NOLINTNEXTLINE(misc-use-internal-linkage): the macro's function
NB_MODULE(_core, module) {
    namespace python = lockstep::python;
    module.def("require_main_interpreter", [] {
        if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
            python::raise(
                PyExc_ImportError,
                "lockstep works in the main interpreter only: threads of a store call its "
                "functions, and find no other one. Import it there");
    });
    module.def("require_may_wait", [] { python::Wait::require_allowed(); });
    python::add_keys(module);
    python::add_store(module);
    python::add_options(module);
    python::add_backup(module);
    python::add_stats(module);
    python::add_transaction(module);
    python::add_prepared(module);
    python::add_procedures(module);
    python::add_objects(module);
    python::add_index(module);
    python::add_once_calls(module);
    python::add_cursor(module);
    python::add_heap(module);
    python::add_batch(module);
    python::add_reports(module);
    python::add_changes(module);
    python::add_callbacks(module);
}
