// check.h - assertions: CHECK stops a broken program, DCHECK does so in debug builds only.
#pragma once

#include "threads/base/try.h"  // keep: what checks also passes errors up

namespace lockstep {
// Prints the condition and its place to stderr and aborts. Cold on purpose, so callers keep one
// compare and one branch.
[[noreturn, gnu::cold, gnu::noinline]] void check_failed(const char* condition, const char* file,
                                                         int line);
}  // namespace lockstep

// Always on. Use where a wrong value would reach the disk or damage memory. Name the invariant in a
// comment or in the text.
#define CHECK(cond)                                              \
    do {                                                         \
        if (!(cond)) [[unlikely]]                                \
            ::lockstep::check_failed(#cond, __FILE__, __LINE__); \
    } while (0)

#ifdef LOCKSTEP_DEBUG_CHECKS
#define DCHECK(cond) CHECK(cond)
#else
#define DCHECK(cond)           \
    do {                       \
        (void)sizeof(!(cond)); \
    } while (0)
#endif
