// columns_index.h - the index that says what the bytes of each index and heap mean.
//
// Concepts   An ordinary index, so dumps, backups and older versions carry it. Its key is the name
//            of the object, because numbers change when a dump is loaded; its value is the
//            canonical text.
#pragma once

#include <string>

#include <lockstep/columns.h>
#include "threads/base/error_detail.h"

namespace lockstep::sm {

inline constexpr std::string_view kColumnsIndex = "lockstep.columns";

[[gnu::cold]] inline Unexpected not_described(std::string_view name) {
    return fail_with(ErrorCode::no_such_record, "columns",
                     "\"" + std::string(name) + "\" is not described; Store::describe() does");
}

}  // namespace lockstep::sm
