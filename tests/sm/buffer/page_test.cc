// labels: unit
// page_test.cc - pages, their images, and the parts of log records.
#include <gtest/gtest.h>

#include "sm/change/log_kinds.h"
#include "threads/base/rng.h"

namespace lockstep::sm::page_test {

Page random_page(uint64_t seed) {
    Rng rng(seed);
    Page page;
    format_page(page, PageId{12}, ObjectId{3}, PageKind::heap);
    for (std::byte& b : page.body) b = static_cast<std::byte>(rng.next());
    page.header.lsn = 4711;
    page.header.hole_begin = 100;
    page.header.hole_end = 8000;
    return page;
}

TEST(Page, ChecksumDependsOnEveryByteAndOnThePlace) {
    Page page = random_page(1);
    const uint64_t sum = page_checksum(page, PageId{12});
    EXPECT_NE(sum, page_checksum(page, PageId{13}));
    for (size_t at = 8; at < kPageBytes; at += 97) {
        page.bytes()[at] ^= std::byte{1};
        EXPECT_NE(sum, page_checksum(page, PageId{12})) << at;
        page.bytes()[at] ^= std::byte{1};
    }
    page.header.checksum = 1;  // itself not part of it
    EXPECT_EQ(sum, page_checksum(page, PageId{12}));
}

TEST(Page, ImageLeavesTheHoleOut) {
    const Page page = random_page(2);
    std::string image(image_bytes(page), 0);
    EXPECT_EQ(image.size(), 4u + 100 + 192);
    write_image(page, reinterpret_cast<std::byte*>(image.data()));
    Page copy = random_page(3);
    install_image(copy, image);
    EXPECT_EQ(0, std::memcmp(copy.bytes(), page.bytes(), 100));
    EXPECT_EQ(0, std::memcmp(copy.bytes() + 8000, page.bytes() + 8000, 192));
    for (size_t at = 100; at < 8000; ++at) ASSERT_EQ(copy.bytes()[at], std::byte{0});
}

TEST(Page, ImageOfAPageWithoutHoleIsTheWholePage) {
    Page page = random_page(4), copy;
    page.header.hole_begin = page.header.hole_end = kPageBytes;
    std::string image(image_bytes(page), 0);
    EXPECT_EQ(image.size(), 4u + kPageBytes);
    write_image(page, reinterpret_cast<std::byte*>(image.data()));
    install_image(copy, image);
    EXPECT_EQ(0, std::memcmp(copy.bytes(), page.bytes(), kPageBytes));
}

// A record of three parts: an image of 8 KB, a payload of odd size, nothing at all.
class Parts : public ::testing::Test {
protected:
    Parts() {
        Page page = random_page(5);
        std::string image(image_bytes(page), 0);
        write_image(page, reinterpret_cast<std::byte*>(image.data()));
        bytes_.assign(sizeof(txn::LogRecordHeader), 0);
        add({12, static_cast<uint8_t>(PageAction::heap_put), kPartImage,
             static_cast<uint16_t>(image.size()), 5, 0},
            image, "hello");
        add({13, static_cast<uint8_t>(PageAction::btree_put), 0, 0, 8, 0}, "", "8 bytes.");
        add({14, static_cast<uint8_t>(PageAction::page_free), kPartFresh, 0, 0, 0}, "", "");
        auto& h = *reinterpret_cast<txn::LogRecordHeader*>(bytes_.data());
        h.bytes = static_cast<uint32_t>(bytes_.size());
        h.kind = static_cast<uint16_t>(LogKind::heap_insert);
        h.txn = 9;
        h.prev = 100;
        h.object = 3;
        h.parts = 3;
    }
    void add(const PartHeader& header, Slice image, Slice payload) {
        const auto put = [&](Slice s) {
            bytes_.append(s);
            bytes_.resize((bytes_.size() + 7) / 8 * 8);
        };
        put({reinterpret_cast<const char*>(&header), sizeof header});
        put(image);
        put(payload);
    }
    txn::LogRecordView view() {
        return {Lsn{4096}, reinterpret_cast<const txn::LogRecordHeader*>(bytes_.data())};
    }
    std::string bytes_;
};

TEST_F(Parts, AreFoundInOrder) {
    uint32_t cursor = 0;
    PartView part;
    ASSERT_TRUE(*next_part(view(), cursor, part));
    EXPECT_EQ(part.page, PageId{12});
    EXPECT_EQ(part.action, PageAction::heap_put);
    EXPECT_EQ(part.image.size(), 4u + 100 + 192);
    EXPECT_EQ(part.payload, "hello");
    ASSERT_TRUE(*next_part(view(), cursor, part));
    EXPECT_EQ(part.payload, "8 bytes.");
    EXPECT_TRUE(part.image.empty());
    ASSERT_TRUE(*next_part(view(), cursor, part));
    EXPECT_EQ(part.action, PageAction::page_free);
    EXPECT_EQ(part.flags, kPartFresh);
    EXPECT_FALSE(*next_part(view(), cursor, part));
    const std::string line = describe_record(view());
    for (const char* word : {"4096", "heap_insert", "txn 9", "prev 100", "page 12", "heap_put",
                             "image", "btree_put", "page 14", "fresh"})
        EXPECT_NE(line.find(word), std::string::npos) << word << " in: " << line;
}

// Whatever the bytes say, every part handed out lies within the record, and images are sound.
TEST_F(Parts, DamageNeverLeadsOutside) {
    Rng rng(77);
    const std::string sound = bytes_;
    uint32_t refused = 0;
    for (int round = 0; round < 20000; ++round) {
        bytes_ = sound;
        const size_t header_at[] = {32, sound.size() - 40, sound.size() - 16};
        for (int hits = 1 + static_cast<int>(rng.below(3)); hits > 0; --hits)
            bytes_[header_at[rng.below(3)] + rng.below(16)] = static_cast<char>(rng.next());
        uint32_t cursor = 0;
        PartView part;
        for (int n = 0;; ++n) {
            ASSERT_LT(n, 100);
            const auto more = next_part(view(), cursor, part);
            if (!more.has_value()) {
                EXPECT_EQ(more.error().code, ErrorCode::corrupt_log);
                ++refused;
                break;
            }
            if (!*more) break;
            const char* end = bytes_.data() + bytes_.size();
            ASSERT_LE(part.payload.data() + part.payload.size(), end);
            ASSERT_LE(part.image.data() + part.image.size(), end);
            Page page;
            if (!part.image.empty()) install_image(page, part.image);
        }
        (void)describe_record(view());
    }
    EXPECT_GT(refused, 5000u);
}

TEST(LogKinds, HaveNames) {
    EXPECT_STREQ(log_kind_name(static_cast<uint16_t>(LogKind::btree_split)), "btree_split");
    EXPECT_STREQ(log_kind_name(static_cast<uint16_t>(txn::TxnLogKind::commit)), "commit");
    EXPECT_STREQ(log_kind_name(999), "?");
    EXPECT_STREQ(page_action_name(PageAction::space_set), "space_set");
}

}  // namespace lockstep::sm::page_test
