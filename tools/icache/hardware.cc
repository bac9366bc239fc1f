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
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
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

Readings Hardware::read() const {
    Readings readings;
    for (size_t i = 0; i < kEvents; ++i) {
        uint64_t words[3] = {};  // as PERF_FORMAT orders them
        const ssize_t got = fds_[i] < 0 ? -1 : ::read(fds_[i], words, sizeof(words));
        if (got == static_cast<ssize_t>(sizeof(words)))
            readings[i] = {.value = words[0], .enabled = words[1], .running = words[2]};
        else readings[i].error = fds_[i] < 0 ? ENOENT : got < 0 ? errno : EIO;
    }
    return readings;
}

Counted counted(const Reading& before, const Reading& after) {
    if (before.error == ENOENT || after.error == ENOENT)
        return {std::nullopt, 0, "this processor does not count the event"};
    if (before.error != 0 || after.error != 0)
        return {std::nullopt, 0, "the counter could not be read"};
    const uint64_t enabled = after.enabled - before.enabled,
                   running = after.running - before.running;
    if (running == 0)
        return {std::nullopt, 0, "other events had the processor's counters all the time"};
    const double share = static_cast<double>(running) / static_cast<double>(enabled);
    return {static_cast<double>(after.value - before.value) / share, share, nullptr};
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
