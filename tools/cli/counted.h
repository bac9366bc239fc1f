// counted.h - a number with its noun, in the singular or in the plural.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cli {

// "1 index or heap", "2 indexes and heaps".
inline std::string counted(uint64_t count, const char* one, const char* many) {
    return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

}  // namespace lockstep::cli
