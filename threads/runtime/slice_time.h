// slice_time.h - how long a user thread has kept its worker's CPU, from looks at it.
#pragma once

#include <algorithm>

#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::threads {

// What a kernel thread has done since the last look at it, `elapsed` ago.
struct SliceLook {
    Nanos elapsed = 0;
    Nanos computed = 0;   // on a CPU
    Nanos queued = 0;     // ready, but on no CPU; counted when that ends
    bool asleep = false;  // now, in a system call: its last wait for a CPU has ended
};

// The slice had lasted `held` at the look before. Only what is certain counts. One that sleeps now
// was on a CPU or asleep since then, but for the time queued. One that is ready now may have waited
// for a CPU since it last computed. One look adds `most` at most to the time asleep, because the
// process may have been stopped.
inline Nanos held_after(Nanos held, const SliceLook& look, Nanos most) {
    DCHECK(most > 0 && held < kNever - most && look.computed < kNever - held);
    if (!look.asleep) return held + look.computed;
    return held + std::min(look.elapsed - std::min(look.queued, look.elapsed), most);
}

}  // namespace lockstep::threads
