// names.cc - finds the name of an address.
#include "tools/coherence/names.h"

#include <algorithm>
#include <ranges>

namespace lockstep::coherence {

namespace {
constexpr size_t kLarge = 4096;
constexpr uint64_t kLineBytes = 64;
}  // namespace

void Names::add(const Range& range) {
    std::erase_if(ranges_, [&](const Range& old) {
        return range.field == nullptr && range.from <= old.from && old.to <= range.to;
    });
    ranges_.push_back(range);
}

Place Names::place_of(uint64_t address) const {
    for (const Range& range : std::views::reverse(ranges_)) {
        if (address < range.from || address >= range.to) continue;
        Place place{.structure = range.structure, .field = range.field};
        if (range.element != 0) {
            const uint64_t offset = (address - range.from) % range.element;
            place.offset = static_cast<uint32_t>(
                range.element >= kLarge ? uint64_t{offset >= kLineBytes} : offset / 8 * 8);
        }
        if (range.object_of != nullptr)
            place.object = range.object_of(reinterpret_cast<const void*>(address));
        return place;
    }
    return {};
}

}  // namespace lockstep::coherence
