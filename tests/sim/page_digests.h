// page_digests.h - digests of each page at each of its LSNs, which redo must reproduce.
//
// Concepts   After each slice of the main run, every page in memory with a new LSN is hashed,
//            without checksum and hole. After redo of an image of that run, each page in memory is
//            compared with the digest at the same LSN. Redo and forward path run the same
//            functions, but their context differs. Another record may come first, a page may be
//            read or come from the log, and other changes were applied before. A page that changes
//            without a new LSN is noticed at the next look.
#pragma once

#include <unordered_map>
#include <vector>

#include "sm/engine/engine.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

class PageDigests {
public:
    // Hashes the pages of a running engine that have changed since the last look.
    void look(sm::Engine& engine, Report& report);
    // Compares all pages in memory with the digests. Call it after redo and before undo.
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
