// progress.cc - drawing the bar.
#include "tools/cli/load/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "tools/base/say.h"

namespace lockstep::cli {
namespace {

constexpr size_t kWidth = 30;

std::string amount(double bytes) {
    const char* units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
    return fmt::format("{:.{}f} {}", bytes, unit > 0 ? 1 : 0, units[unit]);
}

}  // namespace

Progress::Progress(std::string doing, uint64_t total, When when)
    : doing_(std::move(doing)), total_(total) {
    on_ = when == When::always || (when == When::automatic && isatty(STDERR_FILENO) == 1);
}

void Progress::at(uint64_t bytes) {
    if (!on_) return;
    if (!begun_) first_ = bytes;  // a resumed load begins behind 0
    begun_ = true;
    bytes_ = bytes;
    if (Clock::now() - last_ < std::chrono::milliseconds(100)) return;
    draw();
}

void Progress::draw() {
    last_ = Clock::now();
    const double seconds = std::chrono::duration<double>(last_ - started_).count();
    const double rate = static_cast<double>(bytes_ - first_) / std::max(seconds, 1e-3);
    std::string line = fmt::format("\r{} ", doing_);
    if (total_ > 0) {
        const double share =
            std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(total_));
        const auto full = static_cast<size_t>(share * kWidth);
        line += fmt::format("[{}{}] {:3.0f}% ", std::string(full, '#'),
                            std::string(kWidth - full, '.'), share * 100);
    }
    line += fmt::format("{}, {}/s", amount(static_cast<double>(bytes_)), amount(rate));
    if (total_ > bytes_ && rate > 0) {
        const auto left = static_cast<uint64_t>(static_cast<double>(total_ - bytes_) / rate);
        line += fmt::format(", {}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60);
    }
    say_error("{:<100}", line);
}

void Progress::end() {
    if (!on_ || !begun_) return;
    draw();
    say_error("\n");
    on_ = false;
}

}  // namespace lockstep::cli
