// losses.cc - losses as text and JSON.
#include "tools/cli/rows/losses.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {

nlohmann::ordered_json bytes_json(Slice bytes) {
    if (is_plain_text(bytes)) return std::string(bytes);
    return {{"hex", to_hex(bytes)}};
}

std::string Loss::text() const {
    std::string line = what == "warning" ? "note: " : "lost: ";
    if (!object.empty()) line += object + ": ";
    if (what == "range")
        line += fmt::format("keys from {} to {}", low.empty() ? "the first" : readable(low),
                            infinite ? "the last" : "before " + readable(high));
    else if (what == "value") line += "value of key " + readable(key);
    else if (what == "record") line += "record " + key;
    if (!pages.empty())
        line += fmt::format("{}page{} {}", line.ends_with(": ") ? "" : ", ",
                            pages.size() > 1 ? "s" : "", fmt::join(pages, " "));
    if (!why.empty()) line += line.ends_with(": ") ? why : ": " + why;
    return line;
}

nlohmann::ordered_json Loss::json() const {
    nlohmann::ordered_json j = {{"what", what}};
    if (!object.empty()) j["object"] = object;
    if (what == "range") {
        j["from"] = bytes_json(low);
        if (!infinite) j["before"] = bytes_json(high);
    }
    if (!key.empty() || what == "value") j["key"] = bytes_json(key);
    if (!pages.empty()) j["pages"] = pages;
    if (!why.empty()) j["why"] = why;
    return j;
}

size_t count_losses(const std::vector<Loss>& losses) {
    return static_cast<size_t>(
        std::ranges::count_if(losses, [](const Loss& loss) { return loss.what != "warning"; }));
}

}  // namespace lockstep::cli
