// page_fault.h - what is wrong with a page of a backup.
#pragma once

#include "sm/buffer/page.h"

namespace lockstep::sm {

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
