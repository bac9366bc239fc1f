// heap_page.h - the slotted page of heap files and the page that lists them, with the actions that
// change both.
//
// Concepts   A slot has a capacity, the bytes set aside on the page, besides the length of its
//            content. The capacity never shrinks while the transaction that shortened or deleted
//            the record may still roll back. So an undo always finds its space. A deleted record
//            stays as a ghost with all its bytes until a thread finds its lock free and reclaims
//            it.
// Layout     Data page, behind the page header:
//            32 u32 map page that lists this page.
//            36 u16 index there.
//            38 u16 slots.
//            40 u16 heap begin.
//            42 u16 free bytes (neither slot nor capacity).
//            44 u16 reclaimable bytes (ghosts, unused capacity).
//            46 u16 empty slots.
//            48 slots of 8 bytes {u16 offset, u16 capacity, u16 length, u8 state, u8 0}.
//            Records grow down from the page's end.
//            Stub: its content is the moved copy's place {u32 page, u16 slot, u16 0}.
//            Moved copy: the same, pointing home, then the record.
//            Map page:
//            32 u32 next map page.
//            36 u16 entries.
//            38 u16 0.
//            40 u64 0.
//            48 u32 page[1600].
//            6448 u8 class[1600].
// Invariants HP-1 free bytes = 8144 - 8 x slots - sum of capacities. [checked: check_page()]
//            HP-2 Records overlap neither each other nor the slots. [checked: check_page()]
//            HP-3 Every action is a function of page and payload: padding is zeroed, compaction is
//                 in slot order. [test: HeapPage.RandomOperationsAgainstModelAndRedo]
// Blocking   Nothing here parks or allocates.
#pragma once

#include "sm/buffer/page.h"
#include "threads/base/check.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm::heap {

enum SlotState : uint8_t { kEmpty = 0, kLive = 1, kGhost = 2, kStub = 4, kMoved = 8 };

struct Slot {
    uint16_t offset;
    uint16_t capacity;
    uint16_t length;
    uint8_t state;
    uint8_t unused;
};
static_assert(kOnDisk<Slot, 8> && offsetof(Slot, length) == 4 && offsetof(Slot, state) == 6);

struct DataHeader {
    uint32_t map_page;
    uint16_t map_index;
    uint16_t slot_count;
    uint16_t heap_begin;
    uint16_t free_bytes;
    uint16_t reclaimable;
    uint16_t empty_slots;
};
static_assert(kOnDisk<DataHeader, 16>);
static_assert(offsetof(DataHeader, slot_count) == 6 && offsetof(DataHeader, free_bytes) == 10);

inline constexpr uint32_t kSlotsAt = sizeof(PageHeader) + sizeof(DataHeader);
// A stub fits into the capacity of any record.
inline constexpr uint32_t kCapacityMin = 8;
inline constexpr uint32_t kSlotsMax = (kPageBytes - kSlotsAt) / sizeof(Slot);
static_assert(kSlotsMax <= UINT16_MAX);

inline const DataHeader& data(const Page& page) {
    return *reinterpret_cast<const DataHeader*>(page.body);
}
inline const Slot& slot(const Page& page, uint32_t index) {
    return *reinterpret_cast<const Slot*>(page.bytes() + kSlotsAt + index * sizeof(Slot));
}
inline Slice content(const Page& page, const Slot& at) {
    return {reinterpret_cast<const char*>(page.bytes()) + at.offset, at.length};
}
inline uint32_t capacity_for(size_t length) {
    return length <= kCapacityMin ? kCapacityMin : (static_cast<uint32_t>(length) + 3) & ~3u;
}
// Live, at home (stub or not).
inline bool is_record(const Slot& s) { return (s.state & (kLive | kGhost | kMoved)) == kLive; }

// Where a stub or a moved copy points.
struct Link {
    uint32_t page;
    uint16_t slot;
    uint16_t unused;
};
static_assert(kOnDisk<Link, 8> && offsetof(Link, slot) == 4);
static_assert(sizeof(Link) <= kCapacityMin);  // any record can become a stub
inline RecordId link_of(Slice content) {
    Link link;
    std::memcpy(&link, content.data(), sizeof link);
    return {PageId{link.page}, SlotNo{link.slot}};
}

// Free-space classes of the map: kilobytes that are free or can be reclaimed.
inline constexpr uint32_t kClassBytes = 1024, kClasses = 8;
static_assert((kPageBytes - kSlotsAt) / kClassBytes < kClasses);
inline uint8_t class_of(const Page& page) {
    DCHECK(data(page).free_bytes + data(page).reclaimable <= kPageBytes - kSlotsAt);
    return static_cast<uint8_t>((data(page).free_bytes + data(page).reclaimable) / kClassBytes);
}

// --- map pages
inline constexpr uint32_t kMapEntries = 1600;
struct MapBody {
    uint32_t next;  // kPageNone at the end
    uint16_t entries;
    uint16_t unused;
    uint64_t unused2;
    uint32_t page[kMapEntries];
    uint8_t free_class[kMapEntries];
};
static_assert(kOnDisk<MapBody, 16 + 5 * kMapEntries> && offsetof(MapBody, page) == 16);
static_assert(sizeof(MapBody) <= sizeof(Page::body));
inline const MapBody& map(const Page& page) { return *reinterpret_cast<const MapBody*>(page.body); }

// --- payloads of the actions; content bytes follow
struct FormatPayload {
    uint32_t page, object, map_page;
    uint16_t map_index, unused;
};
struct PutPayload {  // heap_put: content follows
    uint16_t slot;
    uint8_t state, unused;
};
// heap_replace: new bytes, then (unless kWithoutOld) the old ones, then (kWithHome) the link home.
struct ReplacePayload {
    uint16_t slot;
    uint8_t state_new, state_old;
    uint16_t at, old_bytes, new_bytes, flags;
};
// kWithHome: a moved copy is changed; a reader of the log has no other way to learn whose it is.
inline constexpr uint16_t kWithoutOld = 1, kWithHome = 2;
enum RemoveMode : uint8_t { kToGhost = 0, kToEmpty = 1, kTrim = 2 };
// heap_remove: content follows (undo of a delete); kTrim: `slot` u16 slot numbers follow.
struct RemovePayload {
    uint16_t slot;
    uint8_t mode, state_old;
};
struct MapFormatPayload {
    uint32_t page, object, first_entry, free_class;  // first_entry kPageNone: empty
};
enum MapSetMode : uint8_t { kSetClass = 0, kAppend = 1, kRemoveLast = 2 };
struct MapSetPayload {
    uint16_t index;
    uint8_t free_class, mode;
    uint32_t page;
};
static_assert(kOnDisk<FormatPayload, 16> && kOnDisk<PutPayload, 4> && kOnDisk<ReplacePayload, 12> &&
              kOnDisk<RemovePayload, 4> && kOnDisk<MapFormatPayload, 16> &&
              kOnDisk<MapSetPayload, 8>);

template <class T>
Slice bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class T>
T head_of(Slice payload) {
    T value;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
}

// Text of the first broken invariant of a data page, or null.
const char* check_page(const Page& page);

// Of a data page that is about to change or has changed: HP-1 and HP-2 without the records.
inline void assert_state(const Page& page) {
    DCHECK(page.kind() == PageKind::heap && data(page).slot_count <= kSlotsMax);
    DCHECK(page.header.hole_begin == kSlotsAt + data(page).slot_count * sizeof(Slot));
    DCHECK(page.header.hole_end == data(page).heap_begin);
    DCHECK(page.header.hole_begin <= page.header.hole_end && page.header.hole_end <= kPageBytes);
    DCHECK(data(page).free_bytes >= page.header.hole_end - page.header.hole_begin);
    DCHECK(data(page).free_bytes <= kPageBytes - page.header.hole_begin);
    DCHECK(data(page).empty_slots <= data(page).slot_count);
    DCHECK(data(page).reclaimable <= kPageBytes - data(page).heap_begin);
}
// Of a map page.
inline void assert_map_state(const Page& page) {
    DCHECK(page.kind() == PageKind::heap_map && map(page).entries <= kMapEntries);
    DCHECK(page.header.hole_begin ==
           offsetof(MapBody, page) + sizeof(PageHeader) + map(page).entries * sizeof(uint32_t));
    DCHECK(map(page).next != page.header.page_id);
}

}  // namespace lockstep::sm::heap
