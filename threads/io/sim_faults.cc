// sim_faults.cc - draws faults.
#include "threads/io/sim_faults.h"

namespace lockstep::threads {

const char* sim_fault_name(SimFault fault) {
    static constexpr const char* kNames[] = {
        "read_error",        "read_error_forever", "write_error",       "sync_error",
        "no_space_allocate", "no_space_write",     "short_transfer",    "again",
        "bit_flip",          "lost_write",         "misdirected_write", "slow",
        "rename_error",      "unlink_error",       "torn_read"};
    static_assert(std::size(kNames) == static_cast<size_t>(SimFault::kCount));
    return kNames[static_cast<size_t>(fault)];
}

SimFaults::SimFaults(uint64_t seed) : shape_(seed ^ 0x5851f42d4c957f2d) {
    for (size_t i = 0; i < kinds_.size(); ++i)
        kinds_[i].rng = Rng(seed + 0x9e3779b97f4a7c15 * (i + 1));
}

void SimFaults::fail_nth(SimFault fault, uint64_t n, uint64_t count) {
    DCHECK(fault < SimFault::kCount && n > 0 && count > 0);
    Kind& kind = of(fault);
    kind.from = kind.seen + n;
    kind.until = count > UINT64_MAX - kind.from ? UINT64_MAX : kind.from + count;
}

bool SimFaults::strikes(SimFault fault, std::string_view path) {
    if (!enabled_) return false;
    Kind& kind = of(fault);
    if (!kind.path_part.empty() && path.find(kind.path_part) == std::string_view::npos)
        return false;
    if (!path.ends_with(kind.path_end)) return false;
    ++kind.seen;
    const bool by_number = kind.seen >= kind.from && kind.seen < kind.until;
    const bool by_chance = kind.odds > 0 && kind.rng.chance(kind.odds);
    if (!by_number && !by_chance) return false;
    ++kind.count;
    return true;
}

}  // namespace lockstep::threads
