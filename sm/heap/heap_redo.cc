// heap_redo.cc - the page actions of heap files: the forward path, redo and repair all run these.
#include "sm/change/log_kinds.h"
#include "sm/heap/heap_page.h"
#include "threads/base/check.h"

namespace lockstep::sm {

using namespace heap;

namespace {

DataHeader& header(Page& page) { return *reinterpret_cast<DataHeader*>(page.body); }
Slot& slot_at(Page& page, uint32_t index) { return const_cast<Slot&>(slot(page, index)); }
MapBody& map_body(Page& page) { return *reinterpret_cast<MapBody*>(page.body); }

uint32_t slots_end(const Page& page) {
    return kSlotsAt + data(page).slot_count * static_cast<uint32_t>(sizeof(Slot));
}

uint16_t reclaimable(const Slot& s) {
    if (s.state == kEmpty) return 0;
    if (s.state & kGhost) return s.capacity;
    return static_cast<uint16_t>(s.capacity - capacity_for(s.length));
}

void set_hole(Page& page) {
    page.header.hole_begin = static_cast<uint16_t>(slots_end(page));
    page.header.hole_end = header(page).heap_begin;
}

// Moves all records to the end of the page, in slot order.
[[gnu::cold, gnu::noinline]] void compact(Page& page) {
    DataHeader& head = header(page);
    std::byte packed[kPageBytes];
    uint32_t at = kPageBytes;
    for (uint32_t i = 0; i < head.slot_count; ++i) {
        Slot& s = slot_at(page, i);
        if (s.capacity == 0) continue;
        at -= s.capacity;
        std::memcpy(packed + at, page.bytes() + s.offset, s.capacity);
        s.offset = static_cast<uint16_t>(at);
    }
    CHECK(at >= slots_end(page));  // HP-2
    DCHECK(head.free_bytes == at - slots_end(page));
    std::memcpy(page.bytes() + at, packed + at, kPageBytes - at);
    head.heap_begin = static_cast<uint16_t>(at);
}

// Sets `bytes` aside in one piece; the caller knows that they are free.
uint16_t allocate(Page& page, uint32_t bytes) {
    DataHeader& head = header(page);
    CHECK(head.free_bytes >= bytes);  // HP-1: what was logged fits
    if (head.heap_begin - slots_end(page) < bytes) compact(page);
    head.heap_begin = static_cast<uint16_t>(head.heap_begin - bytes);
    head.free_bytes = static_cast<uint16_t>(head.free_bytes - bytes);
    DCHECK(head.heap_begin >= slots_end(page) && bytes >= kCapacityMin);
    return head.heap_begin;
}

void free_bytes_of(Page& page, Slot& s) {
    DataHeader& head = header(page);
    DCHECK(s.offset >= head.heap_begin && s.offset + s.capacity <= kPageBytes);
    head.free_bytes = static_cast<uint16_t>(head.free_bytes + s.capacity);
    if (s.offset == head.heap_begin)
        head.heap_begin = static_cast<uint16_t>(head.heap_begin + s.capacity);
    s.offset = s.capacity = 0;
}

// Extends the slot array so that `index` exists.
Slot& make_slot(Page& page, uint32_t index) {
    DataHeader& head = header(page);
    DCHECK(index < kSlotsMax);
    while (head.slot_count <= index) {
        if (head.heap_begin - slots_end(page) < sizeof(Slot)) compact(page);
        CHECK(head.free_bytes >= sizeof(Slot) && head.heap_begin - slots_end(page) >= sizeof(Slot));
        std::memset(&slot_at(page, head.slot_count), 0, sizeof(Slot));
        head.slot_count++;
        head.empty_slots++;
        head.free_bytes = static_cast<uint16_t>(head.free_bytes - sizeof(Slot));
    }
    return slot_at(page, index);
}

void empty_slot(Page& page, Slot& s) {
    if (s.state == kEmpty) return;
    DataHeader& head = header(page);
    DCHECK(head.reclaimable >= reclaimable(s));
    head.reclaimable = static_cast<uint16_t>(head.reclaimable - reclaimable(s));
    free_bytes_of(page, s);
    s.length = 0;
    s.state = kEmpty;
    head.empty_slots++;
}

// Gives back what a transaction that has ended left behind: ghosts become empty, unused capacity
// becomes free.
void trim(Page& page, Slice slots) {
    DataHeader& head = header(page);
    for (size_t i = 0; i + 1 < slots.size(); i += 2) {
        uint16_t index;
        std::memcpy(&index, slots.data() + i, 2);
        CHECK(index < head.slot_count);
        Slot& s = slot_at(page, index);
        DCHECK(s.state != kEmpty);
        if (s.state & kGhost) {
            empty_slot(page, s);
            continue;
        }
        DCHECK(s.capacity >= capacity_for(s.length));
        const uint32_t kept = capacity_for(s.length);
        head.reclaimable = static_cast<uint16_t>(head.reclaimable - reclaimable(s));
        head.free_bytes = static_cast<uint16_t>(head.free_bytes + s.capacity - kept);
        s.capacity = static_cast<uint16_t>(kept);
    }
}

}  // namespace

void apply_heap_format(Page& page, Slice payload) {
    const auto p = head_of<FormatPayload>(payload);
    format_page(page, PageId{p.page}, ObjectId{p.object}, PageKind::heap);
    DataHeader& head = header(page);
    head = {p.map_page, p.map_index, 0, kPageBytes, static_cast<uint16_t>(kPageBytes - kSlotsAt), 0,
            0};
    set_hole(page);
    assert_state(page);
}

void apply_heap_put(Page& page, Slice payload) {
    const auto p = head_of<PutPayload>(payload);
    const Slice bytes = payload.substr(sizeof p);
    assert_state(page);
    Slot& s = make_slot(page, p.slot);
    // A new record, or the undo of a delete; either lives then.
    DCHECK((s.state == kEmpty || (s.state & kGhost)) && (p.state & (kLive | kGhost)) == kLive);
    DataHeader& head = header(page);
    const uint32_t capacity = capacity_for(bytes.size());
    if (s.state == kEmpty) head.empty_slots--;
    else head.reclaimable = static_cast<uint16_t>(head.reclaimable - reclaimable(s));
    if (s.capacity < capacity) {
        if (s.capacity) free_bytes_of(page, s);
        const uint16_t at = allocate(page, capacity);
        s.offset = at;
        s.capacity = static_cast<uint16_t>(capacity);
    }
    s.length = static_cast<uint16_t>(bytes.size());
    s.state = p.state;
    std::byte* at = page.bytes() + s.offset;
    std::memcpy(at, bytes.data(), bytes.size());
    std::memset(at + bytes.size(), 0, capacity - bytes.size());  // HP-3
    head.reclaimable = static_cast<uint16_t>(head.reclaimable + reclaimable(s));
    set_hole(page);
    assert_state(page);
}

void apply_heap_replace(Page& page, Slice payload) {
    const auto p = head_of<ReplacePayload>(payload);
    assert_state(page);
    CHECK(p.slot < header(page).slot_count);
    Slot& s = slot_at(page, p.slot);
    DCHECK(s.state == p.state_old && !(s.state & kGhost));
    DCHECK((p.flags & kWithoutOld) || content(page, s).substr(p.at, p.old_bytes) ==
                                          payload.substr(sizeof p + p.new_bytes, p.old_bytes));
    CHECK(s.state != kEmpty && p.at + p.old_bytes <= s.length);
    DataHeader& head = header(page);
    head.reclaimable = static_cast<uint16_t>(head.reclaimable - reclaimable(s));
    const uint32_t length = s.length - p.old_bytes + p.new_bytes;
    const uint32_t tail = s.length - p.at - p.old_bytes;
    if (length > s.capacity) {
        std::byte kept[kPageBytes];
        const uint32_t kept_bytes = s.length;
        std::memcpy(kept, page.bytes() + s.offset, kept_bytes);
        free_bytes_of(page, s);
        const uint32_t capacity = capacity_for(length);
        const uint16_t offset = allocate(page, capacity);
        s.offset = offset;
        s.capacity = static_cast<uint16_t>(capacity);
        std::byte* at = page.bytes() + offset;
        std::memcpy(at, kept, p.at);
        std::memcpy(at + p.at + p.new_bytes, kept + p.at + p.old_bytes, tail);
        std::memset(at + length, 0, capacity - length);
    } else if (tail && p.old_bytes != p.new_bytes) {
        std::byte* at = page.bytes() + s.offset + p.at;
        std::memmove(at + p.new_bytes, at + p.old_bytes, tail);
    }
    std::memcpy(page.bytes() + s.offset + p.at, payload.data() + sizeof p, p.new_bytes);
    s.length = static_cast<uint16_t>(length);
    s.state = p.state_new;
    DCHECK(s.length <= s.capacity && (!(s.state & kStub) || s.length == sizeof(Link)));
    head.reclaimable = static_cast<uint16_t>(head.reclaimable + reclaimable(s));
    set_hole(page);
    assert_state(page);
}

void apply_heap_remove(Page& page, Slice payload) {
    const auto p = head_of<RemovePayload>(payload);
    assert_state(page);
    if (p.mode == kTrim) {
        trim(page, payload.substr(sizeof p, p.slot * 2u));
    } else {
        CHECK(p.slot < header(page).slot_count);
        Slot& s = slot_at(page, p.slot);
        DataHeader& head = header(page);
        DCHECK(s.state == p.state_old && (s.state & (kLive | kGhost)) == kLive);
        DCHECK(p.mode == kToEmpty || content(page, s) == payload.substr(sizeof p));
        if (p.mode == kToEmpty) {
            empty_slot(page, s);
        } else {
            head.reclaimable = static_cast<uint16_t>(head.reclaimable - reclaimable(s));
            s.state |= kGhost;
            head.reclaimable = static_cast<uint16_t>(head.reclaimable + reclaimable(s));
        }
    }
    set_hole(page);
    assert_state(page);
}

void apply_heap_map_format(Page& page, Slice payload) {
    const auto p = head_of<MapFormatPayload>(payload);
    format_page(page, PageId{p.page}, ObjectId{p.object}, PageKind::heap_map);
    MapBody& body = map_body(page);
    DCHECK(p.first_entry == kPageNone.value || p.free_class < kClasses);
    body.next = kPageNone.value;
    if (p.first_entry != kPageNone.value) {
        body.page[0] = p.first_entry;
        body.free_class[0] = static_cast<uint8_t>(p.free_class);
        body.entries = 1;
    }
    page.header.hole_begin =
        static_cast<uint16_t>(sizeof(PageHeader) + offsetof(MapBody, page) + 4u * body.entries);
    page.header.hole_end =
        static_cast<uint16_t>(sizeof(PageHeader) + offsetof(MapBody, free_class));
}

void apply_heap_map_set(Page& page, Slice payload) {
    const auto p = head_of<MapSetPayload>(payload);
    MapBody& body = map_body(page);
    assert_map_state(page);
    CHECK(p.index < kMapEntries);
    DCHECK(p.mode <= kRemoveLast && p.free_class < kClasses);
    DCHECK(p.mode != kSetClass || body.page[p.index] == p.page);
    if (p.mode == kAppend) {
        CHECK(p.index == body.entries);
        body.page[p.index] = p.page;
        body.entries++;
    } else if (p.mode == kRemoveLast) {
        CHECK(p.index + 1u == body.entries);
        body.page[p.index] = 0;
        body.entries--;
    }
    DCHECK(p.index < body.entries || p.mode == kRemoveLast);
    body.free_class[p.index] = p.free_class;
    page.header.hole_begin =
        static_cast<uint16_t>(sizeof(PageHeader) + offsetof(MapBody, page) + 4u * body.entries);
}

void apply_heap_set_link(Page& page, Slice payload) {
    assert_map_state(page);
    // The list grows and shrinks at its end.
    DCHECK((map(page).next == kPageNone.value) != (head_of<uint32_t>(payload) == kPageNone.value));
    map_body(page).next = head_of<uint32_t>(payload);
}

const char* heap::check_page(const Page& page) {
    const DataHeader& head = data(page);
    if (head.slot_count > kSlotsMax || head.heap_begin > kPageBytes ||
        head.heap_begin < slots_end(page))
        return "heap page: header";
    uint32_t capacities = 0, ghosts = 0, empty = 0;
    uint8_t used[kPageBytes] = {};
    for (uint32_t i = 0; i < head.slot_count; ++i) {
        const Slot& s = slot(page, i);
        if (s.state == kEmpty) {
            if (s.capacity || s.length) return "heap page: an empty slot has bytes";
            ++empty;
            continue;
        }
        if (s.offset < head.heap_begin || s.offset + s.capacity > kPageBytes ||
            s.length > s.capacity || s.capacity < kCapacityMin)
            return "heap page: a slot points outside";
        for (uint32_t b = s.offset; b < s.offset + uint32_t{s.capacity}; ++b)
            if (used[b]++) return "heap page: records overlap (HP-2)";
        capacities += s.capacity;
        ghosts += reclaimable(s);
    }
    if (head.free_bytes + capacities + slots_end(page) != kPageBytes)
        return "heap page: free bytes are wrong (HP-1)";
    if (head.reclaimable != ghosts) return "heap page: reclaimable bytes are wrong";
    if (head.empty_slots != empty) return "heap page: number of empty slots is wrong";
    return nullptr;
}

}  // namespace lockstep::sm
