// file_rights.cc - reads and sets permissions and owners.
#include "threads/io/file_rights.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "threads/base/check.h"

namespace lockstep::threads {

namespace {

// Of a call that a file system may know nothing of.
int error_of(int result) {
    if (result == 0 || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return 0;
    return errno;
}

}  // namespace

std::optional<FileRights> FileRights::of(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0) return std::nullopt;
    DCHECK(S_ISREG(status.st_mode));
    FileRights rights{.mode = (status.st_mode & 0666) | 0600, .owner = {}};
    if (geteuid() == 0) rights.owner = {status.st_uid, status.st_gid};
    return rights;
}

int FileRights::give_file(int fd) const {
    DCHECK((mode & ~0666u) == 0);
    struct stat status {};
    if (fstat(fd, &status) != 0) return errno;
    int error = 0;
    if (is_foreign(status)) error = error_of(fchown(fd, owner->user, owner->group));
    if (error == 0 && (status.st_mode & 0777) != mode) error = error_of(fchmod(fd, mode));
    return error;
}

int FileRights::give_directory(int in, const char* name) const {
    struct stat status {};
    if (fstatat(in, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    DCHECK(S_ISDIR(status.st_mode));
    int error = 0;
    if (is_foreign(status))
        error = error_of(fchownat(in, name, owner->user, owner->group, AT_SYMLINK_NOFOLLOW));
    const mode_t inherited = status.st_mode & 07000;  // as the set-group-id bit
    if (error == 0 && (status.st_mode & 0777) != directory_mode())
        error = error_of(fchmodat(in, name, inherited | directory_mode(), 0));
    return error;
}

}  // namespace lockstep::threads
