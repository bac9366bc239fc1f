// backup_files.cc - what can be asked of a backup that lies on this machine.
#include <lockstep/backup.h>

#include <memory>

#include "sm/backup/backup_manifest.h"
#include "sm/backup/restore.h"
#include "sm/backup/update_backup.h"

namespace lockstep {

Result<BackupInfo> read_backup(std::string_view directory) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    return TRY(sm::read_manifest(*disk, threads::Directory::opened(*disk, directory))).info();
}

Result<BackupInfo> restore_backup(std::span<const std::string> backups, std::string_view to,
                                  const RestoreOptions& options) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    return sm::restore_on(*disk, backups, std::string(to), options, threads::CopySteps::overlap);
}

Result<std::vector<std::string>> verify_restore(std::span<const std::string> backups,
                                                const RestoreOptions& options) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    return sm::verify_on(*disk, backups, options, threads::CopySteps::overlap);
}

Result<BackupInfo> update_backup(std::string_view full, std::string_view next) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    return sm::update_on(*disk, std::string(full), std::string(next), threads::CopySteps::overlap);
}

}  // namespace lockstep
