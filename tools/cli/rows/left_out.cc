// left_out.cc - what is said of a secondary index that is not in a copy.
#include "tools/cli/rows/left_out.h"

#include <fmt/core.h>

#include "tools/cli/rows/losses.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {

std::string LeftOut::text() const {
    return fmt::format(
        "note: {}secondary index {} of {} is left out: only the application has its key function "
        "(its call of Store::create_index() with .of{} builds the index from all records)",
        unique ? "unique " : "", readable(name), readable(of),
        unique ? ", .key and .unique" : " and .key");
}

nlohmann::ordered_json LeftOut::json() const {
    return {{"name", bytes_json(name)}, {"of", bytes_json(of)}, {"unique", unique}};
}

nlohmann::ordered_json json_of(const std::vector<LeftOut>& all) {
    nlohmann::ordered_json array = nlohmann::ordered_json::array();
    for (const LeftOut& one : all) array.push_back(one.json());
    return array;
}

}  // namespace lockstep::cli
