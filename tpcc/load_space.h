// load_space.h - whether a load fits on the disk, before it runs for hours.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/result.h>

namespace lockstep::tpcc {

struct LoadSpace {
    uint64_t data_bytes;
    uint64_t log_bytes;

    uint64_t sum() const { return data_bytes + log_bytes; }
};

// What a load takes on disk at most times, measured. `log_bytes_max` is the store's log_bytes.
LoadSpace load_space(uint32_t warehouses, uint64_t log_bytes_max);

// Error: no_space if `directory` has less for the load. Never fails if the system does not say how
// much is free. Does not park.
Result<void> require_load_space(const std::string& directory, uint32_t warehouses,
                                uint64_t log_bytes_max);

}  // namespace lockstep::tpcc
