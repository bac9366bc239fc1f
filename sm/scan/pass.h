// pass.h - the scans of one object, its chunks, and what one turn makes of a chunk.
#pragma once

#include "sm/scan/service.h"

namespace lockstep::sm::scan {

// Blocks of a chunk with certain columns, for the snapshots of certain groups.
struct Made {
    size_t chunk = 0;
    std::vector<uint16_t> columns;
    std::vector<std::shared_ptr<Group>> groups;
    std::shared_ptr<const MadeChunk> blocks;
    bool brought = false;  // pages were read for it, so scans that come later may have it, too
    void assert_state() const {
        DCHECK(blocks != nullptr && !columns.empty() && !groups.empty());
        DCHECK(std::ranges::is_sorted(columns));
    }
    bool serves(const ScanState& scan) const {
        assert_state();
        return std::ranges::find(groups, scan.group) != groups.end() &&
               std::ranges::includes(columns, scan.wanted);
    }
};

struct Pass {
    Object object;
    std::pair<uint32_t, std::string> key;  // number of the object, text of its columns
    std::shared_ptr<const Columns> columns;
    uint32_t worker = 0;
    // By the server only.
    std::vector<std::string> cuts;  // chunk i begins at cuts[i - 1] and ends at cuts[i]
    size_t cursor = 0;
    std::map<size_t, std::vector<PageId>> brought;  // by chunk: pages that were read ahead for it
    const Policy* policy = nullptr;                 // since the first scan was admitted
    std::vector<uint64_t> used;                     // by chunk: the last turn that took it
    uint64_t turns = 0;
    // What the policy sees, made anew by look().
    std::vector<ScanView> views;   // of `scans`
    std::vector<ChunkSet> usable;  // by scan: kept blocks that serve it
    std::vector<ChunkSet> loaded;  // one set: chunks with kept blocks
    ChunkSet pinned;               // none: blocks are counted by references
    // Under Service::mutex_.
    bool cut = false;
    std::vector<std::shared_ptr<ScanState>> fresh, scans;
    // The oldest first. Not all of them are needed: see Made::brought.
    std::list<Made> kept;
    std::map<std::shared_ptr<Group>, std::vector<bool>> made_for;  // by chunk
    uint32_t next_batch = 0;
    bool poked = false;  // since the server looked last: a scan came, took a block or ended
    Condition wake;

    void poke() {
        poked = true;
        wake.notify_all();
    }

    size_t chunks() const { return cuts.size() + 1; }
    void choose_policy(uint64_t pool_bytes);
    PassView look();
    // The scan that was passed over too often, else the policy's choice, and a chunk for it. A
    // chunk that is there comes before one that must be made. Null: no scan is ready.
    std::pair<ScanState*, size_t> next();
    ChunkRange range(size_t chunk) const {
        DCHECK(chunk < chunks());
        return {.low = chunk == 0 ? Slice() : Slice(cuts[chunk - 1]),
                .high = chunk == cuts.size() ? Slice() : Slice(cuts[chunk])};
    }
    void assert_state() const {
        DCHECK(columns != nullptr && !columns->all().empty());
        DCHECK(cut || (cuts.empty() && policy == nullptr));
        DCHECK(policy == nullptr ? scans.empty() : used.size() == chunks());
        DCHECK(cursor < chunks());
        for ([[maybe_unused]] const auto& scan : scans) {
            DCHECK(scan->needed.chunks() == chunks() && scan->batch != kNoBatch);
            scan->assert_state();
        }
        for ([[maybe_unused]] const Made& made : kept) DCHECK(made.chunk < chunks());
    }
};

struct Service::Turn {
    // What one scan gets.
    struct Share {
        std::shared_ptr<ScanState> scan;
        std::vector<Block> blocks = {};
        Error error = {};
    };
    size_t chunk = 0;
    std::optional<size_t> next;  // which the pass takes probably after it
    std::vector<Share> shares;
    std::vector<Made> made;  // what was kept of the chunk, then what is new
    size_t kept = 0;         // of these, how many were kept
};

}  // namespace lockstep::sm::scan
