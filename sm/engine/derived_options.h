// derived_options.h - the sizes of the log that follow from log_bytes when they are not given.
#pragma once

#include <lockstep/options.h>

namespace lockstep {

// Gives log_segment_bytes and log_ring_bytes their values where they have none. check_options()
// looks at the result.
void derive_log_options(Options& options);

}  // namespace lockstep
