// geometry.h - size, ways and line size of a cache, as text: "65536,2,64", "48K,12" or "16K,full".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/result.h>

namespace lockstep::icache {

struct Geometry {
    uint32_t bytes = 32768;
    uint32_t ways = 8;  // 0: fully associative
    uint32_t line = 64;

    bool full() const { return ways == 0; }
    uint32_t lines() const { return bytes / line; }
    uint32_t ways_real() const { return full() ? lines() : ways; }
    uint32_t sets() const { return lines() / ways_real(); }
    std::string text() const;  // "32768,8,64"
    bool operator==(const Geometry&) const = default;
};

// "48K,12,64", "48K,12" (a line of 64 bytes) or "16K,full,64". The number of sets must be a power of
// two, as in every processor: 24K,6 and 48K,12 have 64 sets. The line is a power of two, 16..256
// bytes; the size 256 B..16 MB. Errors: bad_argument, whose `what` names the fault.
Result<Geometry> parse_geometry(std::string_view text);

// A first level, the same for instructions and data, and the second level behind both.
struct Machine {
    std::string name;
    Geometry l1;
    Geometry l2;
};
// The second level that belongs to a first level: 256 KB for the thesis's machines, 512 KB or 1 MB
// for current ones, 256 KB for any other.
Machine machine_of(const Geometry& l1);
// The thesis's two processors and three current shapes.
std::vector<Geometry> usual_geometries();
// {4, 8, 16, 32, 64 KB} x {1, 2, 4, 8, full} with 64-byte lines: figure 5-10 of the thesis, and
// smaller caches, because this engine's operations have less code.
std::vector<Geometry> sweep_geometries();

}  // namespace lockstep::icache
