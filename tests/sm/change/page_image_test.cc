// labels: unit
// page_image_test.cc - packed page images: what is packed, what comes back, and what damage makes
// of it.
#include "sm/change/page_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "sm/core/image_trials.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::page_image_test {

enum class Content { zeros, rows, text, random };

std::string row(uint64_t n) {
    return "{\"id\": " + std::to_string(n) + ", \"name\": \"customer number " + std::to_string(n) +
           "\", \"city\": \"Uppsala\", \"balance\": 0}";
}

// A page with a hole, and old bytes in it.
std::unique_ptr<Page> make_page(Rng& rng, Content content, unsigned hole_begin, unsigned hole_end) {
    auto page = std::make_unique<Page>();
    format_page(*page, PageId{7}, ObjectId{20}, PageKind::btree);
    char* const at = reinterpret_cast<char*>(page->bytes());
    for (unsigned i = sizeof(PageHeader), n = 0; i < kPageBytes; ++n) {
        const std::string bytes = content == Content::rows ? row(n) : std::string(64, 0);
        for (size_t b = 0; b < bytes.size() && i < kPageBytes; ++b, ++i) {
            if (content == Content::random) at[i] = static_cast<char>(rng.below(256));
            else if (content == Content::text) at[i] = static_cast<char>('0' + rng.below(62));
            else at[i] = bytes[b];
        }
    }
    std::memset(at + hole_begin, 0x5a, hole_end - hole_begin);
    page->header.hole_begin = static_cast<uint16_t>(hole_begin);
    page->header.hole_end = static_cast<uint16_t>(hole_end);
    return page;
}

struct Packed {
    uint32_t bytes = 0;  // before `at`, whose initializer sets it
    std::unique_ptr<std::byte[]> at;
    explicit Packed(const Page& page) : at(pack_image(page, bytes)) {}
    PartView part() const {
        return {PageId{7},
                PageAction::btree_put,
                kPartImage | kPartPacked,
                Slice(reinterpret_cast<const char*>(at.get()), bytes),
                {}};
    }
};

// A record with one part that has this image.
struct Record {
    alignas(8) std::byte bytes[sizeof(txn::LogRecordHeader) + sizeof(PartHeader) + kPageBytes + 64];
    txn::LogRecordView view;
    Record(Slice image, uint8_t flags) {
        std::memset(bytes, 0, sizeof bytes);
        const auto padded = static_cast<uint32_t>((image.size() + 7) & ~size_t{7});
        auto* header = reinterpret_cast<txn::LogRecordHeader*>(bytes);
        header->bytes = static_cast<uint32_t>(sizeof *header + sizeof(PartHeader)) + padded;
        header->kind = static_cast<uint16_t>(LogKind::btree_insert);
        header->parts = 1;
        auto* part = reinterpret_cast<PartHeader*>(header + 1);
        part->page = 7;
        part->action = static_cast<uint8_t>(PageAction::btree_put);
        part->flags = flags;
        part->image_bytes = static_cast<uint16_t>(image.size());
        std::memcpy(part + 1, image.data(), image.size());
        view.header = header;
        view.lsn = Lsn{4096};
    }
};

TEST(PageImage, PackedImagesComeBack) {
    Rng rng(seed_of_run(20261123));
    for (const auto& [begin, end] : {std::pair{32u, 8192u},
                                     {32u, 32u},
                                     {8192u, 8192u},
                                     {400u, 600u},
                                     {64u, 4000u},
                                     {7000u, 8192u}}) {
        for (const Content content : {Content::zeros, Content::rows}) {
            const auto page = make_page(rng, content, begin, end);
            const Packed packed(*page);
            const uint32_t plain = image_bytes(*page);
            if (plain < 512) {
                EXPECT_EQ(packed.at, nullptr);
                continue;
            }
            ASSERT_NE(packed.at, nullptr) << begin << " .. " << end;
            EXPECT_LE(packed.bytes, packed_bytes_max(plain));  // PI-1
            if (begin == 32 && end == 32) {
                EXPECT_LT(packed.bytes, plain / 2);
            }
            auto back = make_page(rng, Content::random, 100, 200);
            const Result<void> brought = bring_image(*back, packed.part());
            ASSERT_TRUE(brought) << brought.error().text();
            std::memset(page->bytes() + begin, 0, end - begin);
            EXPECT_EQ(0, std::memcmp(page->bytes(), back->bytes(), kPageBytes))
                << begin << " .. " << end;
        }
    }
}

TEST(PageImage, WhatDoesNotShrinkIsLeftAlone) {
    Rng rng(seed_of_run(20261123));
    EXPECT_EQ(Packed(*make_page(rng, Content::random, 100, 200)).at, nullptr);
    EXPECT_EQ(Packed(*make_page(rng, Content::text, 100, 200)).at, nullptr);
}

// A page of random text costs 8 trials in 255 images, and an index that has changed is found out.
TEST(PageImage, TrialsThatDoNotPayBecomeRare) {
    ImageTrials trials;
    const ObjectId poor{16}, good{17};
    unsigned tried = 0;
    for (int i = 0; i < 255; ++i) {
        if (trials.due(poor)) {
            ++tried;
            trials.note(poor, false);
        }
        ASSERT_TRUE(trials.due(good));
        trials.note(good, true);
    }
    EXPECT_EQ(tried, 8u);
    unsigned waited = 0;
    while (!trials.due(poor)) ++waited;
    EXPECT_LE(waited, 127u);
    trials.note(poor, true);
    EXPECT_TRUE(trials.due(poor));
}

// PI-2: each damaged bit, each length. The page lies between guards, which the sanitizer watches.
TEST(PageImage, DamageIsCorruptLogAndNeverData) {
    Rng rng(seed_of_run(20261123));
    const auto page = make_page(rng, Content::rows, 300, 700);
    const Packed packed(*page);
    ASSERT_NE(packed.at, nullptr);
    const std::string sound(packed.part().image);
    std::memset(page->bytes() + 300, 0, 400);
    auto back = std::make_unique<Page>();
    unsigned refused = 0, same = 0;
    const auto look = [&](const std::string& image, uint8_t flags) {
        const Record record(image, flags);
        uint32_t cursor = 0;
        PartView part;
        const Result<bool> next = next_part(record.view, cursor, part);
        const Result<void> brought = next.has_value() ? bring_image(*back, part)
                                                      : Result<void>(std::unexpected(next.error()));
        if (!brought) {
            EXPECT_EQ(brought.error().code, ErrorCode::corrupt_log);
            ++refused;
            return;
        }
        // LZ4 has several blocks for the same bytes.
        EXPECT_EQ(0, std::memcmp(page->bytes(), back->bytes(), kPageBytes));
        ++same;
    };
    look(sound, kPartImage | kPartPacked);
    EXPECT_EQ(same, 1u);
    for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
        std::string image = sound;
        image[bit / 8] = static_cast<char>(image[bit / 8] ^ (1 << bit % 8));
        look(image, kPartImage | kPartPacked);
    }
    for (size_t bytes = 0; bytes < sound.size(); ++bytes)
        look(sound.substr(0, bytes), kPartImage | kPartPacked);
    look(sound + std::string(8, 0), kPartImage | kPartPacked);
    look(sound, kPartImage);   // taken for a plain one
    look(sound, kPartPacked);  // an image that is not there
    look("", kPartImage | kPartPacked);
    look("", kPartPacked);
    EXPECT_GT(refused, sound.size() * 8);
    EXPECT_LT(same, 50u);
}

}  // namespace lockstep::sm::page_image_test
