// content.h - what a store holds, as the oracle sees it: objects by name, rows by key; and changes
// of it.
//
// Concepts   A heap is a map from record id to record, the id as eight bytes that sort as ids do,
//            so that indexes and heaps look alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::sim {

using Value = std::shared_ptr<const std::string>;  // null: gone
inline Value value_of(std::string bytes) {
    return std::make_shared<const std::string>(std::move(bytes));
}
inline bool same(const Value& a, const Value& b) { return a == b || (a && b && *a == *b); }

using Rows = std::map<std::string, Value, std::less<>>;
struct ObjectContent {
    bool is_index = true;
    Rows rows;
};
using Content = std::map<std::string, ObjectContent, std::less<>>;

struct Change {
    enum Kind : uint8_t { create_index, create_heap, drop, row } kind = row;
    std::string object, key;
    Value value;  // of a row; null: erased
};
using Changes = std::vector<Change>;

void apply(Content& content, const Change& change);
// First few differences, empty if there are none.
std::string difference(const Content& expected, const Content& seen);

inline std::string key_of_record(RecordId id) {
    std::string key(8, '\0');
    for (int i = 0; i < 4; ++i)
        key[static_cast<size_t>(i)] = static_cast<char>(id.page.value >> (24 - 8 * i));
    key[6] = static_cast<char>(id.slot.value >> 8);
    key[7] = static_cast<char>(id.slot.value);
    return key;
}
inline RecordId record_of_key(std::string_view key) {
    const auto byte = [&](size_t i) {
        return static_cast<uint32_t>(static_cast<unsigned char>(key[i]));
    };
    return {PageId{byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3)},
            SlotNo{static_cast<uint16_t>(byte(6) << 8 | byte(7))}};
}
// For messages: printable, short.
std::string show(std::string_view bytes);
std::string show(const Value& value);

}  // namespace lockstep::sim
