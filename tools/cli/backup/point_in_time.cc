// point_in_time.cc - see point_in_time.h.
#include "tools/cli/backup/point_in_time.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::cli {
namespace {

// In 2255: behind the end of each archive. Milliseconds since 1970 would overflow Nanos.
constexpr time_t kSecondsMax = 9'000'000'000;

Unexpected refused(const std::string& text, const char* why) {
    return fail_with(ErrorCode::bad_argument, "time of a restore", "'" + text + "' " + why);
}

Unexpected no_time(const std::string& text) {
    return refused(text,
                   "is no time: write 2026-11-24T03:00:00Z, or +01:00 in place of the Z, the same "
                   "in local time without either, or @SECONDS since 1970");
}

// Takes the distance from UTC off the end of a time: Z, +01:00, -0330 or +01. Seconds; empty: none.
std::optional<time_t> take_utc_offset(std::string& text) {
    if (text.ends_with('Z')) {
        text.pop_back();
        return 0;
    }
    constexpr size_t kDateBytes = 10;  // a date has signs, too
    const size_t sign = text.find_last_of("+-");
    if (sign == std::string::npos || sign < kDateBytes) return {};
    std::string digits = text.substr(sign + 1);
    if (digits.size() == 5 && digits[2] == ':') digits.erase(2, 1);
    if (digits.size() == 2) digits += "00";
    if (digits.size() != 4 || digits.find_first_not_of("0123456789") != std::string::npos)
        return {};
    const int number = std::atoi(digits.c_str()), hours = number / 100, minutes = number % 100;
    if (hours > 23 || minutes > 59) return {};
    DCHECK(hours >= 0 && minutes >= 0);
    const time_t seconds = hours * 3600 + minutes * 60;
    const bool behind = text[sign] == '-';
    text.erase(sign);
    return behind ? -seconds : seconds;
}

bool same_clock(const tm& a, const tm& b) {
    return a.tm_year == b.tm_year && a.tm_mon == b.tm_mon && a.tm_mday == b.tm_mday &&
           a.tm_hour == b.tm_hour && a.tm_min == b.tm_min && a.tm_sec == b.tm_sec;
}

// The moment at which local clocks show `wanted`. A day on which clocks are set has times that they
// skip, and times that they have twice.
Result<time_t> of_local_clock(const tm& wanted, const std::string& text) {
    std::optional<time_t> found;
    for (const int summer : {0, 1}) {
        tm parts = wanted, shown{};
        parts.tm_isdst = summer;
        const time_t seconds = mktime(&parts);
        if (localtime_r(&seconds, &shown) == nullptr || !same_clock(shown, wanted)) continue;
        if (found && *found != seconds)
            return refused(text,
                           "is twice in local time, because clocks were set back: write it in UTC "
                           "with a Z, or with its offset such as +01:00");
        found = seconds;
    }
    if (found) return *found;
    return refused(text,
                   "is not in local time, because clocks were set forward: write it in UTC with a "
                   "Z, or with its offset such as +01:00");
}

// Seconds since 1970 of what stands before a fraction.
Result<time_t> seconds_of(std::string whole, std::optional<time_t> offset,
                          const std::string& text) {
    if (whole.starts_with('@') && !offset) {
        time_t number = 0;
        const char* const last = whole.data() + whole.size();
        const auto [end, error] = std::from_chars(whole.data() + 1, last, number);
        if (error == std::errc::result_out_of_range && end == last && whole[1] != '-')
            return kSecondsMax;
        if (error != std::errc{} || end != last) return no_time(text);
        return number;
    }
    std::ranges::replace(whole, 'T', ' ');
    tm parts{};
    const char* const end = strptime(whole.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
    if (end == nullptr || *end != '\0') return no_time(text);
    tm normal = parts;
    const time_t as_utc = timegm(&normal);
    if (normal.tm_mday != parts.tm_mday) return no_time(text);  // the month has no such day
    if (offset) return as_utc - *offset;
    return of_local_clock(normal, text);
}

}  // namespace

Result<Nanos> time_of(const std::string& text) {
    std::string whole = text;
    const std::optional<time_t> offset = take_utc_offset(whole);
    double fraction = 0;
    if (const size_t dot = whole.find('.'); dot != std::string::npos) {
        if (whole.find_first_not_of("0123456789", dot + 1) != std::string::npos)
            return no_time(text);
        fraction = std::strtod(("0" + whole.substr(dot)).c_str(), nullptr);
        whole.erase(dot);
    }
    const time_t seconds = TRY(seconds_of(whole, offset, text));
    if (seconds < 0) return refused(text, "is before 1970: each archive begins later");
    return static_cast<Nanos>(std::min(seconds, kSecondsMax)) * kSecond +
           static_cast<Nanos>(fraction * static_cast<double>(kSecond));
}

std::string utc_text(Nanos time) {
    const auto seconds = static_cast<time_t>(time / kSecond);
    tm parts{};
    char text[32];
    if (gmtime_r(&seconds, &parts) == nullptr ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        return fmt::format("@{}", seconds);
    return fmt::format("{}.{:09}Z", text, time % kSecond);
}

}  // namespace lockstep::cli
