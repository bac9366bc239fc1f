// page_digests.h - what each page looked like at each of its lsns, noted while it happened: redo
// must make exactly that.
//
// Concepts   After each slice of the main run every page in memory whose lsn is a new one is
//            hashed, without checksum and hole. When an image of that run has been redone, each
//            page in memory is compared with what it was at the same lsn. Redo and the forward path
//            run the same functions; what differs is everything around them: which record comes
//            first, whether the page was read or brought by the log, what else was applied before.
//            A page that changes without a new lsn is noticed as well, when it is looked at again.
#pragma once

#include <unordered_map>
#include <vector>

#include "sm/store/engine.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

class PageDigests {
public:
    // Notes the pages of a running engine that have changed since the last look.
    void look(sm::Engine& engine, Report& report);
    // All pages in memory against what was noted; nothing is undone yet.
    void compare(sm::Engine& redone, Report& report) const;

private:
    struct Seen {
        uint64_t lsn = 0, digest = 0;
    };
    std::vector<Seen> last_;                                       // by page
    std::vector<std::unordered_map<uint64_t, uint64_t>> digests_;  // by page: lsn -> digest
    uint64_t looks_ = 0;
};

}  // namespace lockstep::sim
