// public_calls_lines.h - what the lines of the table of public calls are written with.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tests/sm/api/public_calls.h"

namespace lockstep {

// A call with a store, and one with a transaction `t` as well. The last argument is the outcome.
#define CALL(call, wait, ...) \
    PublicCall(call, Waits::wait, []([[maybe_unused]] World& w) { return __VA_ARGS__; })
#define TXN_CALL(call, wait, ...) \
    PublicCall(call, Waits::wait, []([[maybe_unused]] World& w, OpenTxn& t) { return __VA_ARGS__; })

template <class T>
std::string told(const Result<T>& r) {
    return r.has_value() ? "ok" : std::string("`") + error_name(r.error().code) + "`";
}
inline std::string truth(bool holds) { return holds ? "true" : "false"; }
inline std::string filled(bool holds) { return holds ? "ok" : "empty"; }
template <class F>
std::string done(F f) {
    f();
    return "ok";
}
// An object of the class is made and destroyed.
template <class T, class... A>
std::string destroyed(A... a) {
    std::optional<T> object(std::in_place, a...);
    object.reset();
    return "ok";
}
// f(object) for a new object of the class.
template <class T, class F, class... A>
std::string with(F f, A... a) {
    T object(a...);
    return f(object);
}

}  // namespace lockstep
