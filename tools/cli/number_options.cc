// number_options.cc - see number_options.h.
#include "tools/cli/number_options.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "threads/base/check.h"

namespace lockstep::cli {
namespace {

// The number that begins the text; `rest` is what follows. Empty: none, or it is too large.
std::optional<uint64_t> leading_number(std::string_view text, std::string_view& rest) {
    uint64_t number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{}) return std::nullopt;
    DCHECK(end > text.data() && end <= last);
    rest = {end, static_cast<size_t>(last - end)};
    return number;
}

std::optional<uint64_t> size_of(std::string_view text) {
    std::string_view unit;
    const auto number = leading_number(text, unit);
    if (!number || unit.empty()) return number;
    const size_t power = std::string_view("bkmgt").find(static_cast<char>(unit[0] | 0x20));
    if (power == std::string_view::npos) return std::nullopt;
    unit.remove_prefix(1);
    const bool plain = unit.empty();
    const bool long_form = unit == "b" || unit == "B" || unit == "ib" || unit == "iB";
    if (!plain && (power == 0 || !long_form)) return std::nullopt;
    const size_t shift = 10 * power;
    DCHECK(shift <= 40);
    if (*number > (UINT64_MAX >> shift)) return std::nullopt;
    return *number << shift;
}

}  // namespace

CLI::Validator size_in(uint64_t least, uint64_t most, const std::string& range) {
    DCHECK(least <= most && !range.empty());
    return {[least, most, range](std::string& text) {
                const auto bytes = size_of(text);
                if (!bytes) return "'" + text + "' is no size such as 512M or 2G";
                if (*bytes < least || *bytes > most) return text + " is not in the range " + range;
                text = std::to_string(*bytes);
                return std::string();
            },
            "SIZE in [" + range + "]"};
}

CLI::Validator pool_size() { return size_in(4ull << 20, 1023ull << 30, "4M - 1023G"); }

CLI::Validator number_from_one(const std::string& what) {
    DCHECK(!what.empty());
    return {[what](std::string& text) {
                std::string_view rest;
                const auto number = leading_number(text, rest);
                const bool sound = number && rest.empty() && text.front() != '0';
                return sound ? "" : "'" + text + "' is no " + what + ": an integer from 1 on";
            },
            "NUMBER"};
}

}  // namespace lockstep::cli
