// log_ring.cc - two mappings of one anonymous file side by side.
#include "txn/log/log_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "threads/base/check.h"
#include "threads/io/posix_disk.h"
#include "threads/io/size_signal.h"

namespace lockstep::txn {

namespace {
// Maps `bytes` of the file at `place`, inside an address range that is already reserved.
bool map_half(std::byte* place, uint64_t bytes, int fd) {
    // A large ring serves throughput: its pages must not fault one by one under the first
    // transactions.
    const int populate = bytes > (4u << 20) ? MAP_POPULATE : 0;
    return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | populate, fd, 0) ==
           place;
}
}  // namespace

Result<LogRing> LogRing::make(uint64_t bytes, threads::MappingCache* cache) {
    CHECK(std::has_single_bit(bytes) && bytes % 4096 == 0);
    if (cache != nullptr)
        if (void* idle = cache->take(threads::MappingUse::log_ring, 2 * bytes))
            return LogRing(static_cast<std::byte*>(idle), bytes, cache);
    const int fd = memfd_create("lockstep-log", MFD_CLOEXEC);
    if (fd < 0) return threads::fail_file(errno, "log buffer", bytes);
    const threads::SizeSignalBlocked blocked;  // the memory counts as a file
    void* range = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(bytes)) == 0)
        range = mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* base = static_cast<std::byte*>(range);
    const bool mapped =
        range != MAP_FAILED && map_half(base, bytes, fd) && map_half(base + bytes, bytes, fd);
    const int err = errno;
    close(fd);  // the mappings keep the memory
    if (mapped) return LogRing(base, bytes, cache);
    if (range != MAP_FAILED) munmap(range, 2 * bytes);
    return threads::fail_file(err, "log buffer", bytes);
}

LogRing::~LogRing() {
    if (base_ == nullptr) return;
    if (cache_ != nullptr) cache_->give(threads::MappingUse::log_ring, base_, 2 * bytes_);
    else munmap(base_, 2 * bytes_);
}

void LogRing::clear(uint64_t from, uint64_t to) {
    DCHECK(from <= to);
    if (cache_ != nullptr) std::memset(at(from), 0, std::min(to - from, bytes_));
}

}  // namespace lockstep::txn
