// raw_disk.h - the device by itself, without anything of the engine.
#pragma once

#include <string>

#include "tools/bench/bench.h"

namespace lockstep::bench {

// Reads of 8 KB a second at random places of the first `pages` pages of the file, `depth` at a
// time, past all caches of the system. Errors: unsupported where io_uring is refused.
Result<double> raw_reads(const std::string& path, uint64_t pages, uint32_t depth, double seconds,
                         uint64_t seed);

// Microseconds of a log flush of `bytes` on a ring as the engine makes it: one durable write, or a
// write and a linked sync. Median of many.
Result<double> raw_flush(const std::string& path, uint64_t bytes, bool durable_write,
                         double seconds);

}  // namespace lockstep::bench
