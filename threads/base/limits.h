// limits.h - sizes of batches, tables and looks inside the engine, in one table.
//
// Concepts   A limit decides how much is done at a time, how many find a place, or how often
//            something is tried. Answers and the content of the disk never depend on it. In a
//            normal build each limit is a constant. A build with LOCKSTEP_DRAWN_LIMITS makes them
//            variables that the simulator and the random tests draw from their seed, mostly near
//            the least value. So a count beyond a limit is met after a few operations, not after
//            thousands. An entry: name, value, least value, what it limits. A drawn value is never
//            above the constant, so arrays of that size suffice.
// Sharing    A limit changes only while no engine exists in the process: before a test or a
//            simulated run begins. Then any thread reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "threads/base/check.h"
#include "threads/base/rng.h"

#define LOCKSTEP_LIMITS(X)                                                                   \
    X(turn_requests, 8, 1, "I/O requests that end a worker's turn")                          \
    X(packets_due_at_once, 64, 1, "packets whose time has come, moved under one lock")       \
    X(thread_ids, 256, 1, "ids of packets that a worker takes at once")                      \
    X(latch_losses, 4, 1, "losses after which a latch is handed to its waiter")              \
    X(transaction_ids, 64, 1, "transaction ids that a worker takes at once")                 \
    X(durable_wakes, 64, 1, "threads that wait for the log, woken under one lock")           \
    X(undo_chunk, 1048576, 1, "bytes of promised log that a worker takes at once")           \
    X(intents, 32, 1, "objects that a transaction notes; further ones take real locks")      \
    X(lock_yields, 16, 1, "yields to holders that only need the CPU")                        \
    X(lock_buckets_sampled, 128, 1, "buckets of the lock table looked at in one look")       \
    X(lock_looks, 8, 1, "looks before the lock table's size is decided")                     \
    X(lock_buckets_moved, 512, 1, "pairs of buckets moved in one look")                      \
    X(lock_chunks_searched, 4, 1, "chunks of names searched for one that is given up")       \
    X(prepared_objects, 4096, 1, "objects in one record of locks of a prepared transaction") \
    X(prepared_names, 16384, 1, "names in one record of locks of a prepared transaction")    \
    X(runs_left, 8, 1, "groups of aborted runs that a new run frees")                        \
    X(versions_relieved, 256, 1, "versions that a writer looks at when memory is short")     \
    X(versions_cleared, 1024, 1, "groups that the end of a period frees between two yields") \
    X(version_group, 1024, 1, "bytes of versions in one group")                              \
    X(versions_swept, 2048, 1, "versions that the cleaner looks at between two yields")      \
    X(keys_swept, 128, 4, "erased keys that the cleaner looks at under their lock")          \
    X(erased_found, 128, 1, "erased keys that a snapshot's scan takes at once")              \
    X(fault_goal, 8, 1, "frames that a fault frees when none is left")                       \
    X(cleaner_goal, 128, 1, "frames that a cleaner frees between two looks")                 \
    X(write_batch, 64, 1, "pages that are written together")                                 \
    X(read_ahead, 64, 1, "pages of a worker that are being read ahead")                      \
    X(lsn_blocks_written, 16, 1, "blocks of written lsns that are written together")         \
    X(lsn_blocks_read, 32, 1, "blocks of written lsns that are read together")               \
    X(pages_swept, 1024, 1, "pages that an open sweeps between two yields")                  \
    X(overflow_group, 8, 1, "pages of a large value in one record")                          \
    X(bulk_group, 8, 1, "pages of a bulk load in one record")                                \
    X(insert_run, 16, 1, "records of insert_many() in one log record")                       \
    X(get_group, 16, 1, "rows of get_many() that are walked together")                       \
    X(modify_group, 16, 1, "rows of modify_many() that are walked together")                 \
    X(chains_freed, 32, 1, "chains that leave the drop list together")                       \
    X(notes_of_help, 4, 1, "notes of ghosts that a writer works off")                        \
    X(leaves_of_round, 256, 1, "leaves of a round that looks for refused notes")             \
    X(build_leaves, 64, 1, "leaves of a batch that builds a secondary index")                \
    X(build_batches, 8, 1, "batches of such a build on their way")                           \
    X(roots_ahead, 64, 1, "roots that are read together after an open")                      \
    X(scan_ahead, 32, 2, "pages of a heap that a scan has read ahead")                       \
    X(empty_slots_tried, 4, 1, "empty slots of a heap page whose locks are tried")           \
    X(heap_candidates, 4, 1, "pages of a heap tried for a record")                           \
    X(restored_run, 128, 1, "pages of a restore that are written together")                  \
    X(restored_growth, 32, 1, "pages by which a restored file grows")

namespace lockstep::limits {

// The values as built: sizes of arrays.
namespace most {
#define X(name, value, least, what) inline constexpr uint32_t name = value;
LOCKSTEP_LIMITS(X)
#undef X
}  // namespace most

enum class Limit : uint32_t {
#define X(name, value, least, what) name,
    LOCKSTEP_LIMITS(X)
#undef X
        kCount
};
inline constexpr uint32_t kCount = static_cast<uint32_t>(Limit::kCount);

struct Range {
    std::string_view name;
    uint32_t least, most;
};
inline constexpr Range kRanges[kCount] = {
#define X(name, value, least, what) {#name, least, value},
    LOCKSTEP_LIMITS(X)
#undef X
};

#define X(name, value, least, what) static_assert(0 < (least) && (least) < (value));
LOCKSTEP_LIMITS(X)
#undef X

#ifdef LOCKSTEP_DRAWN_LIMITS

inline constexpr bool kDrawn = true;
inline uint32_t values[kCount] = {
#define X(name, value, least, what) value,
    LOCKSTEP_LIMITS(X)
#undef X
};
#define X(name, value, least, what) \
    inline uint32_t name() { return values[static_cast<uint32_t>(Limit::name)]; }
LOCKSTEP_LIMITS(X)
#undef X

// See Sharing.
inline void set(Limit limit, uint32_t value) {
    const Range& range = kRanges[static_cast<uint32_t>(limit)];
    CHECK(value >= range.least && value <= range.most);
    values[static_cast<uint32_t>(limit)] = value;
}
inline void reset() {
    for (uint32_t i = 0; i < kCount; ++i) values[i] = kRanges[i].most;
}
// Half of the limits stay as they are. Of the others, half become one of the four smallest values.
inline void draw(Rng rng) {
    reset();
    for (uint32_t i = 0; i < kCount; ++i) {
        const Range& range = kRanges[i];
        const uint64_t above = range.most - range.least;
        const uint64_t small = above < 3 ? above : 3;
        const bool is_small = rng.chance(0.5), stays = rng.chance(0.5);
        const auto drawn = static_cast<uint32_t>(rng.below((is_small ? small : above) + 1));
        if (!stays) values[i] = range.least + drawn;
    }
}

#else

// Constants: the calls below do nothing.
inline constexpr bool kDrawn = false;
#define X(name, value, least, what) \
    constexpr uint32_t name() { return value; }
LOCKSTEP_LIMITS(X)
#undef X
inline void set(Limit limit, uint32_t value) {
    DCHECK(value >= kRanges[static_cast<uint32_t>(limit)].least);
}
inline void reset() {}
inline void draw(const Rng&) {}

#endif

// Those that differ from the built ones, as "name=value name=value".
inline std::string text() {
    std::string changed;
#ifdef LOCKSTEP_DRAWN_LIMITS
    for (uint32_t i = 0; i < kCount; ++i)
        if (values[i] != kRanges[i].most)
            changed += (changed.empty() ? "" : " ") + std::string(kRanges[i].name) + "=" +
                       std::to_string(values[i]);
#endif
    return changed;
}

}  // namespace lockstep::limits
