// hardware.h - the processor's own counters for the events that the thesis counts.
#pragma once

#include <array>
#include <cstdint>

#include <lockstep/result.h>

namespace lockstep::icache {

enum class Event : uint8_t { cycles, instructions, l1i_misses, l1d_misses, branch_misses };
inline constexpr size_t kEvents = 5;
inline constexpr const char* kEventNames[kEvents] = {
    "cycles", "instructions", "L1-icache-load-misses", "L1-dcache-load-misses",
    // As linux-perf names them.
    "branch-misses"};

// Counters of the calling kernel thread, user mode only. If the processor lacks an event, it reads
// 0 and has() is false.
class Hardware {
public:
    // On success at least cycles and instructions work. Errors: unsupported if the machine has no
    // counters (often true of virtual machines) or forbids them (perf_event_paranoid, seccomp).
    // Error::os says which.
    static Result<Hardware> open();
    Hardware(Hardware&& other) noexcept;
    Hardware& operator=(Hardware&&) = delete;
    ~Hardware();

    bool has(Event event) const { return fds_[static_cast<size_t>(event)] >= 0; }
    std::array<uint64_t, kEvents> read() const;  // since open
private:
    Hardware() { fds_.fill(-1); }
    std::array<int, kEvents> fds_;
};

// Explains an error of open() to a user.
const char* explain_refusal(int os_error);

}  // namespace lockstep::icache
