// backup_directory.h - what commands see of a directory that has the file `backup`.
//
// Concepts   The first open of a complete backup makes a store of it, and it is a backup no longer.
//            So the commands that open a store refuse a backup. What `lockstep restore` has made
//            is a backup too until its first open, but a copy of others, which stay. The file
//            `restored` marks it, and commands may open it.
// Blocking   Blocks the kernel thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <lockstep/backup.h>

namespace lockstep::cli {

// Of the mark in a directory that restore has made.
inline constexpr const char* kRestoredName = "restored";

bool is_backup(const std::string& directory);
// A backup that has the mark.
bool is_restored(const std::string& directory);
// Makes the mark, or removes it where there is one. Errors: io_error.
Result<void> mark_restored(const std::string& directory);
Result<void> unmark_restored(const std::string& directory);

// Error: bad_path, if the directory is a backup without the mark, or what read_backup() says of it.
Result<void> refuse_backup(const std::string& directory);

nlohmann::ordered_json json_of(const BackupInfo& backup);

}  // namespace lockstep::cli
