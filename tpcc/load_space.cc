// load_space.cc - what a load needs on disk, beside what the file system has.
#include "tpcc/load_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "tools/base/say.h"
#include "tpcc/settings.h"

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kMegabyte = 1ull << 20;
// Of each warehouse, behind a load of 20: 83 MB of data, and 74 MB of log before checkpoints free
// it. A little less: an estimate must not refuse what would fit.
constexpr uint64_t kDataBytes = 80 * kMegabyte, kLogBytes = 70 * kMegabyte;

}  // namespace

LoadSpace load_space(uint32_t warehouses, uint64_t log_bytes_max) {
    DCHECK(warehouses > 0 && log_bytes_max > 0);
    return {warehouses * kDataBytes, std::min(warehouses * kLogBytes, log_bytes_max)};
}

Result<void> require_load_space(const std::string& directory, uint32_t warehouses,
                                uint64_t log_bytes_max) {
    const LoadSpace needed = load_space(warehouses, log_bytes_max);
    std::error_code error;
    const std::filesystem::space_info disk = std::filesystem::space(directory, error);
    if (error || disk.available >= needed.sum()) return {};
    return fail_with(
        ErrorCode::no_space, "load",
        fmt::format("{} take about {}: {} of data and {} of log; the file system has {} free; give "
                    "fewer with --warehouses, or a directory on another disk with --path",
                    count_text(warehouses, "warehouse"), format_size(needed.sum()),
                    format_size(needed.data_bytes), format_size(needed.log_bytes),
                    format_size(disk.available)));
}

}  // namespace lockstep::tpcc
