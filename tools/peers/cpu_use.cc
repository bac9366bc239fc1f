// cpu_use.cc - what this process and others use of the CPUs.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tools/peers/contestant.h"

namespace lockstep::peers {

namespace {

double own_seconds() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// All that was not idle, on all CPUs, what the host took away included.
double all_seconds() {
    std::ifstream in("/proc/stat");
    std::string word;
    in >> word;
    double busy = 0, ticks = 0;
    constexpr int kIdle = 3, kIoWait = 4, kSteal = 7;
    for (int field = 0; field <= kSteal && in >> ticks; ++field)
        if (field != kIdle && field != kIoWait) busy += ticks;
    return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

CpuUse::CpuUse() : own_(own_seconds()), all_(all_seconds()) {}

void CpuUse::note(Nanos elapsed, Measured& measured) const {
    const double seconds = static_cast<double>(elapsed) / static_cast<double>(kSecond);
    const double own = own_seconds() - own_, all = all_seconds() - all_;
    const auto cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    measured.cpu_share = own / seconds;
    measured.foreign_share = std::max(0.0, all - own) / (seconds * cpus);
}

}  // namespace lockstep::peers
