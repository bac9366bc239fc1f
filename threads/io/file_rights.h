// file_rights.h - permissions and owner of the files that a disk makes.
//
// Concepts   A store's files are for its owner alone, or for whom its first file is. Files that are
//            made later get the same, whatever the umask of that process is. A process with the
//            rights of root, such as an operator's tool, leaves files that the store's own user
//            can open.
// Blocking   Never.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>

namespace lockstep::threads {

struct FileOwner {
    uint32_t user = 0;
    uint32_t group = 0;
};

struct FileRights {
    uint32_t mode = 0600;  // within 0666
    // nullopt: the process's own.
    std::optional<FileOwner> owner = {};

    // Those of the open file; `owner` only if this process may give files away. Error: errno.
    static std::optional<FileRights> of(int fd);
    // Who may read a file may enter its directory.
    uint32_t directory_mode() const { return mode | (mode & 0444) >> 2; }
    // Whether it has another owner.
    bool is_foreign(const struct stat& status) const {
        return owner && (status.st_uid != owner->user || status.st_gid != owner->group);
    }
    // Of a new file. 0, or errno. File systems that keep no rights are left alone.
    int give_file(int fd) const;
    // Of a new directory with that name in the open directory `in`, or AT_FDCWD.
    int give_directory(int in, const char* name) const;
};

}  // namespace lockstep::threads
