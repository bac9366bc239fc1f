// progress.h - a progress bar on stderr: share, rate, time left.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::cli {

// Draws at most ten times a second, and only if stderr is a terminal or `always` is set. One thread
// at a time.
class Progress {
public:
    enum class When : uint8_t { automatic, always, never };
    // `total` bytes; 0 = unknown, then without a share.
    Progress(std::string doing, uint64_t total, When when);
    ~Progress() { end(); }
    void at(uint64_t bytes);
    // Draws the last state and leaves the line.
    void end();

private:
    using Clock = std::chrono::steady_clock;
    void draw();

    const std::string doing_;
    const uint64_t total_;
    bool on_ = false;
    uint64_t bytes_ = 0, first_ = 0;
    bool begun_ = false;
    Clock::time_point started_ = Clock::now(), last_ = {};
};

}  // namespace lockstep::cli
