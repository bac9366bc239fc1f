// sweep.h - frees the pages of an object whose structure a crash left half freed or half made.
#pragma once

#include <span>

#include "sm/core/env.h"

namespace lockstep::sm {

// Frees every page of the volume that carries the number of `object` and is not among `keep`. Reads
// all used pages of the volume. The object must be quiet. Parks for pages and log. Errors:
// io_error, and those of the space map; a damaged page of another object is skipped.
Result<void> sweep(Env& env, ObjectId object, std::span<const PageId> keep);

}  // namespace lockstep::sm
