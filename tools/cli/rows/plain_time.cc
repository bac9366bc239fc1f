// plain_time.cc - ISO 8601, in UTC.
#include "tools/cli/rows/plain_time.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>

#include "threads/base/check.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kDaySeconds = 86400;
constexpr int64_t kDayFirst = -719162, kDayLast = 2932896;  // of the years 1 and 9999

int64_t per_second(const Column& column) {
    switch (column.type) {
        case ColumnType::time_s: return 1;
        case ColumnType::time_ms: return 1000;
        case ColumnType::time_us: return 1000000;
        case ColumnType::time_ns: return 1000000000;
        default: return 0;  // a date
    }
}

// Reads a text from front to back.
class TimeReader {
public:
    explicit TimeReader(Slice text) : rest_(text) {}
    bool at_end() const { return rest_.empty(); }
    bool take(char c) {
        const bool there = rest_.starts_with(c);
        if (there) rest_.remove_prefix(1);
        return there;
    }
    // Exactly so many digits.
    bool digits(size_t count, int64_t most, int64_t& number) {
        if (rest_.size() < count) return false;
        number = 0;
        for (size_t i = 0; i < count; ++i, rest_.remove_prefix(1)) {
            const char c = rest_.front();
            if (c < '0' || c > '9') return false;
            number = number * 10 + (c - '0');
        }
        return number <= most;
    }
    // Digits behind a point, in units; further ones must be zeros.
    bool fraction(int64_t unit, int64_t& number) {
        bool any = false;
        for (int64_t place = unit / 10; !rest_.empty(); place /= 10, rest_.remove_prefix(1)) {
            const char c = rest_.front();
            if (c < '0' || c > '9') break;
            if (place == 0 && c != '0') return false;
            number += (c - '0') * place;
            any = true;
        }
        return any;
    }

private:
    Slice rest_;
};

bool read_day(TimeReader& in, int64_t& days) {
    int64_t year = 0, month = 0, day = 0;
    if (!in.digits(4, 9999, year) || !in.take('-') || !in.digits(2, 12, month) || !in.take('-') ||
        !in.digits(2, 31, day) || year == 0)
        return false;
    const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(year)),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day)));
    days = std::chrono::sys_days(date).time_since_epoch().count();
    return date.ok();
}

// Seconds to subtract for UTC.
bool read_offset(TimeReader& in, int64_t& seconds) {
    if (in.at_end() || in.take('Z') || in.take('z')) return true;
    const bool behind = in.take('-');
    int64_t hours = 0, minutes = 0;
    if ((!behind && !in.take('+')) || !in.digits(2, 23, hours)) return false;
    if (!in.at_end() && ((void)in.take(':'), !in.digits(2, 59, minutes))) return false;
    seconds = (hours * 60 + minutes) * (behind ? -60 : 60);
    return true;
}

bool read_stored(Slice text, int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool is_time(const Column& column) {
    return column.type == ColumnType::date || per_second(column) != 0;
}

void append_time(std::string& out, const Column& column, int64_t number) {
    DCHECK(is_time(column));
    const int64_t unit = per_second(column);
    int64_t days = number, second = 0, part = 0;
    if (unit != 0) {
        const int64_t day_units = kDaySeconds * unit;
        part = number % day_units;
        days = number / day_units;
        if (part < 0) {
            part += day_units;
            --days;
        }
        second = part / unit;
        part %= unit;
    }
    if (days < kDayFirst || days > kDayLast) {
        out += fmt::format("@{}", number);
        return;
    }
    const std::chrono::year_month_day date{
        std::chrono::sys_days(std::chrono::days(static_cast<int>(days)))};
    out += fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
    if (unit == 0) return;
    out += fmt::format("T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    if (unit > 1) out += fmt::format(".{:0{}}", part, fmt::formatted_size("{}", unit) - 1);
    out += 'Z';
}

bool read_time(const Column& column, Slice text, int64_t& number) {
    DCHECK(is_time(column));
    const int64_t unit = per_second(column);
    if (text.starts_with('@')) return read_stored(text.substr(1), number);
    if (unit != 0 && read_stored(text, number)) return true;
    TimeReader in(text);
    int64_t days = 0, hour = 0, minute = 0, second = 0, part = 0, offset = 0;
    if (!read_day(in, days)) return false;
    number = days;
    if (unit == 0) return in.at_end();
    if (!in.at_end()) {
        if ((!in.take('T') && !in.take(' ')) || !in.digits(2, 23, hour) || !in.take(':') ||
            !in.digits(2, 59, minute))
            return false;
        if (in.take(':') &&
            (!in.digits(2, 59, second) || (in.take('.') && !in.fraction(unit, part))))
            return false;
        if (!read_offset(in, offset) || !in.at_end()) return false;
    }
    const int64_t seconds = days * kDaySeconds + hour * 3600 + minute * 60 + second - offset;
    // Near the least number the whole seconds alone do not fit.
    const __int128 wide = static_cast<__int128>(seconds) * unit + part;
    number = static_cast<int64_t>(wide);
    return number == wide;
}

std::string time_spelling(const Column& column) {
    if (per_second(column) == 0) return "a date as 2026-11-30, or @N for days since 1970";
    return "a time as 2026-11-30T14:05:09Z, with no finer fraction than the type's, or a number in "
           "its unit since 1970";
}

}  // namespace lockstep::cli
