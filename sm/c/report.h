// report.h - errors of the C interface: from Result to code and lockstep_error; and checks of what
// a C program gives.
#pragma once

#include <cstring>

#include <lockstep/c/base.h>
#include <lockstep/record.h>
#include <lockstep/result.h>
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"  // keep: what includes this file uses it

namespace lockstep::c {

// The error's code; fills *out unless it is null.
[[gnu::cold, gnu::noinline]] int report(const Error& error, lockstep_error* out);
inline int report(const Result<void>& result, lockstep_error* out) {
    return result ? int{LOCKSTEP_OK} : report(result.error(), out);
}

[[gnu::cold]] inline Unexpected is_null(const char* what) {
    return fail(ErrorCode::bad_argument, what);
}
// Returns bad_argument from the enclosing function if a pointer argument is null.
#define LOCKSTEP_NOT_NULL(pointer)         \
    if ((pointer) == nullptr) [[unlikely]] \
    return ::lockstep::c::is_null(#pointer " is NULL")

inline bool sound(const lockstep_slice& slice) { return slice.data != nullptr || slice.size == 0; }
inline Slice slice_of(const lockstep_slice& slice) {
    DCHECK(sound(slice));
    return {static_cast<const char*>(slice.data), slice.size};
}
// Returns bad_argument from the enclosing function if a slice has bytes and no address.
#define LOCKSTEP_SOUND(slice)                      \
    if (!::lockstep::c::sound(slice)) [[unlikely]] \
    return ::lockstep::c::is_null("data of the slice " #slice " is NULL")

inline lockstep_slice to_c(Slice slice) { return {slice.data(), slice.size()}; }

// An enumeration of the C interface; `count` is the number of its values, from 0.
template <class E>
Result<E> enum_of(int value, int count, ErrorCode code, const char* what) {
    if (value < 0 || value >= count) [[unlikely]]
        return fail(code, what, static_cast<uint64_t>(value));
    return static_cast<E>(value);
}
inline Result<Access> access_of(int value) {
    return enum_of<Access>(value, 3, ErrorCode::bad_argument, "access");
}
// The same with what a read of an index does about a locked record.
struct Reading {
    Access access;
    IfLocked if_locked;
};
inline Result<Reading> reading_of(int value) {
    const int flags = value & (LOCKSTEP_ACCESS_NO_WAIT | LOCKSTEP_ACCESS_SKIP_LOCKED);
    if (flags == (LOCKSTEP_ACCESS_NO_WAIT | LOCKSTEP_ACCESS_SKIP_LOCKED))
        return fail(ErrorCode::bad_argument, "access", static_cast<uint64_t>(value));
    return Reading{TRY(access_of(value - flags)),
                   flags == LOCKSTEP_ACCESS_NO_WAIT       ? IfLocked::no_wait
                   : flags == LOCKSTEP_ACCESS_SKIP_LOCKED ? IfLocked::skip
                                                          : IfLocked::wait};
}

constexpr size_t kStructBytesMax = 4096;  // of a struct with a size: larger is not initialised

// A struct with a size may be one of a newer header. Then what the library does not know must be
// zero, which means that it is not set. `least`: the size of the oldest header.
template <class T>
Result<void> require_known(const T& given, const char* what, size_t least = sizeof(size_t)) {
    const size_t size = given.size;
    if (size < least || size > kStructBytesMax) return fail(ErrorCode::bad_option, what, size);
    const auto* const bytes = reinterpret_cast<const char*>(&given);
    for (size_t i = sizeof(T); i < size; ++i)
        if (bytes[i] != 0)
            return fail_with(ErrorCode::bad_option, what,
                             "a field is set that this library does not know, because the program "
                             "was built with the header of a newer one");
    return {};
}
// A struct with a size that the caller has filled, or the defaults for null. Fields that the caller
// does not know have their defaults.
template <class T>
Result<T> sized(const T* given, const T& defaults, const char* what) {
    if (given == nullptr) return defaults;
    TRY(require_known(*given, what));
    const size_t size = given->size;
    const auto* const bytes = reinterpret_cast<const char*>(given);
    T value = defaults;
    std::memcpy(static_cast<void*>(&value), bytes, size < sizeof(T) ? size : sizeof(T));
    value.size = sizeof(T);
    return value;
}
// Copies the fields that the caller knows to a struct whose size the caller has set.
template <class T>
Result<void> fill(T* out, T value, const char* what) {
    const size_t size = out->size;
    if (size < sizeof(size_t) || size > kStructBytesMax) return fail(ErrorCode::bad_option, what);
    value.size = size;
    std::memcpy(static_cast<void*>(out), &value, size < sizeof(T) ? size : sizeof(T));
    return {};
}
// The same for lockstep_..._init().
template <class T>
void initialise(T* out, size_t size, const T& value) {
    if (out == nullptr || size < sizeof(size_t) || size > kStructBytesMax) return;
    std::memset(static_cast<void*>(out), 0, size);
    std::memcpy(static_cast<void*>(out), &value, size < sizeof(T) ? size : sizeof(T));
    out->size = size;
}

// Copies a text to a buffer of the caller, as far as it fits.
Result<void> copy_text(Slice text, char* buffer, size_t room, size_t* bytes);

template <class T>
void set(T* out, T value) {
    if (out != nullptr) *out = value;
}

}  // namespace lockstep::c
