// zero_bytes.h - whether memory holds nothing but zeros.
#pragma once

#include <cstddef>
#include <cstring>

namespace lockstep {

// Each byte equals the next one, which the library compares by vectors.
inline bool all_zero(const std::byte* data, size_t bytes) {
    return bytes == 0 || (*data == std::byte{0} && std::memcmp(data, data + 1, bytes - 1) == 0);
}

}  // namespace lockstep
