// on_disk.h - what every struct that goes to disk must prove at compile time.
#pragma once

#include <cstddef>
#include <type_traits>

namespace lockstep {

// True if T has exactly `bytes` bytes, may be copied as bytes, and has no padding. Padding would
// write undefined bytes to disk.
template <class T, size_t bytes>
inline constexpr bool kOnDisk = sizeof(T) == bytes && std::is_trivially_copyable_v<T> &&
                                std::has_unique_object_representations_v<T>;

}  // namespace lockstep
