// file_rights.cc - reads and sets permissions and owners.
#include "threads/io/file_rights.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "threads/base/check.h"

namespace lockstep::threads {

std::optional<FileRights> FileRights::of(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0) return std::nullopt;
    DCHECK(S_ISREG(status.st_mode));
    FileRights rights{.mode = (status.st_mode & 0666) | 0600, .owner = {}};
    if (geteuid() == 0) rights.owner = {status.st_uid, status.st_gid};
    return rights;
}

int FileRights::give(int fd, uint32_t wanted_mode) const {
    DCHECK((wanted_mode & ~0777u) == 0);
    struct stat status {};
    if (fstat(fd, &status) != 0) return errno;
    const auto error_of = [](int result) {
        if (result == 0 || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return 0;
        return errno;
    };
    int error = 0;
    if (owner && (status.st_uid != owner->user || status.st_gid != owner->group))
        error = error_of(fchown(fd, owner->user, owner->group));
    const mode_t inherited = status.st_mode & 07000;  // as a directory's set-group-id bit
    if (error == 0 && (status.st_mode & 0777) != wanted_mode)
        error = error_of(fchmod(fd, inherited | wanted_mode));
    return error;
}

}  // namespace lockstep::threads
