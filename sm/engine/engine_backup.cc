// engine_backup.cc - backups of the open store: counted, and noted in the archive.
#include <filesystem>

#include "sm/backup/archiver.h"
#include "sm/backup/backup.h"
#include "sm/backup/backup_target.h"
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

Result<BackupInfo> Engine::backup(BackupTarget& target, const BackupOptions& options,
                                  const std::function<bool()>& abandoned) {
    DCHECK(on_own_thread());
    auto info = make_backup(*this, target, options, [&]() -> Result<void> {
        if (abandoned && abandoned())
            return fail(ErrorCode::cancelled, "backup: its client has closed the connection");
        if (closing()) return fail(ErrorCode::store_closed, "store closes during a backup");
        return {};
    });
    if (!info) {
        backup_failures.fetch_add(1, std::memory_order_relaxed);
        return info;
    }
    backups.fetch_add(1, std::memory_order_relaxed);
    backup_bytes.fetch_add(info->bytes, std::memory_order_relaxed);
    return info;
}

Result<BackupInfo> Engine::backup(std::string_view to, const BackupOptions& backup_options,
                                  const std::function<bool()>& abandoned) {
    DCHECK(on_own_thread());
    const TestHooks* hooks = options.test_hooks;
    if ((!hooks || !hooks->disk) && lies_within(to, directory.path()))
        return fail_with(ErrorCode::bad_path, "backup: the target lies in the store's directory",
                         std::string(to) + "; name one outside of " + directory.path());
    // A disk of its own: what it learns of the target's file system does not concern the store.
    const std::unique_ptr<threads::Disk> own =
        hooks && hooks->disk ? nullptr : threads::make_disk(threads::IoBackend::pool);
    if (own) TRY(own->make_files_like(data_file));
    DirectoryTarget target(own ? *own : *disk, std::string(to));
    const auto info = backup(target, backup_options, abandoned);
    if (!info || !options.archive) return info;
    // The archive knows a backup by its point. The earlier one has it already.
    if (info->since == info->lsn) return info;
    std::error_code error;
    const std::string path = std::filesystem::absolute(target.path(), error).string();
    const auto noted = note_backup(*archive, superblock, info->lsn, path, options.sync);
    if (!noted)
        report(1, "the archive does not know the backup in " + path +
                      ", and pages are not rebuilt from it: " + noted.error().text());
    return info;
}

}  // namespace lockstep::sm
