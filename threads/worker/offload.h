// offload.h - offload() to another pool than the store's, for what must not wait behind the
// functions of an application.
//
// Blocking   run_on() parks until the function has returned.
#pragma once

#include <utility>

#include <lockstep/offload.h>
#include "threads/io/offload_pool.h"

namespace lockstep::threads {

struct RuntimeShared;

// Whether a user thread of that runtime waits for the function that the calling kernel thread runs.
bool offloaded_by(const RuntimeShared* runtime);

// Runs `call(argument)` on a thread of the pool, and waits. User threads only. In a simulation it
// runs on the spot. Error: too_many if the system grants the pool not even one thread; it has not
// run then.
Result<void> run_call_on(OffloadPool& pool, void (*call)(void*), void* argument);

// The same for fn(); returns its result, as offload() does.
template <class F>
auto run_on(OffloadPool& pool, F&& fn) -> typename detail::OffloadedCall<F>::Final {
    detail::OffloadedCall<F> call{fn, {}};
    TRY(run_call_on(pool, &detail::OffloadedCall<F>::run, &call));
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the call has returned
    return std::move(*call.result);
}

}  // namespace lockstep::threads
