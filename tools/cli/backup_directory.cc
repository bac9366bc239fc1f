// backup_directory.cc - looks for the file `backup` and the mark beside it.
#include "tools/cli/backup_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sm/backup/backup_manifest.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::cli {
namespace {

bool exists(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

std::string mark_of(const std::string& directory) { return directory + "/" + kRestoredName; }

}  // namespace

bool is_backup(const std::string& directory) { return exists(directory + "/" + sm::kManifestName); }

bool is_restored(const std::string& directory) {
    return is_backup(directory) && exists(mark_of(directory));
}

Result<void> mark_restored(const std::string& directory) {
    const int fd = ::open(mark_of(directory).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return fail_os(ErrorCode::io_error, errno, "file restored");
    ::close(fd);
    return {};
}

Result<void> unmark_restored(const std::string& directory) {
    if (::unlink(mark_of(directory).c_str()) == 0 || errno == ENOENT) return {};
    return fail_os(ErrorCode::io_error, errno, "file restored");
}

Result<void> refuse_backup(const std::string& directory) {
    if (!is_backup(directory) || is_restored(directory)) return {};
    const BackupInfo backup = TRY(read_backup(directory));
    const bool full = backup.since == kLsnNone;
    return fail_with(ErrorCode::bad_path,
                     full ? "a full backup: an open would end it" : "an incremental backup",
                     fmt::format("`lockstep verify-backup {}` checks it, and `lockstep restore` "
                                 "makes a store of it",
                                 directory));
}

nlohmann::ordered_json json_of(const BackupInfo& b) {
    return {{"lsn", b.lsn.value},
            {"redo_from", b.redo_from.value},
            {"since", b.since.value},
            {"pages", b.pages},
            {"pages_copied", b.pages_copied},
            {"pages_zeroed", b.pages_zeroed},
            {"bytes", b.bytes},
            {"log_bytes", b.log_bytes},
            {"took_nanos", b.time},
            {"ended_at_nanos", b.ended_at},
            {"history", fmt::format("{:016x}", b.history)}};
}

}  // namespace lockstep::cli
