// btree_patch.h - overwriting bytes of a value that keeps its length: which of them differ.
#pragma once

#include "sm/btree/btree_node.h"

namespace lockstep::sm {

// Number of equal bytes at the front, eight at a time.
inline size_t equal_front(const char* a, const char* b, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        if (const uint64_t x = node::load<uint64_t>(a + i) ^ node::load<uint64_t>(b + i))
            return i + static_cast<size_t>(__builtin_ctzll(x)) / 8;
    while (i < n && a[i] == b[i]) ++i;
    return i;
}
// The same from the back: `a` and `b` point behind the last byte.
inline size_t equal_back(const char* a, const char* b, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        if (const uint64_t x = node::load<uint64_t>(a - i - 8) ^ node::load<uint64_t>(b - i - 8))
            return i + static_cast<size_t>(__builtin_clzll(x)) / 8;
    while (i < n && a[-1 - static_cast<ptrdiff_t>(i)] == b[-1 - static_cast<ptrdiff_t>(i)]) ++i;
    return i;
}

// Where a value's bytes from `offset` on differ from those of `part`, from the first difference to
// the last. The part lies within the value. Empty pieces: nowhere.
struct Difference {
    size_t offset = 0;
    Slice before, after;  // of one length
};
inline Difference difference(Slice value, size_t offset, Slice part) {
    DCHECK(offset <= value.size() && part.size() <= value.size() - offset);
    const char* const now = value.data() + offset;
    const size_t front = equal_front(now, part.data(), part.size());
    if (front == part.size()) return {};
    const size_t back =
        equal_back(now + part.size(), part.data() + part.size(), part.size() - front);
    DCHECK(front + back < part.size());
    const size_t bytes = part.size() - front - back;
    return {offset + front, Slice(now + front, bytes), part.substr(front, bytes)};
}

}  // namespace lockstep::sm
