// crew.h - runs independent pieces of work on user threads of all workers.
//
// Concepts   A crew of one runs the pieces in order on the calling thread. A larger crew has one
//            user thread on each of that many workers; each takes the next piece when it is free.
// Blocking   for_each() parks until all members are done.
#pragma once

#include <lockstep/function_ref.h>
#include <lockstep/result.h>
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

class Crew {
public:
    // At most one member on each worker counts.
    Crew(threads::Runtime& runtime, uint32_t members);
    uint32_t members() const { return members_; }
    // Calls each(i) once for every i below `n`. After an error no further piece is begun; the
    // result is the first error. User threads only.
    Result<void> for_each(size_t n, FunctionRef<Result<void>(size_t)> each);

private:
    threads::Runtime& runtime_;
    const uint32_t members_;
};

}  // namespace lockstep::sm
