// size_option.h - the check of options such as --pool 2G, for the driver and the tools.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// A number of bytes from "512M", "2G" or "100000"; empty if the text is not a size.
inline std::optional<uint64_t> parse_size(const std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || end - rest > 1) return std::nullopt;
    unsigned shift = 0;
    if (rest != end) {
        switch (*rest) {
            case 'k':
            case 'K': shift = 10; break;
            case 'm':
            case 'M': shift = 20; break;
            case 'g':
            case 'G': shift = 30; break;
            case 't':
            case 'T': shift = 40; break;
            default: return std::nullopt;
        }
    }
    if (value == 0 || value > (UINT64_MAX >> shift)) return std::nullopt;
    return value << shift;
}

// Of a pool, a cache or a log: the store takes a little more.
inline const CLI::Validator kSize(
    [](std::string& text) {
        const auto bytes = parse_size(text);
        if (!bytes) return "is not a size such as 512M or 2G: " + text;
        const bool fits = *bytes >= 4ull << 20 && *bytes <= 1023ull << 30;
        return fits ? "" : "is not in the range 4M to 1023G: " + text;
    },
    "SIZE in [4M - 1023G]");

}  // namespace lockstep
