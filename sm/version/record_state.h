// record_state.h - what one record is at some moment: live or not, and its bytes as the page has
// them.
//
// Concepts   Versions are kept for keys of B-trees and for slots of heap pages. A key names the
//            record wherever splits have put it. A slot never moves, so a heap record that has
//            moved to another page is two slots, and each of them has versions of its own.
//            A *part* is what a change replaces: either a range of the record's bytes, whose number
//            stays, or the whole record with its bits.
#pragma once

#include <cstring>
#include <string>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::sm {

// The name of a record within its object: a key, or a slot (slot_key()).
struct RecordName {
    ObjectId object;
    Slice key;
    uint64_t hash;
};
inline RecordName name_of_key(ObjectId object, Slice key) {
    return {object, key, txn::key_lock_name(object, key).value};
}
// The slot of a heap page, as a key.
struct SlotKey {
    char bytes[sizeof(uint32_t) + sizeof(uint16_t)];
    explicit SlotKey(RecordId id) {
        std::memcpy(bytes, &id.page.value, sizeof id.page.value);
        std::memcpy(bytes + sizeof id.page.value, &id.slot.value, sizeof id.slot.value);
    }
    operator Slice() const { return {bytes, sizeof bytes}; }  // NOLINT(google-explicit-constructor)
};
inline RecordId slot_of(Slice key) {
    RecordId id{};
    std::memcpy(&id.page.value, key.data(), sizeof id.page.value);
    std::memcpy(&id.slot.value, key.data() + sizeof id.page.value, sizeof id.slot.value);
    return id;
}
inline RecordName name_of_slot(ObjectId object, const SlotKey& key) {
    return {object, key, txn::record_lock_name(object, slot_of(key)).value};
}

struct RecordState {
    bool live = false;
    uint8_t bits = 0;  // of the slot, as its structure defines them
    Slice bytes = {};  // also of a ghost, if it has any
};
struct RecordPart {
    uint16_t offset = 0, bytes = 0;
    uint32_t whole = 0;  // 1: the whole record, whose length is `bytes`; fills the word

    static RecordPart all(Slice record) {
        DCHECK(record.size() <= UINT16_MAX);
        return {0, static_cast<uint16_t>(record.size()), 1};
    }
    bool covers(const RecordPart& other) const {
        return whole || (!other.whole && offset <= other.offset &&
                         other.offset + other.bytes <= offset + bytes);
    }
    Slice of(Slice record) const {
        DCHECK(whole ? bytes == record.size() : size_t{offset} + bytes <= record.size());
        return {record.data() + offset, bytes};
    }
};
// The same with memory of its own.
struct RecordCopy {
    bool live = false;
    uint8_t bits = 0;
    std::string bytes;

    RecordCopy() = default;
    explicit RecordCopy(const RecordState& state)
        : live(state.live), bits(state.bits), bytes(state.bytes) {}
    RecordState state() const { return {live, bits, bytes}; }
};

}  // namespace lockstep::sm
