// plain_target.h - the one index or heap that a table fills.
#pragma once

#include <optional>
#include <string>

#include <lockstep/columns.h>
#include <lockstep/store.h>

namespace lockstep::cli {

struct PlainTarget {
    std::string object;
    bool is_index = true;
    Columns columns;
    bool describes = false;  // the store does not have the columns yet
};

// Finds the object and its columns; `describe` are those of a new one, or of one that is not
// described. Throws Failed.
PlainTarget find_plain_target(Store& store, const std::string& object,
                              const std::optional<std::string>& describe);

}  // namespace lockstep::cli
