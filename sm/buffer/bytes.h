// bytes.h - short pieces of memory, read, written, copied and compared without a call.
//
// Concepts   Most keys, values and log payloads are so short that a call of memcpy costs more than
//            the copy. A piece is moved by two overlapping loads and stores of the widest type that
//            fits into it. Both loads come first, so the pieces may overlap.
#pragma once

#include <cstdint>
#include <cstring>

#include <lockstep/types.h>

#include "threads/base/check.h"

namespace lockstep::sm::bytes {

template <class T>
inline T load(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
template <class T>
inline void store(void* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

struct Sixteen {
    uint64_t low, high;
};

template <class T>
[[gnu::always_inline]] inline void move_ends(char* to, const char* from, size_t n) {
    const T first = load<T>(from), last = load<T>(from + n - sizeof(T));
    store(to, first);
    store(to + n - sizeof(T), last);
}

// Returns the end of the copy. Takes null pointers with length 0. The empty asm hides the length's
// bound from the compiler. Otherwise it would copy by "rep movs", which takes some thirty cycles
// before the first byte.
inline char* copy_bytes(char* to, Slice from) {
    size_t n = from.size();
    const char* at = from.data();
    DCHECK(n == 0 || (at != nullptr && to != nullptr));
    if (n > 32) {
        asm("" : "+r"(n));
        std::memcpy(to, at, n);
    } else if (n >= 16) {
        move_ends<Sixteen>(to, at, n);
    } else if (n >= 8) {
        move_ends<uint64_t>(to, at, n);
    } else if (n >= 4) {
        move_ends<uint32_t>(to, at, n);
    } else if (n != 0) {
        const char first = at[0], middle = at[n / 2], last = at[n - 1];
        to[0] = first;
        to[n / 2] = middle;
        to[n - 1] = last;
    }
    return to + n;
}

inline bool same_bytes(const char* a, const char* b, size_t n) {
    if (n > 16) [[unlikely]]
        return std::memcmp(a, b, n) == 0;
    if (n >= 8)
        return load<uint64_t>(a) == load<uint64_t>(b) &&
               load<uint64_t>(a + n - 8) == load<uint64_t>(b + n - 8);
    if (n >= 4)
        return load<uint32_t>(a) == load<uint32_t>(b) &&
               load<uint32_t>(a + n - 4) == load<uint32_t>(b + n - 4);
    return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

}  // namespace lockstep::sm::bytes
