// cache.h - one simulated cache with least-recently-used replacement.
//
// Concepts   A cache is set-associative or fully associative. A set keeps its tags in order of use,
//            the latest first. A hit moves its tag to the front; a miss drops the last tag. A fully
//            associative cache is one set that is too long to search. It keeps a linked list of
//            lines and an index into it.
// Invariants IC-1 A line is in the cache at most once.
//            IC-2 A set holds exactly the last `ways` distinct lines that used it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/icache/geometry.h"

namespace lockstep::icache {

class Cache {
public:
    explicit Cache(const Geometry& geometry);

    // Line number of an address.
    uint64_t line_of(uint64_t address) const { return address >> line_shift_; }
    // Uses a line. True if it was a hit. Afterwards the line is in the cache.
    bool access(uint64_t line) {
        if (line == last_) return true;
        last_ = line;
        return full_ ? access_full(line) : access_set(line);
    }
    // Number of lines of [address, address + bytes) that missed.
    uint32_t touch(uint64_t address, uint32_t bytes) {
        uint32_t missing = 0;
        const uint64_t end = line_of(address + bytes - 1);
        for (uint64_t line = line_of(address); line <= end; ++line) missing += !access(line);
        return missing;
    }
    void clear();
    const Geometry& geometry() const { return geometry_; }

private:
    static constexpr uint64_t kNone = UINT64_MAX;
    struct Node {
        uint64_t line;
        uint32_t prev, next;
    };
    bool access_set(uint64_t line);
    bool access_full(uint64_t line);
    void to_front(uint32_t node);

    Geometry geometry_;
    uint32_t line_shift_;
    bool full_;
    uint32_t ways_;
    uint64_t set_mask_;
    // The line used last. It is in the cache, at the front.
    uint64_t last_ = kNone;
    std::vector<uint64_t> tags_;  // sets x ways
    std::vector<Node> nodes_;     // full: circular list, node 0 is its anchor
    std::unordered_map<uint64_t, uint32_t> index_;
};

}  // namespace lockstep::icache
