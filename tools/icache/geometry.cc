// geometry.cc - reads and names cache geometries.
#include "tools/icache/geometry.h"

#include <fmt/core.h>

#include <bit>
#include <charconv>

namespace lockstep::icache {

namespace {

// A number with an optional K or M; 0 if it is none.
uint64_t number_of(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return 0;
    const std::string_view rest(end, text.data() + text.size());
    if (rest == "K" || rest == "k") return value << 10;
    if (rest == "M" || rest == "m") return value << 20;
    return rest.empty() ? value : 0;
}

}  // namespace

std::string Geometry::text() const {
    return full() ? fmt::format("{},full,{}", bytes, line)
                  : fmt::format("{},{},{}", bytes, ways, line);
}

Result<Geometry> parse_geometry(std::string_view text) {
    const size_t first = text.find(','),
                 second = first == std::string_view::npos ? first : text.find(',', first + 1);
    if (first == std::string_view::npos ||
        (second != std::string_view::npos && text.find(',', second + 1) != std::string_view::npos))
        return fail(ErrorCode::bad_argument,
                    "geometry: SIZE,WAYS[,LINE] is wanted, such as 65536,2,64 or 48K,12 or "
                    "16K,full,64");
    const bool has_line = second != std::string_view::npos;
    const std::string_view ways_text =
        text.substr(first + 1, has_line ? second - first - 1 : std::string_view::npos);
    const uint64_t bytes = number_of(text.substr(0, first)),
                   line = has_line ? number_of(text.substr(second + 1)) : 64;
    if (line < 16 || line > 256 || !std::has_single_bit(line))
        return fail(ErrorCode::bad_argument,
                    "geometry: the line must be a power of two from 16 to 256 bytes", line);
    if (bytes < 256 || bytes > (16u << 20) || bytes % line != 0)
        return fail(ErrorCode::bad_argument,
                    "geometry: the size must be lines of 256 bytes to 16 MB in all", bytes);
    const uint64_t lines = bytes / line, ways = ways_text == "full" ? lines : number_of(ways_text);
    if (ways < 1 || ways > lines || lines % ways != 0 || !std::has_single_bit(lines / ways))
        return fail(ErrorCode::bad_argument,
                    "geometry: size / line / ways, the number of sets, must be a power of two, "
                    "such as 24K,6 or 48K,12; 'full' is one set",
                    ways);
    return Geometry{static_cast<uint32_t>(bytes),
                    ways_text == "full" ? 0 : static_cast<uint32_t>(ways),
                    static_cast<uint32_t>(line)};
}

Machine machine_of(const Geometry& l1) {
    if (l1 == Geometry{65536, 2, 64}) return {"AthlonXP", l1, {262144, 16, 64}};
    if (l1 == Geometry{16384, 4, 32}) return {"Pentium III", l1, {262144, 8, 32}};
    if (l1 == Geometry{32768, 8, 64}) return {"today, 32 KB", l1, {524288, 8, 64}};
    if (l1 == Geometry{49152, 12, 64}) return {"today, 48 KB", l1, {1048576, 16, 64}};
    if (l1 == Geometry{65536, 8, 64}) return {"today, 64 KB", l1, {1048576, 16, 64}};
    return {l1.text(), l1, {262144, 16, std::max(l1.line, 32u)}};
}

std::vector<Geometry> usual_geometries() {
    return {{65536, 2, 64}, {16384, 4, 32}, {32768, 8, 64}, {49152, 12, 64}, {65536, 8, 64}};
}

std::vector<Geometry> sweep_geometries() {
    std::vector<Geometry> all;
    for (const uint32_t kb : {4, 8, 16, 32, 64})
        for (const uint32_t ways : {1, 2, 4, 8, 0}) all.push_back({kb * 1024, ways, 64});
    return all;
}

}  // namespace lockstep::icache
