// posix_disk.cc - names, sizes and blocking transfers on the machine's file system; chooses the
// backend.
#include "threads/io/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <lockstep/clock.h>
#include "threads/base/error_detail.h"
#include "threads/base/mutants.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/durable_writes.h"
#include "threads/io/lock_holder.h"
#include "threads/io/under_valgrind.h"
#include "threads/io/uring_queue.h"

namespace lockstep::threads {
namespace {

constexpr size_t kBounceBytes = 1u << 20;

// Repeats the call while it is interrupted. The result, or -errno.
template <class Call>
int64_t retry(Call call) {
    int64_t result = 0;
    do {
        result = call();
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : result;
}

bool is_direct(FileId file) { return (fcntl(file.value, F_GETFL) & O_DIRECT) != 0; }

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kIoAlignment == 0; }

// The whole range, or up to the end of the file.
Result<size_t> read_all(FileId file, uint64_t offset, std::byte* data, size_t bytes) {
    size_t moved = 0;
    while (moved < bytes) {
        const size_t want = std::min(bytes - moved, kTransferMax);
        const int64_t n = retry([&] {
            return pread(file.value, data + moved, want, static_cast<off_t>(offset + moved));
        });
        if (n == 0 || (n == -EINVAL && moved % kSectorBytes != 0)) break;
        if (n < 0 && n != -EAGAIN) return fail_file(static_cast<int>(-n), "read", offset, bytes);
        if (n > 0) moved += static_cast<size_t>(n);
    }
    return moved;
}

Result<void> write_all(FileId file, uint64_t offset, const std::byte* data, size_t bytes) {
    for (size_t moved = 0; moved < bytes;) {
        const size_t want = std::min(bytes - moved, kTransferMax);
        const int64_t n = retry([&] {
            return pwrite(file.value, data + moved, want, static_cast<off_t>(offset + moved));
        });
        if (n == 0) return fail_file(EIO, "write", offset, bytes);
        if (n < 0 && n != -EAGAIN) return fail_file(static_cast<int>(-n), "write", offset, bytes);
        if (n > 0) moved += static_cast<size_t>(n);
    }
    return {};
}

// Writes zeros where the file system cannot reserve blocks.
Result<void> write_zeros(FileId file, uint64_t from, uint64_t to) {
    const AlignedBuffer zeros = TRY(make_aligned_buffer(kBounceBytes));
    for (uint64_t at = from; at < to;) {
        const size_t bytes = static_cast<size_t>(std::min<uint64_t>(kBounceBytes, to - at));
        TRY(write_all(file, at, zeros.get(), bytes));
        at += bytes;
    }
    return {};
}

// fail_file() with the file's name.
[[gnu::cold]] Unexpected fail_path(int err, const char* what, const std::string& path) {
    DCHECK(what != nullptr);
    Error error = fail_file(err, what).error();
    set_error_detail(error, path);
    return Unexpected(error);
}

}  // namespace

std::unexpected<Error> fail_file(int err, const char* what, uint64_t a, uint64_t b) {
    DCHECK(err > 0);
    switch (err) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return fail_os(ErrorCode::no_space, err, what, a, b);
        case ENOMEM: return fail_os(ErrorCode::out_of_memory, err, what, a, b);
        case EMFILE:
        case ENFILE: return fail_os(ErrorCode::too_many, err, what, a, b);
        case ENOENT:
        case EACCES:
        case EPERM:
        case EROFS:
        case ENOTDIR:
        case EISDIR:
        case ENAMETOOLONG:
        case ELOOP:
        case EEXIST:
        case ENXIO:
        case ETXTBSY:
        case EXDEV:
        case ENOTEMPTY:
        case EBUSY: return fail_os(ErrorCode::bad_path, err, what, a, b);
        default: return fail_os(ErrorCode::io_error, err, what, a, b);
    }
}

Result<FileId> PosixDisk::open(std::string_view path, uint32_t flags) {
    const std::string name(path);
    DCHECK(!(flags & kReadOnly) || !(flags & (kCreate | kExclusive)));
    const int mode = (flags & kReadOnly ? O_RDONLY : O_RDWR) | O_CLOEXEC |
                     (flags & kCreate ? O_CREAT : 0) | (flags & kExclusive ? O_EXCL : 0);
    const auto open_with = [&](int more) {
        return retry([&] { return ::open(name.c_str(), mode | more, 0644); });
    };
    int64_t fd = open_with(flags & kDirect ? O_DIRECT : 0);
    // The refusal of O_DIRECT may come after the file was created. The second try must not take the
    // file for another process's.
    if (fd == -EINVAL && (flags & kDirect)) {
        fd = retry([&] { return ::open(name.c_str(), mode & ~O_EXCL, 0644); });
    }
    // In a process without standard streams, the kernel gives files the numbers of these. What any
    // code prints would then land in the file.
    if (fd >= 0 && fd <= STDERR_FILENO && !MUTANT(file_on_stderr)) {
        const auto low = static_cast<int>(fd);
        fd = retry([&] { return fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); });
        ::close(low);
        DCHECK(fd < 0 || fd > STDERR_FILENO);
    }
    if (fd < 0) return fail_path(static_cast<int>(-fd), "open", name);
    struct stat status {};
    if (fstat(static_cast<int>(fd), &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(static_cast<int>(fd));
        return fail_with(ErrorCode::bad_path, "open", name + " is not a regular file");
    }
    // Never reset: one switch for all files of the disk errs to the safe side.
    if (durable_writes_need_sync(static_cast<int>(fd)))
        syncs_->store(true, std::memory_order_relaxed);
    return FileId{static_cast<int32_t>(fd)};
}

void PosixDisk::close(FileId file) {
    DCHECK(file.value >= 0);
    {
        std::lock_guard lock(mutex_);
        if (std::erase(locked_, file.value) != 0) flock(file.value, LOCK_UN);
    }
    ::close(file.value);
}

Result<uint64_t> PosixDisk::size(FileId file) {
    struct stat status {};
    if (fstat(file.value, &status) != 0) return fail_file(errno, "file size");
    return static_cast<uint64_t>(status.st_size);
}

Result<void> PosixDisk::allocate(FileId file, uint64_t bytes) {
    const uint64_t before = TRY(size(file));
    if (bytes <= before) return {};
    const auto from = static_cast<off_t>(before);
    const int64_t result =
        retry([&] { return fallocate(file.value, 0, from, static_cast<off_t>(bytes - before)); });
    if (result == 0) return {};
    Result<void> done = fail_file(static_cast<int>(-result), "allocate", bytes);
    if (result == -EOPNOTSUPP || result == -ENOSYS) done = write_zeros(file, before, bytes);
    if (!done && ftruncate(file.value, from) != 0)
        return fail_file(errno, "allocate: undo", before);
    return done;
}

Result<void> PosixDisk::truncate(FileId file, uint64_t bytes) {
    const int64_t result = retry([&] { return ftruncate(file.value, static_cast<off_t>(bytes)); });
    if (result < 0) return fail_file(static_cast<int>(-result), "truncate", bytes);
    return {};
}

Result<void> PosixDisk::rename(std::string_view from, std::string_view to) {
    const std::string name(from);
    if (::rename(name.c_str(), std::string(to).c_str()) != 0)
        return fail_path(errno, "rename", name);
    return {};
}

Result<void> PosixDisk::unlink(std::string_view path) {
    const std::string name(path);
    if (::unlink(name.c_str()) != 0) return fail_path(errno, "unlink", name);
    return {};
}

// The entry of a new directory lies in its parent. A parent that may not be read cannot be synced.
Result<void> PosixDisk::make_directory(std::string_view path) {
    DCHECK(!path.empty());
    const std::string name(path);
    if (mkdir(name.c_str(), 0755) == 0) {
        if (MUTANT(parent_not_synced)) return {};
        const Result<void> synced = sync_directory(name + "/..");
        if (synced || synced.error().os == EACCES) return {};
        // Else the next call would find it, and sync nothing.
        if (!MUTANT(unsynced_directory_left)) (void)rmdir(name.c_str());
        return synced;
    }
    const int err = errno;
    DCHECK(err != 0);
    struct stat status {};
    if (err == EEXIST && stat(name.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) return {};
        return fail_path(ENOTDIR, "make directory", name);
    }
    return fail_path(err, "make directory", name);
}

Result<std::vector<std::string>> PosixDisk::list(std::string_view directory) {
    const std::string path(directory);
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return fail_path(errno, "list directory", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
        errno = 0;
    }
    const int err = errno;
    closedir(dir);
    if (err != 0) return fail_path(err, "list directory", path);
    std::sort(names.begin(), names.end());
    return names;
}

bool PosixDisk::exists(std::string_view path) {
    struct stat status {};
    return stat(std::string(path).c_str(), &status) == 0;
}

Result<void> PosixDisk::sync_directory(std::string_view path) {
    const std::string name(path.empty() ? "." : path);
    const int64_t fd =
        retry([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return fail_path(static_cast<int>(-fd), "sync directory", name);
    const int result = fsync(static_cast<int>(fd));
    const int err = errno;
    ::close(static_cast<int>(fd));
    if (result != 0) {
        auto failure = fail_os(ErrorCode::io_error, err, "sync directory");
        set_error_detail(failure.error(), name);
        return failure;
    }
    return {};
}

Result<void> PosixDisk::lock_exclusive(FileId file) { return lock(file, LOCK_EX); }
Result<void> PosixDisk::lock_shared(FileId file) { return lock(file, LOCK_SH); }

Result<void> PosixDisk::lock(FileId file, int operation) {
    DCHECK(file.value >= 0);
    const int64_t result = retry([&] { return flock(file.value, operation | LOCK_NB); });
    if (result == -EWOULDBLOCK) {
        const auto holder = lock_holder(file.value);
        return fail_with(ErrorCode::store_locked, "lock file", holder ? holder->text() : "");
    }
    if (result < 0) return fail_file(static_cast<int>(-result), "lock file");
    std::lock_guard lock(mutex_);
    if (std::find(locked_.begin(), locked_.end(), file.value) == locked_.end())
        locked_.push_back(file.value);
    return {};
}

// A direct file needs aligned memory; the caller's may be unaligned.
Result<size_t> PosixDisk::read_now(FileId file, uint64_t offset, void* data, size_t bytes) {
    auto* to = static_cast<std::byte*>(data);
    const bool whole_blocks = offset % kIoAlignment == 0 && bytes % kIoAlignment == 0;
    if ((whole_blocks && is_aligned(data)) || !is_direct(file))
        return read_all(file, offset, to, bytes);
    const AlignedBuffer bounce =
        TRY(make_aligned_buffer(std::min(bytes + 2 * kIoAlignment, kBounceBytes)));
    size_t moved = 0;
    while (moved < bytes) {
        const uint64_t at = offset + moved;
        const size_t skip = at % kIoAlignment;
        const size_t room = kBounceBytes - skip;
        const size_t want = std::min(bytes - moved, room);
        const size_t asked = (skip + want + kIoAlignment - 1) / kIoAlignment * kIoAlignment;
        DCHECK(asked <= bounce.get_deleter().mapped_bytes);
        const size_t got = TRY(read_all(file, at - skip, bounce.get(), asked));
        DCHECK(got <= asked);
        if (got <= skip) break;
        const size_t useful = std::min(got - skip, want);
        std::memcpy(to + moved, bounce.get() + skip, useful);
        moved += useful;
        if (got < asked) break;
    }
    return moved;
}

Result<void> PosixDisk::write_now(FileId file, uint64_t offset, const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    const bool whole_blocks = offset % kIoAlignment == 0 && bytes % kIoAlignment == 0;
    if ((whole_blocks && is_aligned(data)) || !is_direct(file))
        return write_all(file, offset, from, bytes);
    if ((offset | bytes) % kSectorBytes != 0)
        return fail(ErrorCode::bad_argument, "write to a direct file", offset, bytes);
    const AlignedBuffer bounce = TRY(make_aligned_buffer(std::min(bytes, kBounceBytes)));
    for (size_t moved = 0; moved < bytes;) {
        const size_t piece = std::min(bytes - moved, kBounceBytes);
        std::memcpy(bounce.get(), from + moved, piece);
        TRY(write_all(file, offset + moved, bounce.get(), piece));
        moved += piece;
    }
    return {};
}

Result<void> PosixDisk::sync_now(FileId file) {
    const int64_t result = retry([&] { return fdatasync(file.value); });
    if (result < 0) return fail_file(static_cast<int>(-result), "sync");
    return {};
}

// One probe answers for all queues. A later ring may still hit a limit; only its worker then uses
// the pool.
Result<std::unique_ptr<IoQueue>> PosixDisk::make_queue(uint32_t, const Clock& clock) {
    std::lock_guard lock(mutex_);
    // Rings that worked natively have hung under valgrind.
    const bool no_ring = backend_ == IoBackend::automatic && under_valgrind();
    if (backend_ != IoBackend::pool && !no_ring) {
        if (!ring_probed_) ring_works_ = probe_uring();
        ring_probed_ = true;
        if (ring_works_) {
            auto queue = make_uring_queue(clock, syncs_);
            if (queue || backend_ == IoBackend::io_uring) return queue;
        } else if (backend_ == IoBackend::io_uring) {
            return std::unexpected(ring_works_.error());
        }
    }
    return make_pool_queue(clock);
}

Result<std::unique_ptr<IoQueue>> PosixDisk::make_pool_queue(const Clock& clock) {
    if (pool_ == nullptr) pool_ = std::make_shared<IoPool>();
    TRY(pool_->grow());
    return std::make_unique<PoolQueue>(pool_, clock, syncs_);
}

std::unique_ptr<Disk> make_disk(IoBackend backend) { return std::make_unique<PosixDisk>(backend); }

}  // namespace lockstep::threads
