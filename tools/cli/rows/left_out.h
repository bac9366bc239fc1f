// left_out.h - secondary indexes that a dump describes and a copy of a store lacks.
//
// Concepts   A dump has the records only. The entries of a secondary index follow from the records
//            and from a key function, which the application has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {

struct LeftOut {
    std::string name, of;  // its own, and that of its primary
    bool unique = false;

    // One line that ends with the remedy.
    std::string text() const;
    nlohmann::ordered_json json() const;
};

nlohmann::ordered_json json_of(const std::vector<LeftOut>& all);

}  // namespace lockstep::cli
