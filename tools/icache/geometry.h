// geometry.h - size, ways and line of a cache, as people write them: "65536,2,64" or "16K,full,64".
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

// bad_argument (`what` says what is wrong): sizes must be powers of two, line 16..256, size 256
// B..16 MB, ways 1..lines or "full".
Result<Geometry> parse_geometry(std::string_view text);

// A first level, instructions and data alike, and the second level behind both.
struct Machine {
    std::string name;
    Geometry l1;
    Geometry l2;
};
// The second level that stood behind such a first level: 256 KB of the thesis's machines, 512 KB of
// this one.
Machine machine_of(const Geometry& l1);
// The thesis's two processors and this machine.
std::vector<Geometry> usual_geometries();
// {4, 8, 16, 32, 64 KB} x {1, 2, 4, 8, full}, 64-byte lines: figure 5-10 and the smaller caches
// that a lean engine needs.
std::vector<Geometry> sweep_geometries();

}  // namespace lockstep::icache
