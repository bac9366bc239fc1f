// labels: unit
// coherence_caches_test.cc - the counter of cache-line transfers, against sequences of
// accesses whose transfers can be counted by hand.
#include <gtest/gtest.h>

#include "tools/coherence/caches.h"

namespace lockstep::coherence::coherence_caches_test {

// One structure of two lines.
struct CoherenceCaches : ::testing::Test {
    void SetUp() override {
        caches.names().add({"both", nullptr, kAt, kAt + 128, 128, nullptr});
        caches.names().add({"both", "word", kAt + 8, kAt + 16, 0, nullptr});
        caches.begin();
    }
    void read(unsigned cache, uint64_t offset) {
        caches.access(cache, kAt + offset, 8, Access::read, 1);
    }
    void write(unsigned cache, uint64_t offset) {
        caches.access(cache, kAt + offset, 8, Access::write, 1);
    }
    Count sum() const {
        Count all;
        for (const auto& [key, count] : caches.counts()) {
            all.read_misses += count.read_misses;
            all.write_misses += count.write_misses;
            all.upgrades += count.upgrades;
            all.false_misses += count.false_misses;
            all.prefetches += count.prefetches;
        }
        return all;
    }
    static constexpr uint64_t kAt = 0x10000;
    Caches caches;
};

TEST_F(CoherenceCaches, ALineOfOneCacheNeverMoves) {
    for (int n = 0; n < 10; ++n) write(0, 0), read(0, 8);
    EXPECT_TRUE(caches.counts().empty());
}

TEST_F(CoherenceCaches, ReadersShareALineThatNobodyWrites) {
    for (unsigned cache = 0; cache < 4; ++cache) read(cache, 0);
    EXPECT_TRUE(caches.counts().empty());
}

TEST_F(CoherenceCaches, AWordThatTwoCachesWriteMovesEachTime) {
    write(0, 0);
    for (int n = 0; n < 5; ++n) write(1, 0), write(0, 0);
    EXPECT_EQ(sum().write_misses, 10u);
    EXPECT_EQ(sum().false_misses, 0u);
}

TEST_F(CoherenceCaches, NeighboursInOneLineAreFalseSharing) {
    write(0, 0), write(1, 32);
    for (int n = 0; n < 5; ++n) write(0, 0), write(1, 32);
    EXPECT_EQ(sum().write_misses, 11u);
    EXPECT_EQ(sum().false_misses, 10u);  // not the first, which had never been there
}

TEST_F(CoherenceCaches, OnLinesOfTheirOwnTheyDoNotMove) {
    for (int n = 0; n < 5; ++n) write(0, 0), write(1, 64);
    EXPECT_TRUE(caches.counts().empty());
}

TEST_F(CoherenceCaches, AReadBeforeAWriteIsTwoTransfersUnlessItFetchesToWrite) {
    write(0, 0);
    read(1, 0), write(1, 0);
    EXPECT_EQ(sum().read_misses, 1u);
    EXPECT_EQ(sum().upgrades, 1u);
    caches.begin();
    write(0, 0);
    caches.access(1, kAt, 1, Access::prefetch_to_write, 1);
    read(1, 0), write(1, 0);
    EXPECT_EQ(sum().write_misses, 2u);
    EXPECT_EQ(sum().read_misses + sum().upgrades, 0u);
    EXPECT_EQ(sum().prefetches, 1u);
}

TEST_F(CoherenceCaches, AnAccessAcrossLinesMovesBoth) {
    write(0, 56), write(0, 64);
    caches.access(1, kAt + 60, 8, Access::read, 1);
    EXPECT_EQ(sum().read_misses, 2u);
}

TEST_F(CoherenceCaches, NothingCountsOutsideTheInterval) {
    caches.end();
    write(0, 0), write(1, 0);
    EXPECT_TRUE(caches.counts().empty());
    caches.begin();
    write(0, 0);  // the states of the lines were kept
    EXPECT_EQ(sum().write_misses, 1u);
}

TEST_F(CoherenceCaches, TheNewestRangeNamesAPlace) {
    const Names& names = caches.names();
    EXPECT_STREQ(names.place_of(kAt + 12).field, "word");
    EXPECT_EQ(names.place_of(kAt + 16).field, nullptr);
    EXPECT_EQ(names.place_of(kAt + 100).offset, 96u);
    EXPECT_STREQ(names.place_of(kAt + 128).structure, "other");
    caches.names().add({"again", nullptr, kAt, kAt + 128, 0, nullptr});
    EXPECT_STREQ(names.place_of(kAt + 12).structure, "again");
}

}  // namespace lockstep::coherence::coherence_caches_test
