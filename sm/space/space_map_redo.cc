// space_map_redo.cc - the actions on space-map pages.
#include "sm/space/space_map_impl.h"

namespace lockstep::sm {

using namespace space;

namespace {

template <class Change>
void for_each_page(Page& page, Slice payload, Change change) {
    CHECK(payload.size() % sizeof(Run) == 0);
    for (size_t at = 0; at < payload.size(); at += sizeof(Run)) {
        Run run;
        std::memcpy(&run, payload.data() + at, sizeof run);
        const uint32_t first = run.first - first_covered(page.id());
        CHECK(run.count <= kPagesPerMap && first <= kPagesPerMap - run.count);
        for (uint32_t bit = first; bit < first + run.count; ++bit) change(bit);
    }
}

void set_bit(Page& page, uint32_t bit) {
    uint64_t& word = words(page)[bit / 64];
    CHECK(!(word & (1ull << (bit % 64))));  // SP-2
    word |= 1ull << (bit % 64);
    ++used(page);
    const auto behind = static_cast<uint16_t>(kBitsAt + (bit / 64 + 1) * 8);
    if (behind > page.header.hole_begin) page.header.hole_begin = behind;
}

}  // namespace

void apply_space_set(Page& page, Slice payload) {
    assert_state(page);
    for_each_page(page, payload, [&](uint32_t bit) { set_bit(page, bit); });
}

void apply_space_clear(Page& page, Slice payload) {
    assert_state(page);
    for_each_page(page, payload, [&](uint32_t bit) {
        uint64_t& word = words(page)[bit / 64];
        CHECK(word & (1ull << (bit % 64)));  // SP-1: what is freed was in use
        word &= ~(1ull << (bit % 64));
        DCHECK(used(page) > 0);
        --used(page);
    });
}

// Payload: u32 id of the map page. What it uses from the beginning: itself, and the superblocks
// before the first one.
void apply_space_format(Page& page, Slice payload) {
    uint32_t id;
    CHECK(payload.size() == sizeof id);
    std::memcpy(&id, payload.data(), sizeof id);
    DCHECK(PageId{id} == map_page(map_of(PageId{id})));
    format_page(page, PageId{id}, ObjectId{0}, PageKind::space_map);
    page.header.hole_begin = kBitsAt;
    for (uint32_t p = first_covered(PageId{id}); p <= id; ++p)
        set_bit(page, p - first_covered(PageId{id}));
    assert_state(page);
}

void make_empty_map(Page& page, PageId id, Lsn lsn) {
    DCHECK(is_map_page(id) && lsn != kLsnNone);
    apply_space_format(page, Slice(reinterpret_cast<const char*>(&id.value), sizeof id.value));
    page.header.lsn = lsn.value;
    page.header.checksum = page_checksum(page, id);
    DCHECK(page.id() == id && used(page) >= 1);
}

}  // namespace lockstep::sm
