// hardware.h - the processor's own counters for the events that the thesis counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <lockstep/result.h>

namespace lockstep::icache {

enum class Event : uint8_t { cycles, instructions, l1i_misses, l1d_misses, branch_misses };
inline constexpr size_t kEvents = 5;
inline constexpr const char* kEventNames[kEvents] = {
    "cycles", "instructions", "L1-icache-load-misses", "L1-dcache-load-misses",
    // As linux-perf names them.
    "branch-misses"};

// The state of one counter.
struct Reading {
    uint64_t value = 0;
    // Nanoseconds since open(), and those in which the event really had one of the processor's
    // counters: the kernel takes turns if there are more events than counters.
    uint64_t enabled = 0, running = 0;
    int error = 0;  // errno of the read; 0: the fields above are valid
};
using Readings = std::array<Reading, kEvents>;

// Events between two readings.
struct Counted {
    // Scaled up to the whole time. Empty if nothing is known, which is not zero: see `missing`.
    std::optional<double> value;
    double share = 0;               // of the time in which it was counted; 1: no scaling
    const char* missing = nullptr;  // why there is no value
};
Counted counted(const Reading& before, const Reading& after);

// Counters of the calling kernel thread, user mode only. If the processor lacks an event, has() is
// false and its readings carry an error.
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
    Readings read() const;  // since open
private:
    Hardware() { fds_.fill(-1); }
    std::array<int, kEvents> fds_;
};

// Explains an error of open() to a user.
const char* explain_refusal(int os_error);

}  // namespace lockstep::icache
