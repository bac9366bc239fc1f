// memory_disk.cc - names of files in memory.
#include "threads/io/memory_disk.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "threads/base/error_detail.h"

namespace lockstep::threads {
namespace {

// No descriptor: the kernel gives none that large.
constexpr DirectoryId kMemory{INT32_MAX};

// The name in the directory in memory, or "." for itself; nullopt: a place of the machine's.
std::optional<std::string_view> name_in_memory(const Place& place) {
    std::string_view name = place.name;
    if (place.in == kMemory) return name;
    if (place.in != kNoDirectory || !name.starts_with(kMemoryPath)) return {};
    name.remove_prefix(kMemoryPath.size());
    if (name.empty()) return ".";
    if (!name.starts_with('/')) return {};
    return name.substr(1);
}

std::string_view key_of(const Place& place) { return name_in_memory(place).value_or(place.name); }
bool is_in_memory(const Place& place) { return name_in_memory(place).has_value(); }
bool is_directory(const Place& place) { return name_in_memory(place) == "."; }

[[gnu::cold]] Unexpected fail_name(int err, const char* what, const Place& place) {
    Error error = fail_file(err, what).error();
    set_error_detail(error, std::string(kMemoryPath) + "/" + std::string(key_of(place)));
    return Unexpected(error);
}

}  // namespace

MemoryDisk::~MemoryDisk() {
    for (const auto& [name, fd] : names_) ::close(fd);
}

MemoryDisk::Names::iterator MemoryDisk::find(const Place& place) {
    return names_.find(key_of(place));
}

Result<int> MemoryDisk::make_file(const Place& place) {
    const int fd = memfd_create("lockstep", MFD_CLOEXEC);
    if (fd < 0) return fail_name(errno, "open", place);
    // Backups give their files these rights.
    if (fchmod(fd, rights().mode) == 0) return fd;
    const int err = errno;
    ::close(fd);
    return fail_name(err, "permissions of", place);
}

Result<FileId> MemoryDisk::open(const Place& place, uint32_t flags) {
    if (!is_in_memory(place)) return PosixDisk::open(place, flags);
    if (is_directory(place)) return fail_name(EISDIR, "open", place);
    const std::lock_guard lock(names_mutex_);
    auto found = find(place);
    if (found != names_.end() && (flags & kExclusive)) return fail_name(EEXIST, "open", place);
    if (found == names_.end()) {
        if (!(flags & kCreate)) return fail_name(ENOENT, "open", place);
        found = names_.emplace(key_of(place), TRY(make_file(place))).first;
    }
    // Not a copy of the descriptor, which would share rights and locks.
    return PosixDisk::open("/proc/self/fd/" + std::to_string(found->second), flags & kReadOnly);
}

Result<FileId> MemoryDisk::open_unnamed(const Place& directory) {
    if (!is_in_memory(directory)) return PosixDisk::open_unnamed(directory);
    return FileId{TRY(make_file(directory))};
}

Result<void> MemoryDisk::rename(const Place& from, const Place& to) {
    if (!is_in_memory(from) && !is_in_memory(to)) return PosixDisk::rename(from, to);
    if (!is_in_memory(from) || !is_in_memory(to)) return fail_name(EXDEV, "rename", from);
    const std::lock_guard lock(names_mutex_);
    const auto found = find(from);
    if (found == names_.end()) return fail_name(ENOENT, "rename", from);
    const auto replaced = find(to);
    if (replaced == found) return {};
    if (replaced != names_.end()) {
        ::close(replaced->second);
        names_.erase(replaced);
    }
    auto node = names_.extract(found);
    node.key() = key_of(to);
    names_.insert(std::move(node));
    return {};
}

Result<void> MemoryDisk::unlink(const Place& place) {
    if (!is_in_memory(place)) return PosixDisk::unlink(place);
    const std::lock_guard lock(names_mutex_);
    const auto found = find(place);
    if (found == names_.end()) return fail_name(ENOENT, "unlink", place);
    ::close(found->second);
    names_.erase(found);
    return {};
}

// There is the one directory, and it has no others.
Result<void> MemoryDisk::make_directory(const Place& place) {
    if (!is_in_memory(place)) return PosixDisk::make_directory(place);
    if (is_directory(place)) return {};
    return fail_name(ENOTDIR, "make directory", place);
}

Result<std::vector<std::string>> MemoryDisk::list(const Place& directory) {
    if (!is_in_memory(directory)) return PosixDisk::list(directory);
    if (!is_directory(directory)) return fail_name(ENOTDIR, "list directory", directory);
    std::vector<std::string> names;
    const std::lock_guard lock(names_mutex_);
    for (const auto& [name, fd] : names_) names.push_back(name);
    return names;
}

bool MemoryDisk::exists(const Place& place) {
    if (!is_in_memory(place)) return PosixDisk::exists(place);
    if (is_directory(place)) return true;
    const std::lock_guard lock(names_mutex_);
    return find(place) != names_.end();
}

Result<void> MemoryDisk::sync_directory(const Place& directory) {
    return is_directory(directory) ? Result<void>{} : PosixDisk::sync_directory(directory);
}

Result<DirectoryId> MemoryDisk::open_directory(const Place& directory) {
    return is_directory(directory) ? kMemory : PosixDisk::open_directory(directory);
}

void MemoryDisk::close_directory(DirectoryId directory) {
    if (directory != kMemory) PosixDisk::close_directory(directory);
}

std::string MemoryDisk::path_of(DirectoryId directory) {
    return directory == kMemory ? std::string(kMemoryPath) : PosixDisk::path_of(directory);
}

std::unique_ptr<Disk> make_memory_disk(IoBackend backend) {
    return std::make_unique<MemoryDisk>(backend);
}

}  // namespace lockstep::threads
