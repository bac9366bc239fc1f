// offload.h - runs a function that blocks on a kernel thread of its own, while the user thread
// waits.
//
// Concepts   A store has a pool of Options::offload_threads kernel threads, which begin at first
//            use and end with the store. Further functions queue, first come, first served. The
//            function may block. It is on no user thread: it must not use a transaction, and
//            Store::run() inside it blocks the pool's thread.
// Blocking   offload() suspends the user thread until the function has returned.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/result.h>

namespace lockstep {

namespace detail {

// Runs `call(argument)` on the pool of the current user thread's store, and waits.
Result<void> offload_call(void (*call)(void*), void* argument);

template <class R>
struct Offloaded {
    using type = Result<R>;
};
template <class T>
struct Offloaded<Result<T>> {
    using type = Result<T>;
};
// A function, and its result when it has run.
template <class F>
struct OffloadedCall {
    using Out = std::invoke_result_t<F&>;
    using Final = typename Offloaded<Out>::type;
    F& fn;
    std::optional<Final> result;
    static void run(void* argument) noexcept {
        OffloadedCall& self = *static_cast<OffloadedCall*>(argument);
        if constexpr (std::is_void_v<Out>) {
            self.fn();
            self.result.emplace();
        } else {
            self.result.emplace(self.fn());
        }
    }
};

}  // namespace detail

// Runs fn() on a kernel thread of the store's pool and returns its result. fn returns Result<T>, or
// T, or nothing. It runs once, has ended when offload() returns, and may refer to the caller's
// variables. On a foreign kernel thread, and in a simulation, fn runs on the spot. An exception
// must not leave fn: it ends the process by std::terminate(). Return an error instead. Errors:
// fn's; too_many if the system grants not even one kernel thread (fn has not run then).
template <class F>
auto offload(F&& fn) -> typename detail::OffloadedCall<F>::Final {
    detail::OffloadedCall<F> call{fn, {}};
    LOCKSTEP_TRY(detail::offload_call(&detail::OffloadedCall<F>::run, &call));
    return std::move(*call.result);
}

}  // namespace lockstep
