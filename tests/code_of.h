// code_of.h - the error code of a result, for expectations.
#pragma once

#include <lockstep/result.h>

namespace lockstep {

// ErrorCode::none: no error.
inline ErrorCode code_of(const auto& result) {
    return result.has_value() ? ErrorCode::none : result.error().code;
}

}  // namespace lockstep
