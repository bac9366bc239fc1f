// lock_holder.cc - looks a lock up in /proc/locks (proc_locks(5)).
#include "tools/cli/live/lock_holder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace lockstep::cli {

std::string LockHolder::text() const {
    if (pid == 0) return "another process";
    if (program.empty()) return fmt::format("process {}", pid);
    return fmt::format("process {} ({})", pid, program);
}

std::optional<LockHolder> lock_holder(const std::string& directory) {
    struct stat file {};
    if (stat((directory + "/lock").c_str(), &file) != 0) return std::nullopt;
    const std::string exact =
        fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
    const std::string inode = fmt::format(":{}", file.st_ino);
    std::ifstream locks("/proc/locks");
    std::optional<int> same_inode;
    std::string line;
    while (std::getline(locks, line)) {
        std::istringstream words(line);
        std::string number, kind, strictness, mode, place;
        int pid = 0;
        if (!(words >> number >> kind >> strictness >> mode >> pid >> place)) continue;
        if (kind != "FLOCK" || mode != "WRITE") continue;
        if (place == exact) {
            same_inode = pid;
            break;
        }
        // Some file systems show files another device than the lock table.
        if (place.ends_with(inode)) same_inode = pid;
    }
    if (!same_inode) return std::nullopt;
    LockHolder holder{.pid = std::max(0, *same_inode), .program = {}};
    if (holder.pid != 0)
        std::getline(std::ifstream(fmt::format("/proc/{}/comm", holder.pid)), holder.program);
    return holder;
}

}  // namespace lockstep::cli
