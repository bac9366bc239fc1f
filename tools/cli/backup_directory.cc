// backup_directory.cc - looks at the file `backup`.
#include "tools/cli/backup_directory.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"
#include "threads/io/io.h"

namespace lockstep::cli {

bool is_backup(const std::string& directory) {
    struct stat status {};
    return ::stat((directory + "/" + sm::kManifestName).c_str(), &status) == 0;
}

bool is_restored(const std::string& directory) {
    if (!is_backup(directory)) return false;
    const auto disk = threads::make_disk(threads::IoBackend::pool);
    const auto manifest = sm::read_manifest(*disk, directory);
    return manifest && manifest->restored != 0;
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

Result<void> delete_backup(const std::string& directory) {
    namespace fs = std::filesystem;
    DCHECK(is_backup(directory));
    std::error_code error;
    fs::path at = directory;
    std::vector<fs::path> files;
    for (fs::directory_iterator entry(at, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->path().filename() != sm::kManifestName) files.push_back(entry->path());
    files.push_back(at / sm::kManifestName);
    files.push_back(at);
    for (size_t i = 0; !error && i < files.size(); ++i) fs::remove_all(at = files[i], error);
    if (!error) return {};
    Unexpected failed = fail_os(ErrorCode::io_error, error.value(), "delete a backup");
    set_error_detail(failed.error(), at.string() + " cannot be deleted");
    return failed;
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
