// backup_service.h - a backup for parts of the store that have its engine.
#pragma once

#include <functional>
#include <string_view>

#include <lockstep/backup.h>

namespace lockstep::sm {

class Engine;

// Store::backup(directory, options) on a user thread of the store. Parks. Once `abandoned` is true,
// the backup ends with the error cancelled, and what it has written is removed.
Result<BackupInfo> backup_to_directory(Engine& engine, std::string_view directory,
                                       const BackupOptions& options,
                                       const std::function<bool()>& abandoned = {});

}  // namespace lockstep::sm
