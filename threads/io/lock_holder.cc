// lock_holder.cc - see lock_holder.h.
#include "threads/io/lock_holder.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "threads/base/check.h"

namespace lockstep::threads {

namespace {

// As /proc/locks writes it: device and inode.
std::string place_of(const struct stat& file) {
    char text[64];
    const int n = std::snprintf(text, sizeof text, "%02x:%02x:%lu", major(file.st_dev),
                                minor(file.st_dev), static_cast<unsigned long>(file.st_ino));
    DCHECK(n > 0 && static_cast<size_t>(n) < sizeof text);
    return text;
}

}  // namespace

std::string LockHolder::text() const {
    DCHECK(pid >= 0);
    if (pid == 0) return "another process";
    if (pid == getpid()) return "this process";
    const std::string number = "process " + std::to_string(pid);
    return program.empty() ? number : number + " (" + program + ")";
}

std::optional<LockHolder> lock_holder(int descriptor) {
    DCHECK(descriptor >= 0);
    struct stat file {};
    if (fstat(descriptor, &file) != 0) return std::nullopt;
    const std::string exact = place_of(file), inode = ":" + std::to_string(file.st_ino);
    std::optional<LockHolder> found;
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number, kind, strictness, mode, place;
        int pid = 0;
        if (!(words >> number >> kind >> strictness >> mode >> pid >> place)) continue;
        // Some file systems show files another device than the lock table.
        if (kind != "FLOCK" || !place.ends_with(inode)) continue;
        found = {.pid = std::max(0, pid), .program = {}, .exclusive = mode == "WRITE"};
        if (place == exact) break;
    }
    if (found && found->pid != 0)
        std::getline(std::ifstream("/proc/" + std::to_string(found->pid) + "/comm"),
                     found->program);
    return found;
}

}  // namespace lockstep::threads
