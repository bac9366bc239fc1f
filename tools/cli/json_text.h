// json_text.h - JSON as the sub-commands print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::cli {

// One line, or lines indented by `indent` spaces. Names, paths and keys may be any bytes: those
// that are no UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
    return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::cli
