// log_files.cc - see log_files.h.
#include "txn/log/log_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace lockstep::txn {

std::string LogFiles::segment_name(uint64_t number) {
    char name[32];
    std::snprintf(name, sizeof name, "log.%08llu", static_cast<unsigned long long>(number));
    return name;
}

Result<std::vector<uint64_t>> LogFiles::list() const {
    std::vector<uint64_t> numbers;
    for (const std::string& name : TRY(disk_.list(directory_.here()))) {
        if (name.size() < 12 || !name.starts_with("log.")) continue;
        uint64_t number = 0;
        const auto [end, error] =
            std::from_chars(name.data() + 4, name.data() + name.size(), number);
        if (error == std::errc{} && end == name.data() + name.size()) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

Result<threads::FileId> LogFiles::start_new(uint64_t bytes) const {
    DCHECK(bytes > 0 && bytes <= segment_bytes_ && bytes % kLogBlock == 0);
    using threads::Disk;
    const threads::FileId file = TRY(disk_.open(new_segment(), Disk::kCreate | Disk::kDirect));
    if (Result<void> r = disk_.allocate(file, bytes); !r) {
        disk_.close(file);
        // Half a segment would only take space that others may need.
        (void)disk_.unlink(new_segment());
        return std::unexpected(r.error());
    }
    return file;
}

Result<void> LogFiles::extend_now(uint64_t number, uint64_t bytes, bool sync) const {
    DCHECK(bytes <= segment_bytes_ && bytes % kLogBlock == 0);
    const threads::FileId file = TRY(open(number, threads::Disk::kCreate | threads::Disk::kDirect));
    Result<void> done = disk_.allocate(file, bytes);
    if (done && sync) done = disk_.sync_now(file);
    disk_.close(file);
    return done;
}

}  // namespace lockstep::txn
