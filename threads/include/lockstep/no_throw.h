// no_throw.h - the end of a process whose callback throws.
//
// Concepts   The store calls functions of the application in the middle of its own work, with
//            latches held. An exception that left such a function would leave them held, so the
//            process ends. It says why, and std::terminate() names the exception.
#pragma once

#include <type_traits>
#include <utility>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep::detail {

// Of a handler: prints why to stderr and calls std::terminate().
[[noreturn, gnu::cold, gnu::noinline]] void stop_on_exception() noexcept;

// Calls f(arguments...). An exception ends the process.
template <class F, class... A>
[[gnu::always_inline]] inline std::invoke_result_t<F, A...> call_no_throw(F&& f, A&&... arguments) {
#ifdef __cpp_exceptions
    try {
        return std::forward<F>(f)(std::forward<A>(arguments)...);
    } catch (...) {
        stop_on_exception();
    }
#else
    return std::forward<F>(f)(std::forward<A>(arguments)...);
#endif
}

}  // namespace lockstep::detail
