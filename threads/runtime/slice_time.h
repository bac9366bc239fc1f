// slice_time.h - how long a user thread has kept its worker's CPU, from looks at it.
#pragma once

#include <algorithm>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/mutants.h"

namespace lockstep::threads {

// The slice had lasted `held` at the look before, `elapsed` ago. Meanwhile the worker was ready for
// `queued` without a CPU, which does not count. One look adds `most` at most, because the process
// may have been stopped. The kernel counts a wait for a CPU when it ends, so `queued` may be longer
// than `elapsed`: earlier looks then took the wait for a part of the slice. Nothing is taken off
// before the slice, since looks that came late have added less than the wait.
inline Nanos held_after(Nanos held, Nanos elapsed, Nanos queued, Nanos most) {
    DCHECK(most > 0 && held < kNever - most);
    if (MUTANT(late_look_capped_twice)) elapsed = std::min(elapsed, most);
    if (elapsed >= queued) return held + std::min(elapsed - queued, most);
    return held - std::min(held, queued - elapsed);
}

}  // namespace lockstep::threads
