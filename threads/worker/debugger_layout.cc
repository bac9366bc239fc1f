// debugger_layout.cc - field offsets for the debugger script (tools/gdb/lockstep_gdb.py), which
// needs no type information.
#include <cstddef>

#include "threads/worker/worker.h"

// Thread and Worker are not standard-layout types. Both compilers support offsetof on them, because
// no virtual base is involved.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace lockstep::threads {

[[gnu::used]] const uint32_t Worker::kDebuggerLayout[] = {
    3,  // format
    offsetof(WorkerLocal, current),
    offsetof(WorkerLocal, worker),
    offsetof(Worker, index_),
    offsetof(Worker, all_threads_),
    offsetof(Thread, sp),
    offsetof(Thread, all_next),
    offsetof(Thread, id),
    offsetof(Thread, name),
    offsetof(Thread, state),
    offsetof(Thread, reason),
    offsetof(Thread, latch_depth),
    offsetof(Thread, stack),
    offsetof(Stack, base),
    offsetof(Stack, top),
    kSavedFramePointer,
    kSavedReturnAddress,
    offsetof(Thread, fast_form),
    8,
    0,  // the fast switch's layout: fast_switch_x86_64.S
};

// CTX touches one line of the thread that it enters.
static_assert(offsetof(Thread, sp) == 0 && offsetof(Thread, next) < kCacheLineBytes);
static_assert(offsetof(Thread, team_stays) + sizeof(Thread::team_stays) <= kCacheLineBytes);
static_assert(offsetof(Thread, worker) < kCacheLineBytes && alignof(Thread) == kCacheLineBytes);
}  // namespace lockstep::threads
