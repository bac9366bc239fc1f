// btree_redo.cc - the B-tree's page actions: the forward path and redo change pages through these
// functions only.
#include "sm/btree/btree_payload.h"
#include "threads/base/unmade.h"

namespace lockstep::sm {

using namespace node;

namespace {

// Appends records as RecordWriter wrote them.
void append_records(Builder& builder, payload::Reader& in, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        const uint16_t bits = in.get<uint16_t>(), value_bytes = in.get<uint16_t>();
        const Slice key = in.bytes(bits & kKeyBits), value = in.bytes(value_bytes);
        builder.append(bits & static_cast<uint16_t>(~kKeyBits), {}, key, value);
    }
}

// Appends slots [from, to) of `old`, leaving out those named in `removed` (ascending).
void append_slots(Builder& builder, const Page& old, unsigned from, unsigned to,
                  size_t prefix_bytes, Slice removed = {}) {
    const Shift shift = shift_of(old, prefix_bytes);
    for (unsigned i = from; i < to; ++i) {
        if (!removed.empty() && load<uint16_t>(removed.data()) == i) {
            removed.remove_prefix(2);
            continue;
        }
        if (shift.add.empty()) {
            builder.append_shorter(old, i, shift.drop);
            continue;
        }
        builder.append(slots(old)[i].bits & static_cast<uint16_t>(~kKeyBits), shift.add,
                       suffix(old, i).substr(shift.drop), value(old, i));
    }
}

Builder::Frame frame_of(const Page& old) {
    Builder::Frame f;
    f.page = old.id();
    f.object = ObjectId{old.header.object};
    f.level = old.header.level;
    f.low = low(old);
    f.infinite = high_infinite(old);
    if (!f.infinite) f.high = high(old);
    f.link = PageId{header(old).link};
    return f;
}

uint16_t overflow_flag(uint16_t replace_flags) {
    return replace_flags & payload::kNewOverflow ? kOverflow : 0;
}

}  // namespace

void apply_btree_put(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Put>();
    const Slice key = in.bytes(p.key_bytes), value = in.bytes(p.value_bytes);
    NodeHeader& h = header(page);
    DCHECK(in.at_end() && covers(page, key));
    put(page, p.slot, p.flags, key.substr(h.prefix), value);
    h.run =
        p.slot == h.last_put + 1 ? static_cast<uint16_t>(std::min(h.run + 1, 1000)) : uint16_t{0};
    h.last_put = p.slot;
}

void apply_btree_put_many(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::PutMany>();
    NodeHeader& h = header(page);
    const bool run_goes_on = p.slot == h.last_put + 1;
    for (unsigned slot = p.slot, left = p.count; left > 0;) {
        constexpr size_t kMost = 16;
        Unmade<NewEntry, kMost> entries;
        size_t n = 0;
        for (; n < kMost && left > 0; ++n, --left) {
            const auto head = in.get<payload::RecordHead>();
            const Slice key = in.bytes(head.key_bytes);
            DCHECK(covers(page, key));
            CHECK(key.size() >= h.prefix);
            new (&entries.items[n]) NewEntry{key.substr(h.prefix), in.bytes(head.value_bytes)};
        }
        put_run(page, slot, {entries.items, n});
        slot += static_cast<unsigned>(n);
    }
    DCHECK(in.at_end() && p.count > 0);
    h.run = static_cast<uint16_t>(std::min((run_goes_on ? h.run + 1 : 0) + p.count - 1, 1000));
    h.last_put = static_cast<uint16_t>(p.slot + p.count - 1);
}

void apply_btree_replace(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Replace>();
    [[maybe_unused]] const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes);
    // KI-1: the record is as it was when the change was logged.
    DCHECK(p.slot < count(page) && full_key(page, p.slot) == key);
    DCHECK(value(page, p.slot).substr(p.offset, p.old_bytes) == old);
    const Slice fresh = in.bytes(p.new_bytes);
    if (p.old_bytes == p.new_bytes) [[likely]]
        overwrite(page, p.slot, p.offset, fresh);
    else splice(page, p.slot, p.offset, p.old_bytes, fresh);
    DCHECK(in.at_end());
    DCHECK((p.flags & ~(payload::kOldOverflow | payload::kNewOverflow | payload::kBecomesGhost |
                        payload::kWhole)) == 0);
    if (p.flags)
        set_bits(page, p.slot,
                 overflow_flag(p.flags) | (p.flags & payload::kBecomesGhost ? kGhost : 0),
                 kOverflow);
}

// A row's payload is taken as one piece, so its length is checked once.
void apply_btree_replace_many(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::ReplaceMany>();
    DCHECK(p.count > 0);
    for (unsigned left = p.count; left > 0; --left) {
        const auto row = in.get<payload::ReplaceRow>();
        const Slice rest = in.bytes(row.key_bytes + 2u * row.bytes);
        // KI-1: the record is as it was when the change was logged.
        DCHECK(row.slot < count(page));
        DCHECK(full_key(page, row.slot) == rest.substr(0, row.key_bytes));
        DCHECK(value(page, row.slot).substr(row.offset, row.bytes) ==
               rest.substr(row.key_bytes, row.bytes));
        overwrite(page, row.slot, row.offset,
                  {rest.data() + row.key_bytes + row.bytes, size_t{row.bytes}});
    }
    DCHECK(in.at_end());
}

void apply_btree_set_ghost(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::SetGhost>();
    DCHECK(p.slot < count(page) && ghost(page, p.slot) != (p.ghost != 0));
    DCHECK(full_key(page, p.slot) == bytes.substr(sizeof p));
    set_bits(page, p.slot, p.ghost ? kGhost : 0, p.ghost ? 0 : kGhost);
}

void apply_btree_set_ghosts(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::SetGhosts>();
    [[maybe_unused]] const Slice shared = in.bytes(p.prefix_bytes);
    DCHECK(p.count > 0 && p.count <= count(page) && shared == prefix(page));
    for (unsigned left = p.count; left > 0; --left) {
        const auto row = in.get<payload::GhostRow>();
        [[maybe_unused]] const Slice rest = in.bytes(row.key_bytes);
        // KI-1: the record is as it was when the change was logged.
        DCHECK(ghost(page, row.slot) != (p.ghost != 0) && suffix(page, row.slot) == rest);
        set_bits(page, row.slot, p.ghost ? kGhost : 0, p.ghost ? 0 : kGhost);
    }
    DCHECK(in.at_end());
}

void apply_btree_revive(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Revive>();
    [[maybe_unused]] const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes);
    DCHECK(p.slot < count(page) && ghost(page, p.slot));
    DCHECK(full_key(page, p.slot) == key && value(page, p.slot) == old);
    splice(page, p.slot, 0, p.old_bytes, in.bytes(p.new_bytes));
    DCHECK(in.at_end());
    set_bits(page, p.slot, overflow_flag(p.flags), kGhost | kOverflow);
}

void apply_btree_remove(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Remove>();
    const Slice list = in.bytes(p.count * 2u);
    DCHECK(in.at_end() && p.count > 0 && p.count <= count(page));
    for (unsigned i = p.count; i-- > 0;) remove(page, load<uint16_t>(list.data() + 2 * i));
}

void apply_btree_format(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Format>();
    Builder::Frame f;
    f.page = PageId{p.page};
    f.object = ObjectId{p.object};
    DCHECK(p.level <= UINT8_MAX);
    f.level = static_cast<uint8_t>(p.level);
    f.low = in.bytes(p.low_bytes);
    f.infinite = p.high_bytes == kInfinite;
    if (!f.infinite) f.high = in.bytes(p.high_bytes);
    f.link = PageId{p.link};
    Builder builder(page, f);
    append_records(builder, in, p.count);
    DCHECK(in.at_end() && count(page) == p.count);
}

void apply_btree_truncate(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Truncate>();
    const Slice high_fence = in.bytes(p.high_bytes);
    assert_state(page);
    DCHECK(in.at_end() && covers(page, high_fence) && low(page) < high_fence);  // BT-2
    cut(page, p.keep, high_fence);
    if (is_leaf(page)) header(page).link = p.right;
}

void apply_btree_absorb(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::Absorb>();
    const Slice removed = in.bytes(p.removed * 2u);
    assert_state(page);
    DCHECK(p.removed <= count(page) && (is_leaf(page) || p.removed == 0));
    DCHECK(!high_infinite(page));  // something lies to the right
    Page old;
    std::memcpy(static_cast<void*>(&old), &page, kPageBytes);
    Builder::Frame f = frame_of(old);
    f.infinite = p.high_bytes == kInfinite;
    f.high = f.infinite ? Slice{} : in.bytes(p.high_bytes);
    if (is_leaf(old)) f.link = PageId{p.right};
    Builder builder(page, f);
    append_slots(builder, old, 0, count(old), header(page).prefix, removed);
    append_records(builder, in, p.count);
    DCHECK(in.at_end() && count(page) == count(old) - p.removed + p.count);
}

void apply_btree_set_child(Page& page, Slice bytes) {
    payload::Reader in(bytes);
    const auto p = in.get<payload::SetChild>();
    assert_state(page);
    DCHECK(in.at_end() && p.page != page.header.page_id);
    if (p.slot == payload::kLink) header(page).link = p.page;
    else splice(page, p.slot, 0, 4, Slice(reinterpret_cast<const char*>(&p.page), 4));
}

}  // namespace lockstep::sm
