// btree_key_order.h - order of keys as callers pass them, without a call where they are short.
#pragma once

#include "sm/btree/btree_node.h"

namespace lockstep::sm {

// The keys' first four bytes and their last four, in order: equal where they are the same bytes.
// Four to eight bytes.
inline uint64_t ends_of_key(Slice key) {
    DCHECK(key.size() >= 4 && key.size() <= 8);
    const uint64_t front = __builtin_bswap32(node::load<uint32_t>(key.data()));
    return front << 32 | __builtin_bswap32(node::load<uint32_t>(key.data() + key.size() - 4));
}

// a < b.
inline bool key_below(Slice a, Slice b) {
    if (a.size() != b.size() || a.size() < 4) [[unlikely]]
        return a < b;
    if (a.size() <= 8) return ends_of_key(a) < ends_of_key(b);
    const uint64_t x = __builtin_bswap64(node::load<uint64_t>(a.data())),
                   y = __builtin_bswap64(node::load<uint64_t>(b.data()));
    return x != y ? x < y : a < b;
}

}  // namespace lockstep::sm
