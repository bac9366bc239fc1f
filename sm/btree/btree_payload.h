// btree_payload.h - payloads of the B-tree's page actions, as they stand in the log.
//
// Layout     Each payload begins with the struct below. The bytes named in its comment follow
//            without padding. Numbers are little-endian. put, put_many, replace,
//            replace_many, set_ghost, set_ghosts and revive carry whole keys, because undo finds
//            the record by key.
#pragma once

#include "sm/btree/btree_node.h"
#include "sm/change/log_kinds.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm::payload {

struct Put {  // key, value
    uint16_t slot, flags, key_bytes, value_bytes;
};
struct PutMany {  // `count` times: RecordHead, key, value; in slots from `slot` on
    uint16_t slot, count;
};
struct RecordHead {
    uint16_t key_bytes, value_bytes;
};
enum ReplaceFlags : uint16_t {
    kOldOverflow = 1,
    kNewOverflow = 2,
    kBecomesGhost = 4,  // undo of a revive: the record goes back to being a ghost
    // Beside one of the first two, not in undo: the bytes are the whole values, from offset 0 on.
    kWhole = 8,
};
// Key, old bytes, new bytes: value[offset, offset + old_bytes) is replaced.
struct Replace {
    uint16_t slot, flags, key_bytes, offset, old_bytes, new_bytes;
};
struct ReplaceMany {  // `count` times: ReplaceRow, key, old bytes, new bytes; lengths stay
    uint16_t count, reserved;
};
struct ReplaceRow {  // value[offset, offset + bytes) is replaced
    uint16_t slot, key_bytes, offset, bytes;
};
struct SetGhost {  // key
    uint16_t slot, ghost, key_bytes, reserved;
};
// `count` times: GhostRow, key behind the prefix, in ascending slots. In front of them the prefix
// that all keys share.
struct SetGhosts {
    uint16_t count, ghost, prefix_bytes, reserved;
};
struct GhostRow {
    uint16_t slot, key_bytes;
};
struct Revive {  // key, old value, new value; flags of ReplaceFlags
    uint16_t slot, flags, key_bytes, old_bytes, new_bytes, reserved;
};
struct Remove {  // u16 slots, ascending
    uint16_t count, reserved;
};
struct Format {  // low fence, high fence, records (node::RecordWriter)
    uint32_t page, object, link;
    uint16_t level, count, low_bytes, high_bytes;
};
struct Truncate {  // high fence; slots [0, keep) stay
    uint16_t keep, high_bytes;
    uint32_t right;  // leaf: its new right sibling; inner nodes have none
};
struct Absorb {  // u16 slots to remove first, high fence, records
    uint16_t removed, count, high_bytes, reserved;
    uint32_t right;
};
inline constexpr uint16_t kLink = 0xffff;  // as a slot: right sibling or first child
struct SetChild {
    uint32_t page;
    uint16_t slot, reserved;
};
static_assert(kOnDisk<Put, 8> && kOnDisk<PutMany, 4> && kOnDisk<RecordHead, 4>);
static_assert(kOnDisk<SetGhosts, 8> && kOnDisk<GhostRow, 4>);
static_assert(kOnDisk<Replace, 12> && kOnDisk<SetGhost, 8> && kOnDisk<Revive, 12>);
static_assert(kOnDisk<ReplaceMany, 4> && kOnDisk<ReplaceRow, 8>);
static_assert(kOnDisk<Remove, 4> && kOnDisk<Format, 20> && kOnDisk<Truncate, 8>);
static_assert(kOnDisk<Absorb, 12> && kOnDisk<SetChild, 8>);
static_assert(offsetof(Format, level) == 12 && offsetof(Truncate, right) == 4);
static_assert(offsetof(Absorb, right) == 8 && offsetof(SetChild, slot) == 4);

template <class T>
inline Slice bytes_of(const T& t) {
    return {reinterpret_cast<const char*>(&t), sizeof t};
}

// Takes a payload apart from the front. KI-2: logged payloads are well-formed, so a short payload
// is a program error.
class Reader {
public:
    explicit Reader(Slice payload) : rest_(payload) {}
    template <class T>
    T get() {
        return node::load<T>(bytes(sizeof(T)).data());
    }
    Slice bytes(size_t n) {
        CHECK(n <= rest_.size());
        const Slice piece = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return piece;
    }

    bool at_end() const { return rest_.empty(); }

private:
    Slice rest_;
};

// The rows of a payload of SetGhosts. Calls row(slot, key); the key's bytes are those of `key`,
// which the next row changes.
template <class Row>
inline SetGhosts each_ghost(Slice payload, std::string& key, Row row) {
    Reader in(payload);
    const auto head = in.get<SetGhosts>();
    DCHECK(head.count != 0 && head.prefix_bytes <= kKeyBytesMax);
    key.assign(in.bytes(head.prefix_bytes));
    for (unsigned left = head.count; left != 0; --left) {
        const auto at = in.get<GhostRow>();
        key.resize(head.prefix_bytes);
        key.append(in.bytes(at.key_bytes));
        row(unsigned{at.slot}, Slice(key));
    }
    CHECK(in.at_end());
    return head;
}

}  // namespace lockstep::sm::payload
