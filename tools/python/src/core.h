// core.h - what the parts of the Python binding share: errors, handles, bytes of Python objects.
//
// Concepts   The extension `lockstep._core` is a thin layer over the C interface. A handle of the C
//            interface is a number there, and so is it in Python: one that has ended is an error.
//            The classes that an application sees are Python (../lockstep/).
// Blocking   call() releases the GIL around each call of the C interface that may wait.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include "tools/python/src/gil.h"
#include "tools/python/src/waits.h"

namespace lockstep::python {

namespace nb = nanobind;

// A handle of the C interface as Python sees it.
using Number = uintptr_t;

template <class T>
T* handle(Number number) {
    return reinterpret_cast<T*>(number);
}
template <class T>
Number number(T* handle) {
    return reinterpret_cast<Number>(handle);
}

// A lockstep_retry as Python sees it.
using Retry = std::tuple<uint64_t, uint32_t, uint32_t, uint64_t>;
inline lockstep_retry retry_from(const Retry& given) {
    const auto [first, deadlocks, object, lock] = given;
    return {first, deadlocks, object, lock};
}

// What the Python part of the package tells the extension about itself, once.
struct Types {
    PyObject* make_error = nullptr;  // (code, os, a, b, c, text) -> exception
    PyObject* record_id = nullptr;   // (page, slot) -> RecordId
    PyObject *index = nullptr, *heap = nullptr;
    PyObject *u8 = nullptr, *u16 = nullptr, *u32 = nullptr, *u64 = nullptr, *i32 = nullptr;
};
Types& types();

// Raises the exception of an error.
[[noreturn]] void raise(const lockstep_error& error);
// Raises the exception of a code, which only the binding knows of, with this text.
[[noreturn]] void refuse(int code, const std::string& text);
// Raises a built-in exception.
[[noreturn]] void raise(PyObject* type, const std::string& text);
// Raises a TypeError or OverflowError that names what an application gave, and its value.
[[noreturn]] void refuse_type(const std::string& name, const char* wanted, nb::handle value);
[[noreturn]] void refuse_range(const std::string& name, const std::string& least,
                               const std::string& most, nb::handle value);

// An error that says nothing yet. Of its text only the first byte is set: each call makes one.
struct EmptyError : lockstep_error {
    EmptyError() {
        code = os = 0;
        a = b = c = 0;
        text[0] = '\0';
    }
};
// Sets the code and the text of an error that a procedure object has left empty.
void fill_in(int code, lockstep_error& error);
// Raises what a signal handler of Python has raised during the last run() of this thread, or the
// error of what has returned `code`, unless it is 0.
inline void check(int code, lockstep_error& error) {
    raise_interrupt();
    if (code == LOCKSTEP_OK) [[likely]]
        return;
    fill_in(code, error);
    raise(error);
}

// Runs fn(lockstep_error*) -> code without the GIL, and looks at signals meanwhile (waits.h). The
// result is the code. check() must follow.
template <class Fn>
int run(Fn fn, lockstep_error& error) {
    const Wait wait;
    return fn(&error);
}
// The same, and raises its error.
template <class Fn>
void call(Fn fn) {
    EmptyError error;
    check(run(fn, error), error);
}
// The same for calls that never wait: the GIL stays.
template <class Fn>
void call_at_once(Fn fn) {
    EmptyError error;
    check(fn(&error), error);
}

// The memory of an object that is one of bytes: its buffer has at least one dimension, and elements
// of the format B, b or c. What has others, as an array of integers or of pointers, is something
// else than its memory.
class ByteBuffer {
public:
    ByteBuffer() = default;
    ByteBuffer(const ByteBuffer&) = delete;
    ~ByteBuffer() {
        if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
    }
    // False: the object has no such memory. Raises a BufferError of the object.
    bool open(nb::handle object);
    char* data() const { return static_cast<char*>(buffer_.buf); }
    size_t size() const { return static_cast<size_t>(buffer_.len); }

private:
    Py_buffer buffer_{};
};

// The bytes of a Python object. It keeps the object alive, and a buffer at its size.
// Bytes and text are not copied; a tuple becomes the bytes of its parts (keys.cc). Of other objects
// only those of bytes are taken (ByteBuffer). Made and destroyed with the GIL; the bytes may be
// read without.
class Bytes {
public:
    enum class Use { key, value, buffer };

    Bytes(nb::handle object, Use use);
    Bytes(const Bytes&) = delete;
    lockstep_slice slice() const { return slice_; }

private:
    nb::object owner_;
    ByteBuffer buffer_;
    std::string encoded_;
    lockstep_slice slice_{};
};

class Key : public Bytes {
public:
    explicit Key(nb::handle object) : Bytes(object, Use::key) {}
};
class Value : public Bytes {
public:
    explicit Value(nb::handle object) : Bytes(object, Use::value) {}
};
// A bound of a range; None is empty.
class Bound {
public:
    explicit Bound(nb::handle object)
        : bytes_(object.is_none() ? none() : object, Bytes::Use::key) {}
    lockstep_slice slice() const { return bytes_.slice(); }

private:
    static nb::object none() { return nb::steal(PyBytes_FromStringAndSize(nullptr, 0)); }
    Bytes bytes_;
};

// A whole number that an application gave. Raises TypeError or OverflowError, which name it.
template <class T>
T whole(nb::handle value, const std::string& name) {
    T number{};
    // A bool is an index, but a switch that was meant for another argument.
    if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr())) [[unlikely]]
        refuse_type(name, "an int", value);
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    if (!nb::try_cast(index, number)) [[unlikely]]
        refuse_range(name, std::to_string(std::numeric_limits<T>::min()),
                     std::to_string(std::numeric_limits<T>::max()), value);
    return number;
}
// A text, True or False, a function; else a TypeError that names the argument.
std::string text(nb::handle value, const std::string& name);
bool flag(nb::handle value, const std::string& name);
nb::handle function(nb::handle value, const std::string& name);
// An Index or a Heap; else a TypeError that names the argument.
lockstep_index* index_of(nb::handle value, const char* name = "index");
lockstep_heap* heap_of(nb::handle value);
// The lock that a read takes.
inline int access_of(nb::handle value) { return whole<int>(value, "access"); }

// The key and the value of a record, which is a tuple.
std::pair<nb::object, nb::object> pair_of(nb::handle record);

// Memory of a Python object that a call writes to.
class Room {
public:
    explicit Room(nb::handle object);
    Room(const Room&) = delete;
    ~Room() { PyBuffer_Release(&buffer_); }
    char* data() const { return static_cast<char*>(buffer_.buf); }
    size_t size() const { return static_cast<size_t>(buffer_.len); }

private:
    Py_buffer buffer_;
};

// What an object is that was refused: its type, and the format of its buffer if it has one.
std::string described(nb::handle object);

// The bytes of a tuple of parts (keys.cc).
std::string encode(nb::handle tuple);

// Calls a Python function. With the GIL.
template <class... Arguments>
nb::object invoke(PyObject* function, Arguments&&... arguments) {
    return unless_ended([&]() -> nb::object {
        return nb::handle(function)(std::forward<Arguments>(arguments)...);
    });
}

inline nb::object bytes_of(const void* data, size_t size) {
    return nb::steal(
        PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size)));
}
inline nb::object bytes_of(const lockstep_slice& slice) { return bytes_of(slice.data, slice.size); }
inline nb::object bytes_of(const std::string& bytes) {
    return bytes_of(bytes.data(), bytes.size());
}
inline std::string string_of(const lockstep_slice& slice) {
    return {static_cast<const char*>(slice.data), slice.size};
}
inline nb::object record_id(const lockstep_record_id& id) {
    return invoke(types().record_id, id.page, id.slot);
}
// The reverse. Raises a TypeError that names `id`.
lockstep_record_id record_id_of(nb::handle id);

// Each file's part of the module.
void add_keys(nb::module_& module);
void add_store(nb::module_& module);
void add_options(nb::module_& module);
void add_backup(nb::module_& module);
void add_stats(nb::module_& module);
void add_transaction(nb::module_& module);
void add_prepared(nb::module_& module);
void add_procedures(nb::module_& module);
void add_objects(nb::module_& module);
void add_index(nb::module_& module);
void add_once_calls(nb::module_& module);
void add_cursor(nb::module_& module);
void add_heap(nb::module_& module);
void add_batch(nb::module_& module);
void add_changes(nb::module_& module);
void add_reports(nb::module_& module);
void add_callbacks(nb::module_& module);

}  // namespace lockstep::python
