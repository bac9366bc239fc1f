// raw_disk.h - measures the device alone, without the engine.
#pragma once

#include <string>

#include "tools/bench/bench.h"

namespace lockstep::bench {

// Random 8 KB reads per second within the first `pages` pages of the file, `depth` at a time, with
// direct I/O. Errors: unsupported if io_uring is refused.
Result<double> raw_reads(const std::string& path, uint64_t pages, uint32_t depth, double seconds,
                         uint64_t seed);

// Median time in microseconds of a log flush of `bytes`, on a ring set up as in the engine. A flush
// is one durable write, or a write and a linked sync.
Result<double> raw_flush(const std::string& path, uint64_t bytes, bool durable_write,
                         double seconds);

}  // namespace lockstep::bench
