// page.cc - the page checksum, and pages that were never written.
#include "sm/buffer/page.h"

#include <xxhash.h>

#include <algorithm>

namespace lockstep::sm {

// The id takes part as the seed: what belongs to another place never passes.
uint64_t page_checksum(const Page& page, PageId id) {
    return XXH3_64bits_withSeed(page.bytes() + sizeof(uint64_t), kPageBytes - sizeof(uint64_t),
                                id.value);
}

bool never_written(const Page& page) {
    const auto* words = reinterpret_cast<const uint64_t*>(page.bytes());
    return std::all_of(words, words + kPageBytes / sizeof(uint64_t),
                       [](uint64_t w) { return w == 0; });
}

}  // namespace lockstep::sm
