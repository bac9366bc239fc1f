// labels: unit model
// heap_page_test.cc - the actions on heap pages, against a map of slots.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "sm/change/log_kinds.h"
#include "sm/heap/heap_page.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::heap_page_test {

using namespace heap;

std::string payload(Slice head, Slice a = {}, Slice b = {}) {
    return std::string(head) + std::string(a) + std::string(b);
}

struct PageUnderTest {
    std::unique_ptr<Page> page = std::make_unique<Page>();
    std::map<uint32_t, std::string> live, ghosts;

    PageUnderTest() {
        const FormatPayload p{17, 5, 16, 3, 0};
        apply_action(PageAction::heap_format, *page, bytes_of(p));
    }
    uint32_t room() const { return data(*page).free_bytes; }
    void put(uint32_t index, const std::string& bytes) {
        const PutPayload p{static_cast<uint16_t>(index), kLive, 0};
        apply_action(PageAction::heap_put, *page, payload(bytes_of(p), bytes));
        live[index] = bytes;
        ghosts.erase(index);
    }
    void remove(uint32_t index, RemoveMode mode) {
        const RemovePayload p{static_cast<uint16_t>(index), mode, kLive};
        apply_action(PageAction::heap_remove, *page, payload(bytes_of(p), live[index]));
        if (mode == kToGhost) ghosts[index] = live[index];
        live.erase(index);
    }
    void replace(uint32_t index, uint32_t at, uint32_t old_bytes, const std::string& bytes) {
        const ReplacePayload p{static_cast<uint16_t>(index),
                               kLive,
                               kLive,
                               static_cast<uint16_t>(at),
                               static_cast<uint16_t>(old_bytes),
                               static_cast<uint16_t>(bytes.size()),
                               0};
        apply_action(PageAction::heap_replace, *page,
                     payload(bytes_of(p), bytes, live[index].substr(at, old_bytes)));
        live[index].replace(at, old_bytes, bytes);
    }
    void trim(const std::vector<uint16_t>& slots) {
        const RemovePayload p{static_cast<uint16_t>(slots.size()), kTrim, 0};
        apply_action(
            PageAction::heap_remove, *page,
            payload(bytes_of(p), {reinterpret_cast<const char*>(slots.data()), slots.size() * 2}));
        for (uint16_t s : slots) ghosts.erase(s);
    }
    void check() const {
        ASSERT_EQ(check_page(*page), nullptr) << check_page(*page);
        for (const auto& [index, bytes] : live) {
            ASSERT_LT(index, data(*page).slot_count);
            ASSERT_EQ(slot(*page, index).state, kLive);
            ASSERT_EQ(content(*page, slot(*page, index)), bytes) << "slot " << index;
        }
        for (const auto& [index, bytes] : ghosts) {
            ASSERT_EQ(slot(*page, index).state, kLive | kGhost);
            ASSERT_EQ(content(*page, slot(*page, index)), bytes) << "ghost " << index;
        }
        for (uint32_t i = 0; i < data(*page).slot_count; ++i)
            if (!live.contains(i) && !ghosts.contains(i)) {
                ASSERT_EQ(slot(*page, i).state, kEmpty);
            }
    }
};

std::string random_bytes(Rng& rng, size_t size) {
    std::string bytes(size, 0);
    for (char& c : bytes) c = static_cast<char>(rng.next());
    return bytes;
}

TEST(HeapPage, FreshPageIsEmpty) {
    PageUnderTest p;
    p.check();
    EXPECT_EQ(p.room(), kPageBytes - kSlotsAt);
    EXPECT_EQ(data(*p.page).map_page, 16u);
    EXPECT_EQ(data(*p.page).map_index, 3u);
    EXPECT_EQ(p.page->header.hole_begin, kSlotsAt);
    EXPECT_EQ(p.page->header.hole_end, kPageBytes);
}

TEST(HeapPage, LargestRecordFits) {
    PageUnderTest p;
    p.put(0, std::string(8008, 'x'));
    p.check();
}

TEST(HeapPage, GhostKeepsItsBytesAndRoom) {
    PageUnderTest p;
    p.put(0, std::string(4000, 'a'));
    p.put(1, std::string(3900, 'b'));
    const uint32_t before = p.room();
    p.remove(0, kToGhost);
    EXPECT_EQ(p.room(), before);
    EXPECT_EQ(data(*p.page).reclaimable, 4000);
    p.check();
    p.put(0, std::string(4000, 'a'));  // the undo of a delete
    p.check();
    p.remove(0, kToGhost);
    p.trim({0});
    EXPECT_EQ(p.room(), before + 4000);
    p.check();
}

TEST(HeapPage, ShortenedRecordKeepsItsRoomUntilTrimmed) {
    PageUnderTest p;
    p.put(0, std::string(1000, 'a'));
    const uint32_t before = p.room();
    p.replace(0, 0, 1000, "b");
    EXPECT_EQ(p.room(), before);
    p.replace(0, 0, 1, std::string(1000, 'a'));
    EXPECT_EQ(p.room(), before);
    p.replace(0, 10, 990, "");
    p.trim({0});
    EXPECT_EQ(p.room(), before + 1000 - 12);
    p.check();
}

// Every action applied to a copy that was rebuilt from the page's image gives the same record
// bytes: redo equals the forward path.
TEST(HeapPage, RandomOperationsAgainstModelAndRedo) {
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 200; ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        Rng rng(seed);
        PageUnderTest p;
        for (int step = 0; step < 400; ++step) {
            const uint32_t size = static_cast<uint32_t>(rng.below(rng.chance(0.1) ? 2000 : 120));
            auto pick = [&](auto& from) {
                return std::next(from.begin(), static_cast<long>(rng.below(from.size())))->first;
            };
            switch (rng.below(6)) {
                case 0:
                case 1: {
                    uint32_t index = data(*p.page).slot_count;
                    for (uint32_t i = 0; i < data(*p.page).slot_count && rng.chance(0.9); ++i)
                        if (slot(*p.page, i).state == kEmpty) index = i;
                    if (p.room() >= capacity_for(size) + sizeof(Slot))
                        p.put(index, random_bytes(rng, size));
                    break;
                }
                case 2:
                    if (!p.live.empty())
                        p.remove(pick(p.live), rng.chance(0.7) ? kToGhost : kToEmpty);
                    break;
                case 3:
                    if (!p.ghosts.empty()) {
                        const uint32_t index = pick(p.ghosts);
                        if (rng.chance(0.5)) p.put(index, std::string(p.ghosts[index]));
                        else p.trim({static_cast<uint16_t>(index)});
                    }
                    break;
                default:
                    if (!p.live.empty()) {
                        const uint32_t index = pick(p.live);
                        const std::string& now = p.live[index];
                        const uint32_t at = static_cast<uint32_t>(rng.below(now.size() + 1));
                        const uint32_t old_bytes =
                            static_cast<uint32_t>(rng.below(now.size() - at + 1));
                        if (p.room() + slot(*p.page, index).capacity >=
                            capacity_for(now.size() - old_bytes + size))
                            p.replace(index, at, old_bytes, random_bytes(rng, size));
                        if (rng.chance(0.1)) p.trim({static_cast<uint16_t>(index)});
                    }
            }
            p.check();
            if (HasFatalFailure()) return;
            // From here on the page as an image would give it back.
            if (rng.chance(0.05)) {
                std::string image(image_bytes(*p.page), 0);
                write_image(*p.page, reinterpret_cast<std::byte*>(image.data()));
                auto copy = std::make_unique<Page>();
                std::memset(static_cast<void*>(copy.get()), 0xee, kPageBytes);
                install_image(*copy, image);
                p.page = std::move(copy);
                p.check();
            }
        }
    }
}

TEST(HeapMapPage, ListsPages) {
    auto page = std::make_unique<Page>();
    const MapFormatPayload format{9, 5, kPageNone.value, 0};
    apply_action(PageAction::heap_map_format, *page, bytes_of(format));
    EXPECT_EQ(page->kind(), PageKind::heap_map);
    EXPECT_EQ(map(*page).entries, 0);
    EXPECT_EQ(map(*page).next, kPageNone.value);
    for (uint16_t i = 0; i < kMapEntries; ++i) {
        const MapSetPayload set{i, 7, kAppend, 1000u + i};
        apply_action(PageAction::heap_map_set, *page, bytes_of(set));
    }
    EXPECT_EQ(map(*page).entries, kMapEntries);
    EXPECT_EQ(page->header.hole_begin, page->header.hole_end);
    const MapSetPayload change{77, 2, kSetClass, 1077};
    apply_action(PageAction::heap_map_set, *page, bytes_of(change));
    EXPECT_EQ(map(*page).free_class[77], 2);
    EXPECT_EQ(map(*page).page[77], 1077u);
    const MapSetPayload last{kMapEntries - 1, 0, kRemoveLast, 0};
    apply_action(PageAction::heap_map_set, *page, bytes_of(last));
    EXPECT_EQ(map(*page).entries, kMapEntries - 1);
    const uint32_t next = 4711;
    apply_action(PageAction::heap_set_link, *page, bytes_of(next));
    EXPECT_EQ(map(*page).next, 4711u);
}

}  // namespace lockstep::sm::heap_page_test
