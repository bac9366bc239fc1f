// posix_disk.cc - names, sizes and blocking transfers on the machine's file system; chooses the
// backend.
#include "threads/io/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include <lockstep/clock.h>
#include "threads/base/error_detail.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/durable_writes.h"
#include "threads/io/lock_holder.h"
#include "threads/io/size_signal.h"
#include "threads/io/under_valgrind.h"
#include "threads/io/uring_queue.h"

namespace lockstep::threads {
namespace {

constexpr size_t kBounceBytes = 1u << 20;
constexpr int kNamesMax = 1000;  // taken at the same time, or left by kills

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

// What openat() and its kin take.
int at(const Place& place) { return place.in == kNoDirectory ? AT_FDCWD : place.in.value; }

// In a process without standard streams, the kernel gives files the numbers of these. What any code
// prints would then land in the file. -errno if there is no other number.
int64_t above_streams(int64_t fd) {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const auto low = static_cast<int>(fd);
    fd = retry([&] { return fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); });
    ::close(low);
    DCHECK(fd < 0 || fd > STDERR_FILENO);
    return fd;
}

// A descriptor, or -errno. Some file systems refuse O_DIRECT after they have created the file. The
// second try must not take it for another process's.
int64_t open_at(const Place& place, int how, int direct, uint32_t mode = 0) {
    const auto open_with = [&](int as) {
        return retry([&] { return openat(at(place), place.name.c_str(), as, mode); });
    };
    const int64_t fd = open_with(how | direct);
    return fd == -EINVAL && direct != 0 ? open_with(how & ~O_EXCL) : fd;
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

Result<FileId> PosixDisk::open(const Place& place, uint32_t flags) {
    DCHECK(!(flags & kReadOnly) || !(flags & (kCreate | kExclusive)));
    const int how = (flags & kReadOnly ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    const int direct = flags & kDirect ? O_DIRECT : 0;
    int64_t fd = -ENOENT;
    if (!(flags & kExclusive)) fd = open_at(place, how, direct);
    if (fd == -ENOENT && (flags & kCreate)) fd = create(place, how, direct);
    // Another process has made it between the two.
    if (fd == -EEXIST && !(flags & kExclusive)) fd = open_at(place, how, direct);
    fd = above_streams(fd);
    if (fd < 0) return fail_at(static_cast<int>(-fd), "open", place);
    struct stat status {};
    if (fstat(static_cast<int>(fd), &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(static_cast<int>(fd));
        return fail_with(ErrorCode::bad_path, "open", text_of(place) + " is not a regular file");
    }
    // Never reset: one switch for all files of the disk errs to the safe side.
    if (durable_writes_need_sync(static_cast<int>(fd)))
        syncs_->store(true, std::memory_order_relaxed);
    return FileId{static_cast<int32_t>(fd)};
}

// Not every file system has files that never had a name.
Result<FileId> PosixDisk::open_unnamed(const Place& directory) {
    const int how = O_RDWR | O_CLOEXEC;
    int64_t fd = open_at(directory, how | O_TMPFILE, 0, 0600);
    for (int n = 0; fd < 0 && n < kNamesMax; ++n) {
        const Place named{directory.in, directory.name + "/sort." + std::to_string(n)};
        fd = open_at(named, how | O_CREAT | O_EXCL, 0, 0600);
        if (fd >= 0) (void)unlinkat(at(named), named.name.c_str(), 0);
        else if (fd != -EEXIST) break;
    }
    fd = above_streams(fd);
    if (fd < 0) return fail_at(static_cast<int>(-fd), "file without a name in", directory);
    return FileId{static_cast<int32_t>(fd)};
}

// A descriptor of a file that was not there, or -errno.
int64_t PosixDisk::create(const Place& place, int how, int direct) {
    const FileRights rights = this->rights();
    const int64_t fd = open_at(place, how | O_CREAT | O_EXCL, direct, rights.mode);
    if (fd < 0) return fd;
    const int error = rights.give_file(static_cast<int>(fd));
    if (error == 0) return fd;
    ::close(static_cast<int>(fd));
    (void)unlinkat(at(place), place.name.c_str(), 0);
    return -error;
}

FileRights PosixDisk::rights() {
    std::lock_guard lock(mutex_);
    return rights_;
}

void PosixDisk::set_file_mode(uint32_t mode) {
    DCHECK((mode & ~0666u) == 0 && (mode & 0600) == 0600);
    std::lock_guard lock(mutex_);
    rights_ = {.mode = mode, .owner = {}};
}

Result<void> PosixDisk::make_files_like(FileId file) {
    const std::optional<FileRights> rights = FileRights::of(file.value);
    if (!rights) return fail_file(errno, "file permissions");
    std::lock_guard lock(mutex_);
    rights_ = *rights;
    return {};
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
    const SizeSignalBlocked blocked;
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
    const SizeSignalBlocked blocked;
    const int64_t result = retry([&] { return ftruncate(file.value, static_cast<off_t>(bytes)); });
    if (result < 0) return fail_file(static_cast<int>(-result), "truncate", bytes);
    return {};
}

Result<void> PosixDisk::rename(const Place& from, const Place& to) {
    DCHECK(!from.name.empty() && !to.name.empty());
    if (renameat(at(from), from.name.c_str(), at(to), to.name.c_str()) != 0)
        return fail_at(errno, "rename", from);
    return {};
}

Result<void> PosixDisk::unlink(const Place& place) {
    if (unlinkat(at(place), place.name.c_str(), 0) != 0) return fail_at(errno, "unlink", place);
    return {};
}

// The entry of a new directory lies in its parent. A parent that may not be read cannot be synced.
Result<void> PosixDisk::make_directory(const Place& place) {
    DCHECK(!place.name.empty());
    if (place.in == kNoDirectory && place.name == kMemoryPath)
        return fail_with(
            ErrorCode::bad_path, "make directory",
            "\":memory:\" names a store in memory, and nothing that lasts; a directory "
            "of that name is \"./:memory:\"");
    const char* const name = place.name.c_str();
    const FileRights rights = this->rights();
    if (mkdirat(at(place), name, rights.directory_mode()) == 0) {
        if (const int error = rights.give_directory(at(place), name); error != 0) {
            (void)unlinkat(at(place), name, AT_REMOVEDIR);
            return fail_at(error, "permissions of the directory", place);
        }
        Place parent = place;
        parent.name += "/..";
        const Result<void> synced = sync_directory(parent);
        if (synced || synced.error().os == EACCES) return {};
        // Else the next call would find it, and sync nothing.
        (void)unlinkat(at(place), name, AT_REMOVEDIR);
        return synced;
    }
    const int err = errno;
    DCHECK(err != 0);
    struct stat status {};
    if (err == EEXIST && fstatat(at(place), name, &status, 0) == 0) {
        if (S_ISDIR(status.st_mode)) return {};
        return fail_at(ENOTDIR, "make directory", place);
    }
    return fail_at(err, "make directory", place);
}

Result<std::vector<std::string>> PosixDisk::list(const Place& directory) {
    const int fd =
        openat(at(directory), directory.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* dir = fd < 0 ? nullptr : fdopendir(fd);
    if (dir == nullptr) {
        const int err = errno;
        if (fd >= 0) ::close(fd);
        return fail_at(err, "list directory", directory);
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
        errno = 0;
    }
    const int err = errno;
    closedir(dir);
    if (err != 0) return fail_at(err, "list directory", directory);
    std::sort(names.begin(), names.end());
    return names;
}

bool PosixDisk::exists(const Place& place) {
    struct stat status {};
    return fstatat(at(place), place.name.c_str(), &status, 0) == 0;
}

Result<void> PosixDisk::sync_directory(const Place& directory) {
    const char* const name = directory.name.empty() ? "." : directory.name.c_str();
    const int64_t fd =
        retry([&] { return openat(at(directory), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return fail_at(static_cast<int>(-fd), "sync directory", directory);
    const int result = fsync(static_cast<int>(fd));
    const int err = errno;
    ::close(static_cast<int>(fd));
    if (result != 0) {
        auto failure = fail_os(ErrorCode::io_error, err, "sync directory");
        set_error_detail(failure.error(), text_of(directory));
        return failure;
    }
    return {};
}

Result<DirectoryId> PosixDisk::open_directory(const Place& directory) {
    const int64_t fd = above_streams(retry([&] {
        return openat(at(directory), directory.name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    }));
    if (fd < 0) return fail_at(static_cast<int>(-fd), "open directory", directory);
    std::string path = text_of(directory);
    DCHECK(!path.empty());
    const std::lock_guard lock(mutex_);
    directories_.insert_or_assign(static_cast<int32_t>(fd), std::move(path));
    return DirectoryId{static_cast<int32_t>(fd)};
}

void PosixDisk::close_directory(DirectoryId directory) {
    DCHECK(directory != kNoDirectory);
    {
        const std::lock_guard lock(mutex_);
        directories_.erase(directory.value);
    }
    ::close(directory.value);
}

std::string PosixDisk::path_of(DirectoryId directory) {
    std::string path;
    {
        const std::lock_guard lock(mutex_);
        const auto found = directories_.find(directory.value);
        CHECK(found != directories_.end());  // not closed
        path = found->second;
    }
    struct stat own {
    }, named{};
    const bool leads_there = fstat(directory.value, &own) == 0 && stat(path.c_str(), &named) == 0 &&
                             own.st_dev == named.st_dev && own.st_ino == named.st_ino;
    if (leads_there) return path;
    char now[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(directory.value);
    const ssize_t n = readlink(link.c_str(), now, sizeof now);
    return n > 0 ? std::string(now, static_cast<size_t>(n)) : path + " (moved)";
}

std::string PosixDisk::text_of(const Place& place) {
    if (place.in == kNoDirectory || place.name.starts_with('/')) return place.name;
    const std::string directory = path_of(place.in);
    return place.name == "." ? directory : directory + "/" + place.name;
}

// fail_file() with the file's name.
[[gnu::cold]] Unexpected PosixDisk::fail_at(int err, const char* what, const Place& place) {
    DCHECK(what != nullptr);
    Error error = fail_file(err, what).error();
    set_error_detail(error, text_of(place));
    return Unexpected(error);
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
    const SizeSignalBlocked blocked;
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
