// size_option.h - the check of options such as --pool 2G, for the driver and the tools.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tpcc/settings.h"

namespace lockstep::tpcc {

// Of a pool, a cache or a log: the store takes a little more.
inline const CLI::Validator kSize(
    [](std::string& text) {
        const auto bytes = parse_size(text);
        if (!bytes) return "is not a size such as 512M or 2G: " + text;
        const bool fits = *bytes >= 4ull << 20 && *bytes <= 1023ull << 30;
        return fits ? "" : "is not in the range 4M to 1023G: " + text;
    },
    "SIZE in [4M - 1023G]");

}  // namespace lockstep::tpcc
