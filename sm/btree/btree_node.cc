// btree_node.cc - changes of a single B-tree page, its builder, and its check.
#include "sm/btree/btree_node.h"

#include <vector>

#include "sm/btree/btree_node_search.h"

namespace lockstep::sm::node {

// Few heads tie, so it looks near `from` first, in windows that grow.
Found search_ties(const Page& p, unsigned from, unsigned to, const KeyTail& tail) {
    const Slot* const all = slots(p);
    const uint32_t head = all[from].head;
    const auto order_of = [&](unsigned slot) {
        return all[slot].head == head ? tail.order(p, slot) : 1;
    };
    unsigned window = kTiesNear;
    for (; from + window < to && order_of(from + window - 1) < 0; window *= 2) from += window;
    to = std::min(to, from + window);
    while (from < to) {
        const unsigned middle = (from + to) / 2;
        const int order = order_of(middle);
        if (order == 0) return {middle, true};  // keys differ: there is no other
        if (order < 0) from = middle + 1;
        else to = middle;
    }
    return {from, false};
}

std::string full_key(const Page& p, unsigned slot) {
    std::string key(prefix(p));
    key += suffix(p, slot);
    return key;
}

size_t common_prefix(Slice a, Slice b) {
    const size_t n = std::min(a.size(), b.size());
    size_t i = 0;
    while (i < n && a[i] == b[i]) ++i;
    return i;
}

namespace {

// Lays a record down at the lower end of the heap and returns its offset.
[[gnu::always_inline]] inline uint16_t carve(Page& p, Slice key_a, Slice key_b, Slice value) {
    const size_t bytes = kRecordHead + key_a.size() + key_b.size() + value.size();
    CHECK(static_cast<size_t>(p.header.hole_end - p.header.hole_begin) >= bytes);
    const uint16_t at = static_cast<uint16_t>(p.header.hole_end - bytes);
    char* out = chars(p) + at;
    store(out, static_cast<uint16_t>(value.size()));
    out += kRecordHead;
    copy_bytes(copy_bytes(copy_bytes(out, key_a), key_b), value);
    p.header.hole_end = at;
    DCHECK(p.header.hole_end >= p.header.hole_begin);
    return at;
}

// Heap bytes that nothing refers to any more.
void discard(Page& p, unsigned at, size_t bytes) {
    DCHECK(at >= p.header.hole_end && at + bytes <= kPageBytes);
    if (at == p.header.hole_end) p.header.hole_end = static_cast<uint16_t>(at + bytes);
    else header(p).garbage = static_cast<uint16_t>(header(p).garbage + bytes);
}

uint32_t head_of(const Page& p, Slice suffix) {
    const size_t skip = header(p).common_bytes;
    return key_head(suffix.data() + skip, suffix.size() - skip);
}

void set_heads(Page& p, size_t common_bytes) {
    header(p).common_bytes = static_cast<uint8_t>(common_bytes);
    for (unsigned i = 0; i < header(p).count; ++i) slots(p)[i].head = head_of(p, suffix(p, i));
}

// What all keys share behind the prefix: first and last key tell. `heads_at`: the place in the keys
// that the slots' heads are of already, or kNowhere.
constexpr size_t kNowhere = SIZE_MAX;
void find_common(Page& p, size_t heads_at = kNowhere) {
    NodeHeader& h = header(p);
    std::memset(h.common, 0, sizeof h.common);
    h.common_bytes = 0;
    if (h.count == 0) return;
    const Slice first = suffix(p, 0);
    const size_t n = std::min(common_prefix(first, suffix(p, h.count - 1u)), sizeof h.common);
    std::memcpy(h.common, first.data(), n);
    if (h.prefix + n == heads_at) h.common_bytes = static_cast<uint8_t>(n);
    else set_heads(p, n);
}

// A key is about to come in: the common bytes shrink to what it shares with them.
inline void admit(Page& p, Slice suffix) {
    NodeHeader& h = header(p);
    if (suffix.size() >= h.common_bytes && same_bytes(h.common, suffix.data(), h.common_bytes))
        [[likely]]
        return;
    const size_t n = common_prefix(Slice(h.common, h.common_bytes), suffix);
    std::memset(h.common + n, 0, sizeof h.common - n);
    set_heads(p, n);
}

// splice() to a longer value. Apart, because every splice would stand on that much stack.
[[gnu::noinline]] void splice_longer(Page& p, Slot& s, unsigned slot, unsigned offset,
                                     unsigned old_bytes, Slice fresh) {
    // The old record gives up its space before the new one takes some.
    char record[kPageBytes];
    const Slice old = value(p, slot);
    const size_t key_bytes = s.bits & kKeyBits, bytes = old.size() - old_bytes + fresh.size();
    std::memcpy(record, chars(p) + s.at + kRecordHead, key_bytes + offset);
    copy_bytes(record + key_bytes + offset, fresh);
    copy_bytes(record + key_bytes + offset + fresh.size(), old.substr(offset + old_bytes));
    const Slice key(record, key_bytes), whole(record + key_bytes, bytes);
    discard(p, s.at, record_bytes(p, slot));
    const size_t needed = kRecordHead + key_bytes + bytes;
    if (static_cast<size_t>(p.header.hole_end - p.header.hole_begin) < needed) {
        // Compaction would copy the old record along: leave an empty one in its place. Its two
        // bytes come out of what was given up.
        const uint16_t flags = s.bits & static_cast<uint16_t>(~kKeyBits);
        s.bits = flags;
        s.at = kPageBytes;  // compact() skips it
        compact(p);
        s.bits = static_cast<uint16_t>(flags | key_bytes);
    }
    s.at = carve(p, {}, key, whole);
}

// Takes `drop` bytes from the front of each key, which go to the prefix. The records stay where
// they are, but begin later.
void shorten_keys(Page& p, unsigned drop) {
    NodeHeader& h = header(p);
    for (Slot& s : std::span(slots(p), h.count)) {
        CHECK((s.bits & kKeyBits) >= drop);
        const auto value_bytes = load<uint16_t>(chars(p) + s.at);
        s.at = static_cast<uint16_t>(s.at + drop);
        s.bits = static_cast<uint16_t>(s.bits - drop);
        store(chars(p) + s.at, value_bytes);
    }
    h.prefix = static_cast<uint16_t>(h.prefix + drop);
    h.garbage = static_cast<uint16_t>(h.garbage + h.count * drop);
}

// The new fence lies below the old one, so the prefix does not shrink.
void lower_high_fence(Page& p, Slice fence) {
    NodeHeader& h = header(p);
    if (!high_infinite(p)) h.garbage = static_cast<uint16_t>(h.garbage + h.high_bytes);
    h.high_bytes = 0;
    if (static_cast<size_t>(p.header.hole_end - p.header.hole_begin) < fence.size()) compact(p);
    CHECK(static_cast<size_t>(p.header.hole_end - p.header.hole_begin) >= fence.size());
    p.header.hole_end = static_cast<uint16_t>(p.header.hole_end - fence.size());
    h.high_at = p.header.hole_end;
    h.high_bytes = static_cast<uint16_t>(fence.size());
    copy_bytes(chars(p) + h.high_at, fence);
    const size_t prefix_bytes = fence_prefix(low(p), high(p), false);
    CHECK(prefix_bytes >= h.prefix);
    if (prefix_bytes > h.prefix) shorten_keys(p, static_cast<unsigned>(prefix_bytes - h.prefix));
}

// A record or a fence in the heap.
struct Piece {
    size_t at, bytes;
};

// All pieces lie inside the heap, do not overlap, and fill it together with the garbage: a change
// moves and counts them one by one.
std::string check_heap(const Page& p, std::vector<Piece> pieces) {
    std::ranges::sort(pieces, {}, &Piece::at);
    size_t used = header(p).garbage, free_from = p.header.hole_end;
    for (const Piece& piece : pieces) {
        if (piece.bytes == 0) continue;  // an empty fence has no place
        if (piece.at < p.header.hole_end || piece.at + piece.bytes > kPageBytes)
            return "BN-1: a record or fence lies outside the heap";
        if (piece.at < free_from) return "BN-1: records or fences overlap";
        free_from = piece.at + piece.bytes;
        used += piece.bytes;
    }
    return used == kPageBytes - p.header.hole_end ? std::string()
                                                  : "BN-1: heap bytes do not add up";
}

std::string check_frame(const Page& p) {
    const NodeHeader& h = header(p);
    if (p.kind() != PageKind::btree) return "kind is not btree";
    if (h.count > kSlotsMax || p.header.hole_begin != kSlotsAt + h.count * sizeof(Slot))
        return "BN-1: hole_begin does not match the slots";
    if (p.header.hole_end < p.header.hole_begin || p.header.hole_end > kPageBytes)
        return "BN-1: hole ends outside";
    std::vector<Piece> pieces{{h.low_at, h.low_bytes}};
    if (!high_infinite(p)) pieces.push_back({h.high_at, h.high_bytes});
    for (unsigned i = 0; i < h.count; ++i) {
        const Slot& s = slots(p)[i];
        if (s.at + kRecordHead > kPageBytes) return "BN-1: a record or fence lies outside the heap";
        pieces.push_back(
            {s.at, kRecordHead + (s.bits & kKeyBits) + size_t{load<uint16_t>(chars(p) + s.at)}});
    }
    return check_heap(p, std::move(pieces));
}

}  // namespace

Builder::~Builder() {
    find_common(page_);
    assert_state(page_);
    DCHECK(count(page_) == 0 || covers(page_, full_key(page_, 0)));  // BT-1
    DCHECK(count(page_) == 0 || covers(page_, full_key(page_, count(page_) - 1)));
}

void put(Page& p, unsigned slot, uint16_t flags, Slice key_suffix, Slice value) {
    NodeHeader& h = header(p);
    assert_state(p);
    CHECK(slot <= h.count && key_suffix.size() <= kKeyBits);
    DCHECK((flags & kKeyBits) == 0 && (is_leaf(p) || value.size() == sizeof(uint32_t)));
    DCHECK(slot == 0 || suffix(p, slot - 1) < key_suffix);  // BT-1
    DCHECK(slot == h.count || key_suffix < suffix(p, slot));
    if (p.header.hole_end - p.header.hole_begin <
        static_cast<int>(kSlotCost + key_suffix.size() + value.size()))
        compact(p);
    Slot* at = slots(p) + slot;
    CHECK(static_cast<size_t>(p.header.hole_end - p.header.hole_begin) >=
          kSlotCost + key_suffix.size() + value.size());
    if (h.count > 0) admit(p, key_suffix);
    const uint16_t record = carve(p, {}, key_suffix, value);
    std::memmove(at + 1, at, (h.count - slot) * sizeof(Slot));
    at->head = h.count > 0 ? head_of(p, key_suffix) : 0;
    at->at = record;
    at->bits = static_cast<uint16_t>(key_suffix.size() | flags);
    ++h.count;
    if (flags & kGhost) ++h.ghosts;
    p.header.hole_begin = static_cast<uint16_t>(p.header.hole_begin + sizeof(Slot));
    if (h.count == 1) find_common(p);
    assert_state(p);
}

// Keys between the first and the last share what these two do.
void put_run(Page& p, unsigned slot, std::span<const NewEntry> entries) {
    NodeHeader& h = header(p);
    assert_state(p);
    CHECK(slot <= h.count && !entries.empty() && is_leaf(p));
    if (h.count == 0) [[unlikely]] {
        for (const NewEntry& entry : entries) put(p, slot++, 0, entry.key_suffix, entry.value);
        return;
    }
    size_t bytes = 0;
    for (const NewEntry& entry : entries) {
        CHECK(entry.key_suffix.size() <= kKeyBits);
        bytes += kSlotCost + entry.key_suffix.size() + entry.value.size();
    }
    if (static_cast<size_t>(p.header.hole_end - p.header.hole_begin) < bytes) compact(p);
    CHECK(static_cast<size_t>(p.header.hole_end - p.header.hole_begin) >= bytes);
    admit(p, entries.front().key_suffix);
    admit(p, entries.back().key_suffix);
    Slot* at = slots(p) + slot;
    std::memmove(at + entries.size(), at, (h.count - slot) * sizeof(Slot));
    for (const NewEntry& entry : entries)
        *at++ = {.head = head_of(p, entry.key_suffix),
                 .at = carve(p, {}, entry.key_suffix, entry.value),
                 .bits = static_cast<uint16_t>(entry.key_suffix.size())};
    h.count = static_cast<uint16_t>(h.count + entries.size());
    p.header.hole_begin =
        static_cast<uint16_t>(p.header.hole_begin + entries.size() * sizeof(Slot));
    assert_state(p);
#ifdef LOCKSTEP_DEBUG_CHECKS
    for (size_t i = slot == 0 ? 1 : slot; i < std::min<size_t>(slot + entries.size() + 1, h.count);
         ++i)
        DCHECK(suffix(p, static_cast<unsigned>(i - 1)) < suffix(p, static_cast<unsigned>(i)));
#endif
}

void remove(Page& p, unsigned slot) {
    NodeHeader& h = header(p);
    assert_state(p);
    CHECK(slot < h.count);
    Slot* at = slots(p) + slot;
    DCHECK(!(at->bits & kGhost) || h.ghosts > 0);
    if (at->bits & kGhost) --h.ghosts;
    discard(p, at->at, record_bytes(p, slot));
    std::memmove(at, at + 1, (h.count - slot - 1u) * sizeof(Slot));
    --h.count;
    p.header.hole_begin = static_cast<uint16_t>(p.header.hole_begin - sizeof(Slot));
    assert_state(p);
}

void cut(Page& p, unsigned keep, Slice high_fence) {
    NodeHeader& h = header(p);
    assert_state(p);
    CHECK(keep > 0 && keep < h.count);
    DCHECK(low(p) < high_fence && (high_infinite(p) || high_fence < high(p)));  // BT-2
    size_t garbage = 0;
    for (unsigned i = keep; i < h.count; ++i) {
        garbage += record_bytes(p, i);
        h.ghosts = static_cast<uint16_t>(h.ghosts - ghost(p, i));
    }
    h.garbage = static_cast<uint16_t>(h.garbage + garbage);
    h.count = static_cast<uint16_t>(keep);
    p.header.hole_begin = static_cast<uint16_t>(kSlotsAt + keep * sizeof(Slot));
    const size_t heads_at = size_t{h.prefix} + h.common_bytes;
    lower_high_fence(p, high_fence);
    find_common(p, heads_at);
    assert_state(p);
}

void splice(Page& p, unsigned slot, unsigned offset, unsigned old_bytes, Slice fresh) {
    assert_state(p);
    CHECK(slot < header(p).count);
    Slot& s = slots(p)[slot];
    const Slice old = value(p, slot);
    CHECK(offset + old_bytes <= old.size());
    char* at = chars(p) + s.at + kRecordHead + (s.bits & kKeyBits);
    const size_t bytes = old.size() - old_bytes + fresh.size();
    const size_t tail = old.size() - offset - old_bytes;
    DCHECK(is_leaf(p) || bytes == sizeof(uint32_t));
    // The length has 16 bits, and the record is no longer than a page.
    DCHECK(bytes <= kPageBytes - kSlotsAt);
    // In place; what is saved becomes garbage.
    if (bytes <= old.size()) {
        if (bytes != old.size())
            std::memmove(at + offset + fresh.size(), at + offset + old_bytes, tail);
        copy_bytes(at + offset, fresh);
        store(chars(p) + s.at, static_cast<uint16_t>(bytes));
        header(p).garbage = static_cast<uint16_t>(header(p).garbage + old.size() - bytes);
        return;
    }
    splice_longer(p, s, slot, offset, old_bytes, fresh);
    assert_state(p);
}

void set_bits(Page& p, unsigned slot, uint16_t set, uint16_t clear) {
    assert_state(p);
    CHECK(slot < header(p).count);
    DCHECK(((set | clear) & kKeyBits) == 0);
    Slot& s = slots(p)[slot];
    const bool was = s.bits & kGhost;
    s.bits = static_cast<uint16_t>((s.bits & ~clear) | set);
    const bool is = s.bits & kGhost;
    header(p).ghosts = static_cast<uint16_t>(header(p).ghosts + is - was);
    DCHECK(header(p).ghosts <= header(p).count);
}

void compact(Page& p) {
    char heap[kPageBytes];
    unsigned end = kPageBytes;
    NodeHeader& h = header(p);
    const auto keep = [&](unsigned at, size_t bytes) {
        end -= static_cast<unsigned>(bytes);
        std::memcpy(heap + end, chars(p) + at, bytes);
        return static_cast<uint16_t>(end);
    };
    h.low_at = keep(h.low_at, h.low_bytes);
    if (h.high_bytes != kInfinite) h.high_at = keep(h.high_at, h.high_bytes);
    for (unsigned i = 0; i < h.count; ++i) {
        Slot& s = slots(p)[i];
        if (s.at == kPageBytes) continue;
        s.at = keep(s.at, record_bytes(p, i));
    }
    DCHECK(end == p.header.hole_end + unsigned{h.garbage});  // what is kept and what goes add up
    std::memcpy(chars(p) + end, heap + end, kPageBytes - end);
    p.header.hole_end = static_cast<uint16_t>(end);
    h.garbage = 0;
}

Builder::Builder(Page& page, const Frame& frame) : page_(page) {
    DCHECK(frame.infinite || frame.low < frame.high);
    DCHECK(frame.low.size() + frame.high.size() <= kPageBytes - kSlotsAt);
    DCHECK(frame.level == 0 || frame.link != kPageNone);  // an inner node's first child
    const uint64_t lsn = page.header.lsn;
    format_page(page, frame.page, frame.object, PageKind::btree, frame.level);
    page.header.lsn = lsn;
    NodeHeader& h = header(page);
    h.link = frame.link.value;
    h.prefix = static_cast<uint16_t>(fence_prefix(frame.low, frame.high, frame.infinite));
    h.low_bytes = static_cast<uint16_t>(frame.low.size());
    h.high_bytes = frame.infinite ? kInfinite : static_cast<uint16_t>(frame.high.size());
    unsigned end = kPageBytes;
    end -= h.low_bytes;
    h.low_at = static_cast<uint16_t>(end);
    copy_bytes(chars(page) + end, frame.low);
    if (!frame.infinite) {
        end -= h.high_bytes;
        copy_bytes(chars(page) + end, frame.high);
    }
    h.high_at = static_cast<uint16_t>(end);
    page.header.hole_begin = kSlotsAt;
    page.header.hole_end = static_cast<uint16_t>(end);
}

void Builder::append(uint16_t flags, Slice a, Slice b, Slice value) {
    NodeHeader& h = header(page_);
    CHECK(fits(a.size() + b.size(), value.size()) && a.size() + b.size() <= kKeyBits);
    const uint16_t at = carve(page_, a, b, value);
    Slot& s = slots(page_)[h.count++];
    s.head = 0;  // see ~Builder
    s.at = at;
    s.bits = static_cast<uint16_t>((a.size() + b.size()) | flags);
    if (flags & kGhost) ++h.ghosts;
    DCHECK(h.count == 1 || suffix(page_, h.count - 2u) < suffix(page_, h.count - 1u));  // BT-1
    page_.header.hole_begin = static_cast<uint16_t>(page_.header.hole_begin + sizeof(Slot));
}

// Key and value stand together in the old node, so they are one piece.
void Builder::append_shorter(const Page& old, unsigned slot, size_t drop) {
    NodeHeader& h = header(page_);
    const Slot from = slots(old)[slot];
    const size_t key_bytes = from.bits & kKeyBits;
    CHECK(drop <= key_bytes && from.at + kRecordHead <= kPageBytes);
    const char* const record = chars(old) + from.at;
    const size_t bytes = key_bytes - drop + load<uint16_t>(record);
    CHECK(from.at + kRecordHead + drop + bytes <= kPageBytes);
    CHECK(kSlotCost + bytes <=
          static_cast<size_t>(page_.header.hole_end - page_.header.hole_begin));
    const auto at = static_cast<uint16_t>(page_.header.hole_end - kRecordHead - bytes);
    store(chars(page_) + at, load<uint16_t>(record));
    copy_bytes(chars(page_) + at + kRecordHead, Slice(record + kRecordHead + drop, bytes));
    page_.header.hole_end = at;
    slots(page_)[h.count++] = {
        .head = 0,  // see ~Builder
        .at = at,
        .bits = static_cast<uint16_t>((from.bits & ~kKeyBits) | (key_bytes - drop))};
    if (from.bits & kGhost) ++h.ghosts;
    DCHECK(h.count == 1 || suffix(page_, h.count - 2u) < suffix(page_, h.count - 1u));  // BT-1
    page_.header.hole_begin = static_cast<uint16_t>(page_.header.hole_begin + sizeof(Slot));
}

void RecordWriter::add(uint16_t bits, Slice a, Slice b, Slice value) {
    DCHECK(a.size() + b.size() <= kKeyBytesMax && value.size() <= kInlineMax);
    struct Head {
        uint16_t bits, value_bytes;
    };
    const Head head{static_cast<uint16_t>((bits & ~kKeyBits) | (a.size() + b.size())),
                    static_cast<uint16_t>(value.size())};
    const size_t before = out.size();
    const size_t bytes = before + sizeof head + a.size() + b.size() + value.size();
    out.resize_and_overwrite(bytes, [&](char* text, size_t) {
        store(text + before, head);
        copy_bytes(copy_bytes(copy_bytes(text + before + sizeof head, a), b), value);
        return bytes;
    });
}

void RecordWriter::add_range(const Page& p, unsigned from, unsigned to, size_t prefix) {
    const Shift shift = shift_of(p, prefix);
    DCHECK(from <= to && to <= count(p));
    for (unsigned i = from; i < to; ++i)
        add(slots(p)[i].bits, shift.add, suffix(p, i).substr(shift.drop), value(p, i));
}

Shift shift_of(const Page& p, size_t prefix_bytes) {
    const Slice own = prefix(p);
    if (prefix_bytes >= own.size()) return {{}, prefix_bytes - own.size()};
    return {own.substr(prefix_bytes), 0};
}

std::string check_node(const Page& p) {
    if (std::string fault = check_frame(p); !fault.empty()) return fault;
    const NodeHeader& h = header(p);
    if (!high_infinite(p) && low(p) >= high(p)) return "fences do not ascend";
    if (h.prefix != fence_prefix(low(p), high(p), high_infinite(p)))
        return "prefix does not match the fences";
    unsigned ghosts = 0;
    std::string before;
    for (unsigned i = 0; i < h.count; ++i) {
        ghosts += ghost(p, i);
        const Slice rest = suffix(p, i);
        if (rest.substr(0, h.common_bytes) !=
            Slice(h.common, std::min<size_t>(h.common_bytes, sizeof h.common)))
            return "BN-2: key lacks the common bytes";
        if (slots(p)[i].head != head_of(p, rest)) return "BN-2: head does not match the key";
        std::string key = full_key(p, i);
        if (i > 0 && key <= before) return "BT-1: keys do not ascend";
        if (!covers(p, key)) return "BT-1: key outside the fences";
        if (!is_leaf(p) && value(p, i).size() != 4) return "inner value is no page number";
        before = std::move(key);
    }
    return ghosts == h.ghosts ? std::string() : "ghost count is wrong";
}

}  // namespace lockstep::sm::node
