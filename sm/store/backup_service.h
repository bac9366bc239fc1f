// backup_service.h - a backup for parts of the store that have its engine.
#pragma once

#include <string_view>

#include <lockstep/backup.h>

namespace lockstep::sm {

class Engine;

// Store::backup(directory, options) on a user thread of the store. Parks.
Result<BackupInfo> backup_to_directory(Engine& engine, std::string_view directory,
                                       const BackupOptions& options);

}  // namespace lockstep::sm
