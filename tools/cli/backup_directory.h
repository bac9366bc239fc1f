// backup_directory.h - what commands see of a directory that has the file `backup`.
//
// Concepts   The first open of a complete backup makes a store of it, and it is a backup no longer.
//            So the commands that open a store refuse a backup. What a restore has made is a backup
//            too until its first open, but it is meant to be opened, and says so. An update makes
//            a backup of it.
// Blocking   Blocks the kernel thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <lockstep/backup.h>

namespace lockstep::cli {

bool is_backup(const std::string& directory);
// What a restore has made, and nobody has opened yet.
bool is_restored(const std::string& directory);

// Error: bad_path, if the directory is a backup that no restore has made, or what read_backup()
// says of it.
Result<void> refuse_backup(const std::string& directory);

// Deletes the directory. The file `backup` goes last, so what a kill leaves is still known as a
// backup, and a later call deletes the rest. Error: what could not be deleted, and why.
Result<void> delete_backup(const std::string& directory);

nlohmann::ordered_json json_of(const BackupInfo& backup);

}  // namespace lockstep::cli
