// losses.h - what of a store could not be read, as a list for people and programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::cli {

struct Loss {
    std::string object = {};           // index cities; empty: unknown
    std::string what;                  // range, value, record, page, warning
    std::vector<uint32_t> pages = {};  // that would have it
    std::string low = {}, high = {};   // range: low <= keys < high
    bool infinite = false;             // range: no upper bound
    std::string key = {};              // value: of which key; record: which id
    std::string why = {};

    std::string text() const;
    nlohmann::ordered_json json() const;
};

// A string, or {"hex": "00ff"} if the bytes are no text.
nlohmann::ordered_json bytes_json(Slice bytes);
// A warning is no loss.
size_t count_losses(const std::vector<Loss>& losses);

}  // namespace lockstep::cli
