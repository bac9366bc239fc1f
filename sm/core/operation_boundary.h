// operation_boundary.h - where a thread goes from one operation to the next.
//
// Concepts   The team scheduler is called from operation_boundary(). There a thread leaves its team
//            and joins the team of its next operation (threads/steps/steps.h).
#pragma once

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/steps/steps.h"
#include "threads/thread/thread.h"
#include "threads/thread/worker_local.h"

namespace lockstep::sm {

// Fetch and fetch for update run the same code except for the lock's mode, so they share one list.
// Begin, commit, update and scan have one list each. Fetch, insert and erase have one list per
// index or heap.
using OpKind = threads::OpKind;

// The thread is about to run `kind` on `object` and holds no latch.
inline void operation_boundary(OpKind kind, ObjectId object) {
    DCHECK(threads::current()->latch_depth == 0);
    if (threads::Steps* steps = threads::worker_local.steps)
        steps->boundary(*threads::current(), kind, object.value);
}

}  // namespace lockstep::sm
