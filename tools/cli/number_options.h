// number_options.h - checks of options that are sizes or numbers. CLI11's own ones take a number
// that is too large for the largest one, and name no range.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace lockstep::cli {

// A size such as 512M, 2G, 64KiB or 100000 becomes the number of bytes. `range` is the text of both
// bounds.
CLI::Validator size_in(uint64_t least, uint64_t most, const std::string& range);

// Of a buffer pool, as Options::pool_bytes; the store takes a little more.
CLI::Validator pool_size();

// Of an integer from 1 on, that `what` describes.
CLI::Validator number_from_one(const std::string& what);

}  // namespace lockstep::cli
