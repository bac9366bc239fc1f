// sim_faults.h - when a simulated disk misbehaves: by odds, or at the n-th opportunity, for all
// files or some.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "threads/base/rng.h"

namespace lockstep::threads {

enum class SimFault : uint8_t {
    read_error,          // EIO once
    read_error_forever,  // EIO for this sector until it is written again
    write_error,         // EIO; a part of the bytes may have been written
    sync_error,          // EIO; what the sync covered may or may not be durable, for ever
    no_space_allocate,   // ENOSPC from allocate
    no_space_write,      // ENOSPC from a write
    short_transfer,      // a part moves, the queue goes on later
    again,               // EAGAIN, tried again by the queue
    bit_flip,            // a read returns one wrong bit; the disk's bytes are right
    lost_write,          // acknowledged, and nothing of it arrives
    misdirected_write,   // bytes land at another place of the same file
    slow,                // takes 100 times as long
    kCount
};
const char* sim_fault_name(SimFault fault);

class SimFaults {
public:
    explicit SimFaults(uint64_t seed);
    // Chance that an opportunity is taken, 0..1. Each kind has its own random stream.
    void set_odds(SimFault fault, double odds) { of(fault).odds = odds; }
    // The n-th opportunity from now (1 = the next) and `count - 1` after it fail.
    void fail_nth(SimFault fault, uint64_t n, uint64_t count = 1);
    // Only files whose path contains `part` give opportunities; empty: all files.
    void only_paths_with(SimFault fault, std::string part) {
        of(fault).path_part = std::move(part);
    }
    // Only files whose path ends so.
    void only_paths_ending_with(SimFault fault, std::string end) {
        of(fault).path_end = std::move(end);
    }
    // off: no faults, counters and streams stand still.
    void enable(bool on) { enabled_ = on; }
    uint64_t count(SimFault fault) const { return kinds_[static_cast<size_t>(fault)].count; }

    // For the disk: an opportunity; true if it is to fail.
    bool strikes(SimFault fault, std::string_view path);
    // Random numbers to shape a fault with.
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
