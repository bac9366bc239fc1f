// log_files.cc - see log_files.h.
#include "txn/log/log_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace lockstep::txn {

std::string LogFiles::segment_path(uint64_t number) const {
    char name[32];
    std::snprintf(name, sizeof name, "/log.%08llu", static_cast<unsigned long long>(number));
    return directory_ + name;
}

Result<std::vector<uint64_t>> LogFiles::list() const {
    std::vector<uint64_t> numbers;
    for (const std::string& name : TRY(disk_.list(directory_))) {
        if (name.size() < 12 || !name.starts_with("log.")) continue;
        uint64_t number = 0;
        const auto [end, error] =
            std::from_chars(name.data() + 4, name.data() + name.size(), number);
        if (error == std::errc{} && end == name.data() + name.size()) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

Result<threads::FileId> LogFiles::start_new() const {
    using threads::Disk;
    const threads::FileId file = TRY(disk_.open(new_path(), Disk::kCreate | Disk::kDirect));
    if (Result<void> r = disk_.allocate(file, segment_bytes_); !r) {
        disk_.close(file);
        // Half a segment would only take space that others may need.
        (void)disk_.unlink(new_path());
        return std::unexpected(r.error());
    }
    return file;
}

}  // namespace lockstep::txn
