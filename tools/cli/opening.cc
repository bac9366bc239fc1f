// opening.cc - how sub-commands open a store.
#include "tools/cli/opening.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "tools/cli/backup_directory.h"
#include "tpcc/say.h"

namespace lockstep::cli {
namespace {

// What is not there may be made.
Result<void> require_access(const std::string& path) {
    const std::string data = path + "/data";
    if (::access(data.c_str(), R_OK) == 0 || errno != EACCES) return {};
    Unexpected refused = fail_os(ErrorCode::bad_path, EACCES, "no permission");
    set_error_detail(refused.error(), data);
    return refused;
}

}  // namespace

Result<void> require_store(const std::string& path) {
    TRY(require_access(path));
    if (::access((path + "/data").c_str(), F_OK) == 0) return {};
    return fail_with(ErrorCode::bad_path, "no store", path + " holds no store; check the path");
}

Result<Store> open_store(const std::string& path, const OpenHow& how) {
    TRY(require_access(path));
    TRY(refuse_backup(path));
    if (!how.create) TRY(require_store(path));
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
        tpcc::say_error("{}: {}\n", level == 0 ? "error" : "note", text);
    };
    return Store::open(path, options);
}

uint32_t cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<uint32_t>(std::clamp(CPU_COUNT(&set), 1, 64));
}

}  // namespace lockstep::cli
