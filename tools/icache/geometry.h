// geometry.h - size, ways and line size of a cache, as text: "65536,2,64" or "16K,full,64".
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

// Sizes must be powers of two: line 16..256, size 256 B..16 MB, ways 1..lines or "full". Errors:
// bad_argument, whose `what` names the fault.
Result<Geometry> parse_geometry(std::string_view text);

// A first level, the same for instructions and data, and the second level behind both.
struct Machine {
    std::string name;
    Geometry l1;
    Geometry l2;
};
// The second level that belongs to a first level: 256 KB for the thesis's machines, 512 KB for a
// current one.
Machine machine_of(const Geometry& l1);
// The thesis's two processors and a current one.
std::vector<Geometry> usual_geometries();
// {4, 8, 16, 32, 64 KB} x {1, 2, 4, 8, full} with 64-byte lines: figure 5-10 of the thesis, and
// smaller caches, because this engine's operations have less code.
std::vector<Geometry> sweep_geometries();

}  // namespace lockstep::icache
