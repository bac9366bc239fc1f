// policy.h - which scan is served next, with which chunk, and what is kept: one table of policies.
//
// Concepts   A policy is a row of kPolicies: five functions that look at a *view* of a pass and
//            choose. They keep nothing, read no clock, allocate nothing and never wait. Who calls
//            them does what they say, and sees that no scan is passed over for ever. So one table
//            serves the passes of a store and a machine in virtual time (tools/bench).
//            Its admit() says when a scan that has come begins, where, and with whom it shares.
//            Its whom() says for which scan the next chunk is loaded. Its load() says which chunk
//            that is, and which of its columns. Its use() says which of the chunks that are there a
//            scan takes. Its evict() says which loaded chunk makes room.
//            A chunk is loaded by columns. A table that is stored by rows has one column here.
//            A scan is *starved* with fewer than two chunks there, *almost starved* with two.
// Sources    [CS] M. Zukowski et al., "Cooperative Scans: Dynamic Bandwidth Sharing in a DBMS",
//            VLDB 2007. [QP] S. Harizopoulos, "Staged Database Systems", 2005, section 4.
//            [BL] L. Qiao et al., "Main-Memory Scan Sharing For Multi-Core CPUs", VLDB 2008.
//            [SD] G. Giannikis et al., "SharedDB: Killing One Thousand Queries With One Stone",
//            VLDB 2012.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/report.h>
#include "sm/scan/chunk_set.h"

namespace lockstep::sm::scan {

// The scans of one batch get a chunk together. Others read it again.
constexpr uint32_t kNoBatch = ~uint32_t{0};  // not admitted yet
constexpr size_t kStarved = 2;               // chunks there

// A scan as policies see it.
struct ScanView {
    const ChunkSet* needs = nullptr;  // that it has not had, also the one in use
    const ChunkSet* there = nullptr;  // of these, loaded with all of its columns
    size_t left = 0, ready = 0;       // their counts; `ready` also has what waits in its queue
    uint32_t columns = 1;             // bits
    uint32_t batch = 0;
    size_t begin = 0;     // its own order of chunks begins here and goes round
    uint64_t served = 0;  // number of the last load for it, or of its begin
    uint64_t waited = 0;  // loads since it had no chunk to take
    bool takes = true;    // false: it is sated, and nothing is loaded for it
};

struct PassView {
    size_t chunks = 0, cursor = 0;
    std::span<const ScanView> scans = {};
    std::span<const ChunkSet> there = {};         // by column: loaded
    std::span<const uint32_t> column_pages = {};  // of a chunk, by column
    const ChunkSet* pinned = nullptr;             // in use, so not to be evicted
    std::span<const uint64_t> used = {};          // by chunk: number of its last use
};

// Columns of a chunk. The score compares what a load brings with what an eviction takes.
struct Place {
    size_t chunk = 0;
    uint32_t columns = 1;
    uint64_t score = 0;
    bool operator==(const Place&) const = default;
};

// A scan that has come and has not begun. admit() sets the last two fields.
struct Waiting {
    const ChunkSet* needs = nullptr;
    uint32_t columns = 1;
    uint64_t cache_bytes = 0;  // that its groups take; 0: few enough for any company
    uint64_t run_time = 1;     // estimate, in any unit
    uint64_t waited = 0;
    size_t begin = 0;
    uint32_t batch = kNoBatch;
};

struct Admission {
    uint32_t next_batch = 0;   // no batch has this number or a greater one
    uint32_t scans_max = 32;   // full-n: that run at a time
    uint64_t cache_bytes = 0;  // batch: that the groups of a batch may take
    uint64_t wait_max = 0;     // batch: that a scan waits while others run
    double run_ratio = 1.25;   // batch: of the longest to the shortest run time in a batch
    uint64_t random = 0;       // batch: drawn by the caller
};

struct Policy {
    std::string_view name;
    void (*admit)(const PassView& pass, const Admission& by, std::span<Waiting> waiting);
    const ScanView* (*whom)(const PassView& pass);  // null: nothing is to be loaded
    // For a scan with left > there->count(), as whom() gives.
    Place (*load)(const PassView& pass, const ScanView& scan);
    std::optional<size_t> (*use)(const PassView& pass, const ScanView& scan);
    // Neither a pinned chunk nor the one of the load. None: what is loaded stays, and the load
    // waits until scans have used some of it.
    std::optional<Place> (*evict)(const PassView& pass, const Place& load);
};

extern const std::array<Policy, 9> kPolicies;  // those of ScanPolicy first, in its order

inline const Policy& policy_of(ScanPolicy policy) {
    DCHECK(policy != ScanPolicy::automatic && policy <= ScanPolicy::full);
    return kPolicies[static_cast<size_t>(policy) - 1];
}
// The row of this name, or null.
const Policy* find_policy(std::string_view name);

}  // namespace lockstep::sm::scan
