// live_text.cc - formats what the control socket has answered.
#include "tools/cli/live/live_text.h"

#include <fmt/format.h>

#include <iterator>

namespace lockstep::cli {
namespace {

constexpr size_t kColumnsMax = 10'000;

std::string text_of(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::string time_text(uint64_t nanos) {
    const auto value = static_cast<double>(nanos);
    if (nanos < 1'000) return fmt::format("{} ns", nanos);
    if (nanos < 1'000'000) return fmt::format("{:.3g} us", value / 1e3);
    if (nanos < 1'000'000'000) return fmt::format("{:.3g} ms", value / 1e6);
    if (nanos < 120'000'000'000) return fmt::format("{:.3g} s", value / 1e9);
    if (value < 120 * 60e9) return fmt::format("{:.0f} min", value / 60e9);
    return fmt::format("{:.1f} h", value / 3600e9);
}

std::string bytes_text(double bytes) {
    constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
        bytes /= 1024;
        ++unit;
    }
    return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string rate_text(double rate) {
    if (rate < 1000) return fmt::format("{:.3g}", rate);
    if (rate < 10'000) return fmt::format("{:.0f}", rate);
    if (rate < 999'500) return fmt::format("{:.3g}k", rate / 1e3);
    return fmt::format("{:.3g}M", rate / 1e6);
}

// A character of UTF-8 goes whole: its later bytes are 10xxxxxx.
std::string cut(const std::string& text, size_t columns) {
    size_t characters = 0, keep = 0;  // `keep`: the bytes before the last column
    for (size_t i = 0; i < text.size(); ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
        if (++characters == columns) keep = i;
        if (characters > columns) return columns == 0 ? "" : text.substr(0, keep) + "~";
    }
    return text;
}

std::string transactions_text(const Json& transactions, size_t columns) {
    std::string text = cut(fmt::format("{:>10} {:>8} {:<12} {:>6} {:>8} {:>8}  {}", "ID", "AGE",
                                       "STATE", "LOCKS", "LOG", "PINS", "WAITS FOR"),
                           columns) +
                       "\n";
    for (const Json& of : transactions) {
        std::string state = text_of(of["state"]);
        if (of["marked"].get<bool>()) state += "*";
        else if (of["internal"].get<bool>()) state += "+";
        std::string waits = text_of(of["waits_for"]);
        if (waits.empty() && state == "prepared")
            waits = "the decision on gid " + text_of(of["gid"]);
        else if (!waits.empty())
            waits = time_text(of["waited_nanos"].get<uint64_t>()) + " " + waits;
        text +=
            cut(fmt::format("{:>10} {:>8} {:<12} {:>6} {:>8} {:>8}  {}", of["id"].get<uint64_t>(),
                            time_text(of["age_nanos"].get<uint64_t>()), state,
                            of["locks"].get<uint64_t>(), bytes_text(of["log_bytes"].get<double>()),
                            bytes_text(of["log_pinned_bytes"].get<double>()), waits),
                columns) +
            "\n";
    }
    return text;
}

std::string hot_locks_text(const Json& hot, size_t columns, size_t lines_max) {
    std::string text =
        cut(fmt::format("{:>10} {:>10} {:>10}  {}", "WAITS", "TIME", "MEAN",
                        "LOCK, in the last " + time_text(hot["looks_back_nanos"].get<uint64_t>())),
            columns) +
        "\n";
    size_t lines = 0;
    for (const Json& of : hot["locks"]) {
        if (lines++ == lines_max) break;
        const auto waits = of["waits"].get<uint64_t>(), nanos = of["wait_nanos"].get<uint64_t>();
        text += cut(fmt::format("{:>10} {:>10} {:>10}  {}", waits, time_text(nanos),
                                time_text(waits != 0 ? nanos / waits : 0), text_of(of["lock"])),
                    columns) +
                "\n";
    }
    return text;
}

std::string fields_text(const Json& object, const std::string& prefix) {
    std::string text;
    for (const auto& [key, value] : object.items()) {
        if (value.is_object()) text += fields_text(value, prefix + key + ".");
        else if (!value.is_array())
            text += cut(fmt::format("{:<28} {}", prefix + key, text_of(value)), kColumnsMax) + "\n";
    }
    return text;
}

}  // namespace lockstep::cli
