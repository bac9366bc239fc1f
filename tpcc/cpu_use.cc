// cpu_use.cc - sums over the threads of the process.
#include "tpcc/cpu_use.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>

namespace lockstep::tpcc {

namespace {

Nanos nanos(const timeval& time) {
    return static_cast<Nanos>(time.tv_sec) * kSecond + static_cast<Nanos>(time.tv_usec) * 1000;
}

// The second number of schedstat: nanoseconds ready without a CPU.
std::optional<Nanos> waited() {
    std::error_code error;
    std::optional<Nanos> sum;
    for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
         at.increment(error)) {
        std::ifstream file(at->path() / "schedstat");
        Nanos ran = 0, waited = 0;
        if (file >> ran >> waited) sum = sum.value_or(0) + waited;
    }
    return sum;
}

}  // namespace

// A thread that ended in between took its wait along.
CpuUse CpuUse::operator-(const CpuUse& earlier) const {
    CpuUse use{ran - earlier.ran, {}};
    if (waited && earlier.waited)
        use.waited = *waited > *earlier.waited ? *waited - *earlier.waited : 0;
    return use;
}

std::optional<double> CpuUse::wait_share() const {
    if (!waited) return std::nullopt;
    const auto could_run = static_cast<double>(ran + *waited);
    return could_run > 0 ? static_cast<double>(*waited) / could_run : 0;
}

CpuUse cpu_use() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return {nanos(use.ru_utime) + nanos(use.ru_stime), waited()};
}

}  // namespace lockstep::tpcc
