// page.cc - the page checksum.
#include "sm/buffer/page.h"
#include "threads/base/mutants.h"

#include <xxhash.h>

namespace lockstep::sm {

// The id takes part as the seed: what belongs to another place never passes.
uint64_t page_checksum(const Page& page, PageId id) {
    return XXH3_64bits_withSeed(page.bytes() + sizeof(uint64_t), kPageBytes - sizeof(uint64_t),
                                MUTANT(checksum_without_page_id) ? 0 : id.value);
}

}  // namespace lockstep::sm
