// check.cc - the cold path of check.h, alone: what is above the library may compile it in.
#include "threads/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep {

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "lockstep: CHECK failed: %s at %s:%d\n", condition, file, line);
    std::abort();
}

}  // namespace lockstep
