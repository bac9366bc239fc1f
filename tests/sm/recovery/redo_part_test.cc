// labels: unit memory
// redo_part_test.cc - one part of a record and the page that it meets at a restart.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "sm/recovery/recovery_parts.h"

namespace lockstep::sm::redo_part_test {

const PartView kFrees{PageId{9}, PageAction::page_free, 0, {}, {}};

// What a torn write, or an older user of the place, may have left.
std::unique_ptr<Page> page_of_bytes(int byte) {
    auto page = std::make_unique<Page>();
    std::memset(page->bytes(), byte, kPageBytes);
    return page;
}

std::unique_ptr<Page> leaf() {
    auto page = page_of_bytes(0);
    format_page(*page, PageId{9}, ObjectId{20}, PageKind::btree);
    page->header.lsn = 500;
    return page;
}

TEST(RedoPart, FreesAPageWhoseBytesAreUnknown) {
    for (const int byte : {0x00, 0x5a, 0xff}) {
        const auto page = page_of_bytes(byte);
        ASSERT_TRUE(redo_part(*page, false, kFrees, Lsn{600}).value());
        EXPECT_EQ(page->id(), PageId{9}) << byte;
        EXPECT_EQ(page->kind(), PageKind::free) << byte;
        EXPECT_EQ(page->header.object, 0u) << byte;
    }
}

TEST(RedoPart, LeavesAPageThatHasThePart) {
    for (const uint64_t end : {499, 500}) {
        const auto page = leaf();
        EXPECT_FALSE(redo_part(*page, true, kFrees, Lsn{end}).value());
        EXPECT_EQ(page->kind(), PageKind::btree);
    }
    const auto page = leaf();
    EXPECT_TRUE(redo_part(*page, true, kFrees, Lsn{501}).value());
    EXPECT_EQ(page->kind(), PageKind::free);
}

}  // namespace lockstep::sm::redo_part_test
