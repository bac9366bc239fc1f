// opening.cc - how sub-commands open a store.
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>

#include "tools/cli/opening.h"

namespace lockstep::cli {

Result<Store> open_store(const std::string& path, const OpenHow& how) {
    Options options;
    options.create = how.create;
    options.pool_bytes = how.pool_bytes;
    options.workers = how.workers;
    options.archive = how.archive;
    if (how.log_segment_bytes != 0) {
        options.log_segment_bytes = how.log_segment_bytes;
        options.log_bytes = std::max(options.log_bytes, 4 * how.log_segment_bytes);
    }
    options.stack_bytes = 256 * 1024;  // callbacks format and parse text
    options.slice_warning = 0;         // they also wait for files
    options.logger = [](int level, std::string_view text) {
        fmt::print(stderr, "{}: {}\n", level == 0 ? "error" : "note", text);
    };
    return Store::open(path, options);
}

uint32_t cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<uint32_t>(std::clamp(CPU_COUNT(&set), 1, 64));
}

}  // namespace lockstep::cli
