// btree_node.h - one B-tree page: slots with key heads, records, fences, prefix truncation; search
// and change of a single page.
//
// Concepts   All keys of a node lie in [low, high). The common prefix of low and high is stored
//            once.
//            The header's field "common" holds up to seven further bytes that all keys share. It
//            serves roots, whose fences are infinite.
//            A slot holds the four bytes behind those as a number, so most comparisons of a search
//            never leave the slot array.
//            Inner nodes: slot i leads to keys in [key i, key i+1), first_child to those in [low,
//            key 0).
// Layout     Behind the page header: NodeHeader (offset 32), slots of 8 bytes from 64 up to
//            hole_begin, hole, heap from hole_end to the end of the page. A heap record is u16
//            value bytes, key without prefix, value. An inner value is u32 child page.
// Invariants BN-1 hole_begin = 64 + 8 * count. Heap bytes = live records + fences + garbage; none
//                 overlaps another. [checked: check_node()]
//            BN-2 Slots ascend strictly by key. All suffixes begin with the common bytes. A head is
//                 the four bytes behind them, zero padded.
//            BN-3 A reader of a page that may change concurrently never follows an offset out of
//                 the page. Lengths are clamped here, and the caller validates before it trusts
//                 them.
// Source     Graefe, "Modern B-Tree Techniques", 2011 (fences, truncation); Lomet, 2001 and
//            LeanStore (heads in the slots).
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "sm/buffer/bytes.h"
#include "sm/buffer/page.h"
#include "sm/core/record.h"
#include "threads/base/check.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm::node {

struct NodeHeader {
    uint16_t count;
    uint16_t prefix;  // bytes that low and high share; 0 if high is infinite
    // Low fence: place and length; an empty fence is the lowest key of all.
    uint16_t low_at;
    uint16_t low_bytes;
    uint16_t high_at;
    uint16_t high_bytes;  // kInfinite: no upper bound
    uint16_t garbage;     // heap bytes that no slot or fence refers to
    uint16_t ghosts;
    uint32_t link;  // leaf: right sibling; inner: first child
    // Slot of the newest put, and how many puts in a row each followed the one before:
    uint16_t last_put;
    uint16_t run;    // a split recognises ascending runs by it
    char common[7];  // bytes behind the prefix that all keys share
    uint8_t common_bytes;
};
static_assert(kOnDisk<NodeHeader, 32>);
static_assert(offsetof(NodeHeader, low_at) == 4 && offsetof(NodeHeader, high_at) == 8);
static_assert(offsetof(NodeHeader, garbage) == 12 && offsetof(NodeHeader, ghosts) == 14);
static_assert(offsetof(NodeHeader, link) == 16 && offsetof(NodeHeader, last_put) == 20);
static_assert(offsetof(NodeHeader, common) == 24 && offsetof(NodeHeader, common_bytes) == 31);

struct Slot {
    uint32_t head;
    uint16_t at;
    uint16_t bits;  // key bytes behind the prefix, and flags
};
static_assert(kOnDisk<Slot, 8> && offsetof(Slot, at) == 4 && offsetof(Slot, bits) == 6);

inline constexpr uint16_t kGhost = 0x8000, kOverflow = 0x4000, kKeyBits = 0x07ff,
                          kInfinite = 0xffff;
static_assert((kGhost & kOverflow) == 0 && ((kGhost | kOverflow) & kKeyBits) == 0);
static_assert(kInfinite > kPageBytes);  // no fence is that long
inline constexpr unsigned kHeaderAt = sizeof(PageHeader), kSlotsAt = kHeaderAt + sizeof(NodeHeader);
inline constexpr unsigned kSlotsMax = (kPageBytes - kSlotsAt) / sizeof(Slot);
inline constexpr unsigned kRecordHead = 2;  // u16 value bytes
inline constexpr unsigned kSlotCost = sizeof(Slot) + kRecordHead;
// Longest key + value kept in the node. Two such records and two long fences fit into a page, so a
// split always helps. A longer value takes a page at least, which it fills by three eighths.
inline constexpr size_t kInlineMax = 3000;
static_assert(2 * (kSlotCost + kInlineMax) + 2 * kKeyBytesMax <= kPageBytes - kSlotsAt);
static_assert(kKeyBytesMax <= kKeyBits && kSlotsMax <= UINT16_MAX);

using bytes::copy_bytes;
using bytes::load;
using bytes::same_bytes;
using bytes::store;

inline const NodeHeader& header(const Page& p) {
    return *reinterpret_cast<const NodeHeader*>(p.bytes() + kHeaderAt);
}
inline NodeHeader& header(Page& p) { return *reinterpret_cast<NodeHeader*>(p.bytes() + kHeaderAt); }
inline const Slot* slots(const Page& p) {
    return reinterpret_cast<const Slot*>(p.bytes() + kSlotsAt);
}
inline Slot* slots(Page& p) { return reinterpret_cast<Slot*>(p.bytes() + kSlotsAt); }
inline const char* chars(const Page& p) { return reinterpret_cast<const char*>(p.bytes()); }
inline char* chars(Page& p) { return reinterpret_cast<char*>(p.bytes()); }

// A piece of the page, cut off at its end (BN-3).
inline Slice bounded(const Page& p, size_t at, size_t bytes) {
    at = std::min(at, kPageBytes);
    return {chars(p) + at, std::min(bytes, kPageBytes - at)};
}

inline unsigned count(const Page& p) { return std::min<unsigned>(header(p).count, kSlotsMax); }
inline bool is_leaf(const Page& p) { return p.header.level == 0; }
inline Slice prefix(const Page& p) { return bounded(p, header(p).low_at, header(p).prefix); }
inline Slice low(const Page& p) { return bounded(p, header(p).low_at, header(p).low_bytes); }
inline bool high_infinite(const Page& p) { return header(p).high_bytes == kInfinite; }
inline Slice high(const Page& p) { return bounded(p, header(p).high_at, header(p).high_bytes); }
inline PageId right(const Page& p) { return is_leaf(p) ? PageId{header(p).link} : kPageNone; }
inline PageId first_child(const Page& p) { return is_leaf(p) ? kPageNone : PageId{header(p).link}; }
inline bool ghost(const Page& p, unsigned slot) { return slots(p)[slot].bits & kGhost; }
inline bool overflow(const Page& p, unsigned slot) { return slots(p)[slot].bits & kOverflow; }

// Key without the prefix, and value.
inline Slice suffix(const Page& p, unsigned slot) {
    const Slot s = slots(p)[slot];
    return bounded(p, s.at + kRecordHead, s.bits & kKeyBits);
}
inline Slice value(const Page& p, unsigned slot) {
    const Slot s = slots(p)[slot];
    const unsigned at = std::min<unsigned>(s.at, kPageBytes - kRecordHead);
    return bounded(p, at + kRecordHead + (s.bits & kKeyBits), load<uint16_t>(chars(p) + at));
}
// Both at once.
struct Record {
    Slice suffix, value;
};
inline Record record(const Page& p, unsigned slot) {
    const Slot s = slots(p)[slot];
    const char* const at = chars(p) + std::min<size_t>(s.at, kPageBytes - kRecordHead);
    const size_t key_bytes = s.bits & kKeyBits, value_bytes = load<uint16_t>(at);
    const char *const key = at + kRecordHead, *const end = chars(p) + kPageBytes;
    if (key_bytes + value_bytes > static_cast<size_t>(end - key)) [[unlikely]]
        return {suffix(p, slot), value(p, slot)};
    return {{key, key_bytes}, {key + key_bytes, value_bytes}};
}
inline const char* child_text(const Page& p, unsigned slot) {
    const Slot s = slots(p)[slot];
    return chars(p) + std::min<unsigned>(s.at + kRecordHead + (s.bits & kKeyBits), kPageBytes - 4);
}
inline PageId child(const Page& p, unsigned slot) {
    return PageId{load<uint32_t>(child_text(p, slot))};
}
// -1 stands for first_child.
inline PageId child_at(const Page& p, int slot) {
    return slot < 0 ? first_child(p) : child(p, static_cast<unsigned>(slot));
}
// Where the number stands that child_at() reads.
inline const char* child_address(const Page& p, int slot) {
    return slot < 0 ? chars(p) + kHeaderAt + offsetof(NodeHeader, link)
                    : child_text(p, static_cast<unsigned>(slot));
}
// Prefix and suffix joined in `buffer`. The result is clamped to `capacity`.
inline Slice full_key(const Page& p, unsigned slot, char* buffer, size_t capacity) {
    const Slice a = prefix(p).substr(0, capacity), b = suffix(p, slot);
    const char* end = copy_bytes(copy_bytes(buffer, a), b.substr(0, capacity - a.size()));
    return {buffer, static_cast<size_t>(end - buffer)};
}
std::string full_key(const Page& p, unsigned slot);

// First four or eight bytes as a number that orders like the bytes; zeros pad a shorter key.
inline uint32_t key_head(const char* key, size_t bytes) {
    if (bytes >= 4) [[likely]]
        return __builtin_bswap32(load<uint32_t>(key));
    if (bytes == 0) return 0;
    const auto at = [key](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(key[i])); };
    return at(0) << 24 | (bytes > 1 ? at(1) << 16 : 0) | (bytes > 2 ? at(2) << 8 : 0);
}
inline uint64_t key_head8(const char* key, size_t bytes) {
    if (bytes >= 8) [[likely]]
        return __builtin_bswap64(load<uint64_t>(key));
    const uint64_t first = uint64_t{key_head(key, bytes)} << 32;
    return bytes > 4 ? first | key_head(key + 4, bytes - 4) : first;
}

// Order of two suffixes whose first `same` bytes, zero padded, are equal (common bytes and head).
inline int compare_tails(Slice a, Slice b, size_t same) {
    const size_t shorter = std::min(a.size(), b.size());
    if (shorter > same) {
        if (shorter >= same + 8) [[unlikely]] {
            if (const int order = std::memcmp(a.data() + same, b.data() + same, shorter - same))
                return order;
        } else {
            const uint64_t x = key_head8(a.data() + same, shorter - same),
                           y = key_head8(b.data() + same, shorter - same);
            if (x != y) return x < y ? -1 : 1;
        }
    }
    return a.size() < b.size() ? -1 : a.size() > b.size();
}

inline bool covers(const Page& p, Slice key) {
    return key.compare(low(p)) >= 0 && (high_infinite(p) || key.compare(high(p)) < 0);
}

// --- space
inline unsigned free_bytes(const Page& p) {
    return static_cast<unsigned>(p.header.hole_end - p.header.hole_begin) + header(p).garbage;
}
inline bool fits(const Page& p, size_t key_bytes, size_t value_bytes) {
    DCHECK(key_bytes >= header(p).prefix);  // a key of this node
    return free_bytes(p) >= kSlotCost + (key_bytes - header(p).prefix) + value_bytes;
}
inline size_t record_bytes(const Page& p, unsigned slot) {
    return kRecordHead + suffix(p, slot).size() + value(p, slot).size();
}

// --- change (exclusive holder; the space was checked before)
void put(Page& p, unsigned slot, uint16_t flags, Slice key_suffix, Slice value);
// The same for records without flags whose keys ascend: they take the slots from `slot` on.
struct NewEntry {
    Slice key_suffix, value;
};
void put_run(Page& p, unsigned slot, std::span<const NewEntry> entries);
void remove(Page& p, unsigned slot);
// The first `keep` slots stay, `high_fence` becomes the upper fence. It does not point into the
// page.
void cut(Page& p, unsigned keep, Slice high_fence);
// value[offset, offset + old_bytes) becomes `fresh`; the length may change.
void splice(Page& p, unsigned slot, unsigned offset, unsigned old_bytes, Slice fresh);
// The same where the length stays.
[[gnu::always_inline]] inline void overwrite(Page& p, unsigned slot, unsigned offset, Slice fresh) {
    CHECK(slot < header(p).count);
    const Slot s = slots(p)[slot];
    const size_t at = std::min<size_t>(s.at, kPageBytes - kRecordHead),
                 begin = at + kRecordHead + (s.bits & kKeyBits) + offset,
                 end = begin + fresh.size();
    CHECK(offset + fresh.size() <= load<uint16_t>(chars(p) + at) && end <= kPageBytes);
    copy_bytes(chars(p) + begin, fresh);
}
void set_bits(Page& p, unsigned slot, uint16_t set, uint16_t clear);
// Of a node that is about to change or has changed: BN-1 without the records.
inline void assert_state(const Page& p) {
    DCHECK(p.kind() == PageKind::btree && header(p).count <= kSlotsMax);
    DCHECK(p.header.hole_begin == kSlotsAt + header(p).count * sizeof(Slot));
    DCHECK(p.header.hole_end >= p.header.hole_begin && p.header.hole_end <= kPageBytes);
    DCHECK(header(p).garbage <= kPageBytes - p.header.hole_end);
    DCHECK(header(p).ghosts <= header(p).count && header(p).prefix <= header(p).low_bytes);
    DCHECK(!high_infinite(p) || header(p).prefix == 0);
    DCHECK(header(p).count == 0 || header(p).common_bytes <= sizeof header(p).common);
}
[[gnu::noinline]] void compact(Page& p);

size_t common_prefix(Slice a, Slice b);
inline size_t fence_prefix(Slice low, Slice high, bool infinite) {
    return infinite ? 0 : std::min(low.size(), common_prefix(low, high));
}
// Shortest key s with left < s <= right.
inline Slice separator(Slice left, Slice right) {
    DCHECK(left < right);
    return right.substr(0, common_prefix(left, right) + 1);
}

// Builds a new node. `low` and `high` must not point into the page.
class Builder {
public:
    struct Frame {
        PageId page;
        ObjectId object;
        uint8_t level = 0;
        Slice low, high;
        bool infinite = true;
        // Right sibling of a leaf, first child of an inner node.
        PageId link = kPageNone;
    };
    Builder(Page& page, const Frame& frame);
    ~Builder();  // finds the common bytes and sets the heads
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;
    // Key behind the new prefix = a + b.
    void append(uint16_t flags, Slice a, Slice b, Slice value);
    // A record of another node, whose key loses `drop` bytes at the front.
    void append_shorter(const Page& old, unsigned slot, size_t drop);
    bool fits(size_t suffix_bytes, size_t value_bytes) const {
        return kSlotCost + suffix_bytes + value_bytes <=
               static_cast<size_t>(page_.header.hole_end - page_.header.hole_begin);
    }

private:
    Page& page_;
};

// Records as format and absorb carry them: u16 bits, u16 value bytes, key behind the new prefix,
// value.
struct RecordWriter {
    std::string& out;
    // Key behind the new prefix = a + b.
    void add(uint16_t bits, Slice a, Slice b, Slice value);
    // Slots [from, to) of `p`, for a node whose prefix has `prefix` bytes.
    void add_range(const Page& p, unsigned from, unsigned to, size_t prefix);
};
// For moving `p`'s records to a node with a prefix of `prefix` bytes. Each suffix gets this part of
// `p`'s own prefix in front, and loses `drop` bytes.
struct Shift {
    Slice add;
    size_t drop;
};
Shift shift_of(const Page& p, size_t prefix);

// Checks BN-1, BN-2 and that keys lie within the fences. Empty if sound.
std::string check_node(const Page& p);

}  // namespace lockstep::sm::node
