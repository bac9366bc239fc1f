// content.h - the content of a store as the oracle sees it, and changes of it.
//
// Concepts   Objects have names; rows have keys. A heap is a map from record id to record. The key
//            has eight bytes that sort like record ids, so heaps and indexes look alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::sim {

using Value = std::shared_ptr<const std::string>;  // null: no row
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
    Value value;  // of the row; null: erased
};
using Changes = std::vector<Change>;

void apply(Content& content, const Change& change);
// Text of the first few differences; empty if there are none.
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
// Short printable text for messages.
std::string show(std::string_view bytes);
std::string show(const Value& value);

}  // namespace lockstep::sim
