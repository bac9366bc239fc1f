// backup_pages.h - the pages of a backup as they pass by, and what is wrong with one.
#pragma once

#include <span>

#include "sm/buffer/page.h"
#include "threads/io/copy_stream.h"

namespace lockstep::sm {

inline constexpr uint32_t kSuperblocks = 2;  // pages 0 and 1

// The whole pages of a buffer.
inline std::span<const Page> pages_in(const threads::CopyBuffer& buffer) {
    return {reinterpret_cast<const Page*>(buffer.bytes), buffer.size / kPageBytes};
}

// Null if the page is sound: zeros, or of this number, with a right checksum, with an lsn from
// `least` to `end`. Else what is wrong, as the end of a sentence.
inline const char* page_fault(const Page& page, PageId id, uint64_t least, uint64_t end) {
    if (page.header.checksum == 0 && never_written(page))
        return least == 0 ? nullptr : "is zeros, an older state of it";
    if (page.header.checksum != page_checksum(page, id)) return "has a wrong checksum";
    if (page.header.page_id != id.value) return "is another page";
    if (page.header.lsn > end) return "is newer than the backup";
    if (page.header.lsn < least) return "is an older state of it";
    return nullptr;
}

}  // namespace lockstep::sm
