// names.h - what lies where: the ranges of memory that the engine's objects have named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace lockstep::coherence {

using ObjectOf = uint32_t (*)(const void*);

struct Range {
    const char* structure;
    const char* field;  // null: told apart by place
    uint64_t from, to;
    size_t element;  // bytes; 0: no array
    ObjectOf object_of;
};

// A named place: what the counts are kept by.
struct Place {
    const char* structure = "other";
    const char* field = nullptr;
    // Without a field: the offset of the 8-byte word within the element. Of elements as large as
    // pages: 0 for the first line, 1 for the rest.
    uint32_t offset = 0;
    uint32_t object = 0;
    auto operator<=>(const Place&) const = default;
};

// Ranges may lie inside others: the newest that contains an address names it. Not thread-safe: the
// turns (turns.h) protect it.
class Names {
public:
    // A range that begins where an older one of the same field does replaces it: the memory was
    // used again.
    void add(const Range& range);
    Place place_of(uint64_t address) const;

private:
    std::deque<Range> ranges_;
};

}  // namespace lockstep::coherence
