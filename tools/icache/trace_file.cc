// trace_file.cc - maps a trace and finds its parts.
#include "tools/icache/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::icache {

TraceFile::~TraceFile() {
    if (words_ != nullptr) munmap(const_cast<uint64_t*>(words_), bytes_);
}

Result<TraceFile> TraceFile::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_os(ErrorCode::bad_path, errno, "trace file");
    struct stat info {};
    fstat(fd, &info);
    const auto bytes = static_cast<size_t>(info.st_size);
    void* memory = bytes >= sizeof(uint64_t) ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0)
                                             : MAP_FAILED;
    close(fd);
    if (memory == MAP_FAILED)
        return fail(ErrorCode::bad_argument, "the trace file is empty", bytes);
    TraceFile file;
    file.words_ = static_cast<const uint64_t*>(memory);
    file.bytes_ = bytes;
    if (file.words_[0] != TRACE_MAGIC)
        return fail(ErrorCode::bad_argument, "this file is no trace");
    return file;
}

std::span<const uint64_t> TraceFile::segment(uint64_t segment) const {
    const auto all = words();
    size_t begin = 0, end = all.size();
    bool found = segment == 0;
    for (size_t i = 0; i < all.size(); ++i) {
        if (kind_of(all[i]) != kTraceMark || small_of(all[i]) != kMarkSegment) continue;
        if (address_of(all[i]) == segment) {
            begin = i + 1;
            found = true;
        } else if (address_of(all[i]) > segment) {
            end = i;
            break;
        }
    }
    return found ? all.subspan(begin, end - begin) : all.first(0);
}

}  // namespace lockstep::icache
