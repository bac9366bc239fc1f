// hardware.cc - perf_event_open.
#include "tools/icache/hardware.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::icache {

namespace {

struct Selector {
    uint32_t type;
    uint64_t config;
};
constexpr uint64_t missing_reads(uint64_t cache) {
    return cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
}
constexpr Selector kSelectors[kEvents] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HW_CACHE, missing_reads(PERF_COUNT_HW_CACHE_L1I)},
    {PERF_TYPE_HW_CACHE, missing_reads(PERF_COUNT_HW_CACHE_L1D)},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES}};

int open_event(const Selector& selector) {
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = selector.type;
    attr.config = selector.config;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    return static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

Result<Hardware> Hardware::open() {
    Hardware hardware;
    for (size_t i = 0; i < kEvents; ++i) {
        hardware.fds_[i] = open_event(kSelectors[i]);
        if (hardware.fds_[i] < 0 && i <= static_cast<size_t>(Event::instructions))
            return fail_os(ErrorCode::unsupported, errno, "hardware counters");
    }
    return hardware;
}

Hardware::Hardware(Hardware&& other) noexcept : fds_(other.fds_) { other.fds_.fill(-1); }

Hardware::~Hardware() {
    for (const int fd : fds_)
        if (fd >= 0) close(fd);
}

std::array<uint64_t, kEvents> Hardware::read() const {
    std::array<uint64_t, kEvents> values{};
    for (size_t i = 0; i < kEvents; ++i)
        if (fds_[i] >= 0 && ::read(fds_[i], &values[i], sizeof(values[i])) != sizeof(values[i]))
            values[i] = 0;
    return values;
}

const char* explain_refusal(int os_error) {
    switch (os_error) {
        case ENOENT:
        case EOPNOTSUPP:
        case ENODEV: return "this machine (a virtual one?) offers no hardware counters";
        case EACCES:
        case EPERM:
            return "the system refuses them: lower /proc/sys/kernel/perf_event_paranoid to 2, or "
                   "allow perf_event_open in the container";
        case ENOSYS: return "this kernel has no perf_event_open";
        default: return "perf_event_open failed";
    }
}

}  // namespace lockstep::icache
