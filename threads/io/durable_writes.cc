// durable_writes.cc - the list of file systems that honour RWF_DSYNC.
#include "threads/io/durable_writes.h"

#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace lockstep::threads {
namespace {

constexpr uint64_t kXfs = 0x58465342;  // not in linux/magic.h of all versions

// Each of them ends its write in generic_write_sync() or does the same itself, also for a direct
// write. Nothing survives on tmpfs and ramfs in any case. Left out on purpose: overlayfs hands the
// request to a file system that statfs() does not name. NFS, 9P, Ceph and SMB leave it to a server.
// FUSE and virtiofs share one magic number and drop the request. ZFS is not part of the kernel.
constexpr uint64_t kHonouring[] = {
    EXT4_SUPER_MAGIC,  // ext2 and ext3 as well
    kXfs,
    BTRFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    TMPFS_MAGIC,
    RAMFS_MAGIC,
};

// An emulator or a sandbox may refuse the system call with which a write asks for durability. Where
// it does not, the missing file is the error.
bool can_ask() { return pwritev2(-1, nullptr, 0, 0, RWF_DSYNC) < 0 && errno == EBADF; }

}  // namespace

bool honours_durable_writes(uint64_t magic) {
    return std::ranges::find(kHonouring, magic) != std::end(kHonouring);
}

bool durable_writes_need_sync(int fd) {
    struct statfs status {};
    // f_type is signed and 32 bits wide on some systems.
    return !can_ask() || fstatfs(fd, &status) != 0 ||
           !honours_durable_writes(static_cast<uint32_t>(status.f_type));
}

}  // namespace lockstep::threads
