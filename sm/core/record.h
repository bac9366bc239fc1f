// record.h - where a fetched value goes.
#pragma once

#include <string>

#include <lockstep/record.h>

namespace lockstep::sm {

// Where a fetched value goes. `fixed` mode copies at most capacity bytes and always reports the
// full length.
struct ValueOut {
    std::string* text = nullptr;  // resized to fit; or
    std::byte* fixed = nullptr;
    size_t capacity = 0;
    size_t bytes = 0;  // full length of the value, set when found
};

}  // namespace lockstep::sm
