// base.cc - cold paths of result.h and no_throw.h.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <lockstep/no_throw.h>
#include <lockstep/result.h>
#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep {

void detail::stop_without_value(const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    std::fprintf(stderr,
                 "lockstep: the value of a Result was taken, but it holds an error; test it first "
                 "(lockstep/result.h): %s\n",
                 error.text().c_str());
    std::abort();
}

void detail::stop_without_error() {
    std::fputs(
        "lockstep: the error of a Result was taken, but it holds a value; test it first "
        "(lockstep/result.h)\n",
        stderr);
    std::abort();
}

void detail::stop_on_exception() noexcept {
    std::fputs(
        "lockstep: an exception left a function that the store called; return an error instead "
        "(lockstep/store.h, Exceptions)\n",
        stderr);
    std::terminate();
}

const char* error_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::none: return "none";
#define X(name, text) \
    case ErrorCode::name: return #name;
            LOCKSTEP_ERRORS(X)
#undef X
    }
    return "unknown";
}

const char* error_meaning(ErrorCode code) {
    switch (code) {
        case ErrorCode::none: return "no error";
#define X(name, text) \
    case ErrorCode::name: return text;
            LOCKSTEP_ERRORS(X)
#undef X
    }
    return "unknown error";
}

std::string Error::text() const {
    DCHECK(os >= 0);  // errno
    std::string s = error_name(code);
    s += ": ";
    s += error_meaning(code);
    if (what) {
        s += " [";
        s += what;
        s += "]";
    }
    if (const std::string longer = error_detail(*this); !longer.empty()) {
        s += ": " + longer;
    } else if (a || b || c) {
        s += " (" + std::to_string(a);
        if (b || c) s += ", " + std::to_string(b);
        if (c) s += ", " + std::to_string(c);
        s += ")";
    }
    if (os) {
        s += ": ";
        s += std::strerror(os);
    }
    return s;
}

Unexpected fail(ErrorCode code, const char* what, uint64_t a, uint64_t b, uint64_t c) {
    DCHECK(code != ErrorCode::none);
    return Unexpected(Error{.code = code, .what = what, .a = a, .b = b, .c = c});
}

Unexpected fail_os(ErrorCode code, int err, const char* what, uint64_t a, uint64_t b) {
    DCHECK(code != ErrorCode::none);
    DCHECK(err >= 0 && err <= INT16_MAX);  // errno, not the negative result of a call
    return Unexpected(
        Error{.code = code, .os = static_cast<int16_t>(err), .what = what, .a = a, .b = b});
}

}  // namespace lockstep
