// point_in_time.h - the time that a user writes for a restore, and the time that a restore tells.
#pragma once

#include <string>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep::cli {

// "2026-11-24T03:00:00.25Z", an offset such as +01:00 in place of the Z, local time without either,
// or seconds since 1970 behind an @. Nanoseconds since 1970. Error bad_argument, with what helps:
// it is no time, or a local time that the clocks skip or have twice.
Result<Nanos> time_of(const std::string& text);

// The same as UTC with a Z.
std::string utc_text(Nanos time);

}  // namespace lockstep::cli
