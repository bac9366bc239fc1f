// heap_chunks.cc - walks along the map pages.
#include "sm/heap/heap_chunks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sm/heap/heap_page.h"
#include "threads/base/try.h"

namespace lockstep::sm {

namespace {

struct Place {
    uint32_t number = 0;  // of the map page
    PageId map;
    uint32_t entry = 0;
};

std::string text_of(const Place& place) {
    DCHECK(place.entry < heap::kMapEntries && place.map != kPageNone);
    const uint32_t parts[] = {std::byteswap(place.number), std::byteswap(place.map.value),
                              std::byteswap(place.entry)};
    return {reinterpret_cast<const char*>(parts), sizeof parts};
}

Place place_of(Slice text) {
    uint32_t parts[3];
    CHECK(text.size() == sizeof parts);
    std::memcpy(parts, text.data(), sizeof parts);
    return {std::byteswap(parts[0]), PageId{std::byteswap(parts[1])}, std::byteswap(parts[2])};
}

}  // namespace

Result<std::vector<std::string>> cut_into_chunks(HeapFile& heap, unsigned pages) {
    DCHECK(pages > 0 && threads::current()->latch_depth == 0);
    std::vector<std::string> cuts;
    std::vector<PageId> listed;
    for (Place at{.map = heap.first_page()}; at.map != kPageNone; ++at.number) {
        listed.clear();
        const PageId next = TRY(heap.list_pages(at.map, 0, listed));
        for (at.entry = at.number == 0 ? pages : 0; at.entry < listed.size(); at.entry += pages)
            cuts.push_back(text_of(at));
        at.map = next;
    }
    return cuts;
}

Result<std::vector<PageId>> pages_of_chunk(HeapFile& heap, Slice low, Slice high) {
    DCHECK(threads::current()->latch_depth == 0 && (high.empty() || low < high));
    Place at = low.empty() ? Place{.map = heap.first_page()} : place_of(low);
    const Place end = high.empty() ? Place{.number = UINT32_MAX, .map = kPageNone} : place_of(high);
    std::vector<PageId> out;
    for (; at.map != kPageNone && at.number <= end.number; ++at.number, at.entry = 0) {
        const size_t before = out.size();
        const PageId next = TRY(heap.list_pages(at.map, at.entry, out));
        if (at.number == end.number)
            out.resize(std::min(out.size(), before + end.entry - at.entry));
        at.map = next;
    }
    return out;
}

}  // namespace lockstep::sm
