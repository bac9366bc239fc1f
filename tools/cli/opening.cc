// opening.cc - how sub-commands open a store.
#include "tools/cli/opening.h"

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "threads/io/io.h"
#include "tools/base/option_checks.h"
#include "tools/base/say.h"
#include "tools/cli/backup_directory.h"

namespace lockstep::cli {
namespace {

// What is not there may be made.
Result<void> require_access(const std::string& path) {
    if (path == threads::kMemoryPath)
        return fail_with(ErrorCode::bad_path, "store in memory",
                         "it would be gone when this command ends; name a directory");
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

static Result<Store> open_as(const std::string& path, const OpenHow& how, bool read_only) {
    Options options;
    options.create = how.create;
    options.read_only = read_only;
    options.pool_bytes = how.pool_bytes;
    options.workers = how.workers;
    options.archive = how.archive;
    if (how.log_segment_bytes != 0) {
        options.log_segment_bytes = how.log_segment_bytes;
        options.log_bytes = std::max(options.log_bytes, 4 * how.log_segment_bytes);
    }
    options.stack_bytes = 256 * 1024;      // callbacks format and parse text
    options.slice_warning = std::nullopt;  // they also wait for files
    options.logger = [](int level, std::string_view text) {
        say_error("{}: {}\n", level == 0 ? "error" : "note", text);
    };
    return Store::open(path, options);
}

Result<Store> open_store(const std::string& path, const OpenHow& how) {
    TRY(require_access(path));
    TRY(refuse_backup(path));
    if (!how.create) TRY(require_store(path));
    return open_as(path, how, false);
}

Result<Store> open_to_look(const std::string& path, const OpenHow& how, bool reads) {
    TRY(require_access(path));
    TRY(refuse_backup(path));
    TRY(require_store(path));
    const bool writable =
        ::access(path.c_str(), W_OK) == 0 && ::access((path + "/data").c_str(), W_OK) == 0;
    if (writable && (how.archive || !reads || is_restored(path))) return open_as(path, how, false);
    auto store = open_as(path, how, true);
    if (store || store.error().code != ErrorCode::not_closed) return store;
    if (writable) return open_as(path, how, false);
    return fail_with(ErrorCode::not_closed, "the store was not closed",
                     path +
                         ": to read it, its log must be applied, and its files must not be "
                         "written; let a user who may write them run the command");
}

Result<Store> open_copy(const std::string& path) { return open_as(path, {}, false); }

bool lies_in(const std::string& path, const std::string& directory) {
    namespace fs = std::filesystem;
    if (path.empty() || path == "-") return false;  // standard output
    std::error_code error;
    const fs::path above = fs::weakly_canonical(directory, error);
    const fs::path below = fs::weakly_canonical(path, error);
    const auto [rest, unused] =
        std::mismatch(above.begin(), above.end(), below.begin(), below.end());
    return !error && rest == above.end();
}

std::string text_of_failed_open(const std::string& path, const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    const bool damaged = error.code == ErrorCode::corrupt_log ||
                         error.code == ErrorCode::corrupt_page ||
                         error.code == ErrorCode::corrupt_superblock;
    if (error.code == ErrorCode::store_locked)
        return error.text() +
               "; commands that only look read a copy of a store that is open (Options::control) "
               "with --live, and `lockstep backup " +
               path + " DIR` makes one that stays";
    if (!damaged) return error.text();
    return error.text() + "; `lockstep restore` makes a store of a backup, and `lockstep salvage " +
           path + "` saves what its data file has";
}

void add_archive_option(CLI::App& command, std::optional<std::string>& archive) {
    DCHECK(!archive);
    command
        .add_option("--archive", archive,
                    "The store's log archive: a directory (Options::archive). Without it, an "
                    "archived store may get a gap in its archive")
        ->check(kNotEmpty);
}

uint32_t cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<uint32_t>(std::clamp(CPU_COUNT(&set), 1, 64));
}

}  // namespace lockstep::cli
