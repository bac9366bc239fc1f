// quiet.h - pages that are as a snapshot sees them.
#pragma once

#include "sm/buffer/page.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm {

// Everything on the page is as the snapshot sees it.
inline bool is_quiet(const Snapshot& snapshot, const Page& page) {
    return page.header.lsn <= snapshot.quiet.value;
}

}  // namespace lockstep::sm
