// lock_holder.cc - see lock_holder.h. Source: proc(5), /proc/locks.
#include "threads/io/lock_holder.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "threads/base/check.h"

namespace lockstep::threads {

namespace {

std::string name_of_process(long pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

// As /proc/locks writes it: device and inode.
std::string place_of(const struct stat& file) {
    char text[64];
    const int n = std::snprintf(text, sizeof text, "%02x:%02x:%lu", major(file.st_dev),
                                minor(file.st_dev), static_cast<unsigned long>(file.st_ino));
    DCHECK(n > 0 && static_cast<size_t>(n) < sizeof text);
    return text;
}

}  // namespace

std::string lock_holder(int descriptor) {
    DCHECK(descriptor >= 0);
    struct stat file {};
    if (fstat(descriptor, &file) != 0) return {};
    const std::string wanted = place_of(file);
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number, type, kind, mode, place;
        long pid = 0;
        // A request that waits has an arrow behind its number; its type is then no FLOCK.
        words >> number >> type >> kind >> mode >> pid >> place;
        if (!words || type != "FLOCK" || place != wanted || pid <= 0) continue;
        if (pid == getpid()) return "this process";
        const std::string name = name_of_process(pid);
        return "process " + std::to_string(pid) + (name.empty() ? name : " (" + name + ")");
    }
    return {};
}

}  // namespace lockstep::threads
