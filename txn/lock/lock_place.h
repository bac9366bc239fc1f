// lock_place.h - what the name of a lock stands for, as the operation that waits for it knows.
//
// Concepts   A name is a hash. Only the operation that asks for it knows the key or record. While
//            it waits, LockOwner::place tells others, and the table of hot locks keeps a copy.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <lockstep/types.h>
#include "threads/base/check.h"

namespace lockstep::txn {

// line: no record, but the turn of a repetition (lock_line.h).
enum class PlaceKind : uint8_t { unknown, key, gap_above, gap_at_end, record, line };

struct LockPlace {
    static constexpr size_t kKeyBytesKept = 48;

    PlaceKind kind = PlaceKind::unknown;
    uint16_t key_bytes = 0;        // of the whole key
    char key[kKeyBytesKept] = {};  // its begin
    RecordId record{};             // of a heap

    static LockPlace of_key(PlaceKind kind, Slice key) {
        DCHECK(key.size() <= UINT16_MAX && (key.empty() || key.data() != nullptr));
        LockPlace place{.kind = kind, .key_bytes = static_cast<uint16_t>(key.size())};
        if (!key.empty()) std::memcpy(place.key, key.data(), std::min(key.size(), kKeyBytesKept));
        return place;
    }
    Slice key_kept() const { return {key, std::min<size_t>(key_bytes, kKeyBytesKept)}; }
};

// Copied at the end of each wait.
static_assert(std::is_trivially_copyable_v<LockPlace> && sizeof(LockPlace) <= 64);

}  // namespace lockstep::txn
