// memory_limit.cc - reads /proc/self/cgroup and the limits of the groups that it names.
#include "sm/engine/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

uint64_t machine_bytes() {
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || bytes <= 0) return UINT64_MAX;
    return static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes);
}

// "max" is no number: no limit.
uint64_t number_in(const std::string& path) {
    std::ifstream file(path);
    uint64_t number = 0;
    return file >> number ? number : UINT64_MAX;
}

// A group is bounded by the groups above it, too. A container sees its own group as the root.
uint64_t least_of_groups(const std::string& root, std::string group, const char* limit) {
    for (uint64_t least = UINT64_MAX;;) {
        least = std::min(least, number_in(root + group + "/" + limit));
        if (group.empty()) return least;
        DCHECK(group.front() == '/');
        group.resize(group.rfind('/'));
    }
}

// Of one line "number:controllers:/group".
uint64_t limit_of(const std::string& line) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) return UINT64_MAX;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (!group.starts_with('/') || group == "/") group.clear();
    if (controllers.empty()) return least_of_groups("/sys/fs/cgroup", group, "memory.max");
    if (("," + controllers + ",").find(",memory,") == std::string::npos) return UINT64_MAX;
    return least_of_groups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

}  // namespace

uint64_t memory_limit() {
    uint64_t least = machine_bytes();
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) least = std::min(least, limit_of(line));
    DCHECK(least > 0);
    return least;
}

}  // namespace lockstep::sm
