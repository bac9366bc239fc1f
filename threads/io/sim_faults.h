// sim_faults.h - injected faults of a simulated disk: by odds or at the n-th opportunity, for all
// files or some.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "threads/base/check.h"
#include "threads/base/rng.h"

namespace lockstep::threads {

enum class SimFault : uint8_t {
    read_error,          // EIO once
    read_error_forever,  // EIO for this sector until it is written again
    write_error,         // EIO; a part of the bytes may have been written
    sync_error,          // EIO; the durability of what it covered stays unknown
    no_space_allocate,   // ENOSPC from allocate
    no_space_write,      // ENOSPC from a write
    short_transfer,      // a part moves, the queue continues later
    again,               // EAGAIN; the queue retries
    bit_flip,            // a read returns one wrong bit; the disk's bytes are right
    lost_write,          // acknowledged, but no byte is written
    misdirected_write,   // bytes go to another place in the same file
    slow,                // takes 100 times as long
    rename_error,        // EIO from rename, which changes nothing; its path is the new name
    unlink_error,        // EIO from unlink, which changes nothing
    torn_read,           // a read beside a write in flight: each sector as before or after it
    kCount
};
const char* sim_fault_name(SimFault fault);

class SimFaults {
public:
    explicit SimFaults(uint64_t seed);
    // Probability that an opportunity fails, 0..1. Each kind has its own random stream.
    void set_odds(SimFault fault, double odds) {
        DCHECK(odds >= 0 && odds <= 1);
        of(fault).odds = odds;
    }
    // The n-th opportunity from now (1 = the next) and `count - 1` after it fail.
    void fail_nth(SimFault fault, uint64_t n, uint64_t count = 1);
    // Only files whose path contains `part` give opportunities; empty: all files.
    void only_paths_with(SimFault fault, std::string part) {
        of(fault).path_part = std::move(part);
    }
    // Only files whose path ends with `end`.
    void only_paths_ending_with(SimFault fault, std::string end) {
        of(fault).path_end = std::move(end);
    }
    // off: no faults; counters and streams do not advance.
    void enable(bool on) { enabled_ = on; }
    uint64_t count(SimFault fault) const { return kinds_[static_cast<size_t>(fault)].count; }

    // For the disk: reports an opportunity. True if it must fail.
    bool strikes(SimFault fault, std::string_view path);
    // Random numbers that shape a fault.
    Rng& shape() { return shape_; }

private:
    struct Kind {
        double odds = 0;
        uint64_t seen = 0;
        uint64_t from = 0, until = 0;  // opportunities [from, until) fail
        uint64_t count = 0;
        std::string path_part, path_end;
        Rng rng{0};
    };
    Kind& of(SimFault fault) { return kinds_[static_cast<size_t>(fault)]; }

    std::array<Kind, static_cast<size_t>(SimFault::kCount)> kinds_;
    Rng shape_;
    bool enabled_ = true;
};

}  // namespace lockstep::threads
