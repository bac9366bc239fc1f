// labels: unit
// secondary_key_test.cc - the entries of secondary indexes: order, no two pairs alike, bounds.
#include "sm/secondary/secondary_key.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::secondary_key_test {

// Few different bytes, so that pairs nearly meet; 0, 1 and 255 are what the encoding is about.
std::string text(Rng& rng) {
    std::string out(rng.below(5), '\0');
    for (char& c : out)
        c = "\0\1\xff"
            "a"[rng.below(4)];
    return out;
}

TEST(SecondaryKey, EntriesSortBySecondaryThenPrimaryKey) {
    const uint64_t seed = seed_of_run(3);
    Rng rng(seed);
    for (int n = 0; n < 200'000; ++n) {
        const std::pair a{text(rng), text(rng)}, b{text(rng), text(rng)};
        const std::string x = entry_of(false, a.first, a.second);
        const std::string y = entry_of(false, b.first, b.second);
        ASSERT_EQ(a < b, x < y) << "SE-1, seed " << seed;
        ASSERT_EQ(a == b, x == y) << "SE-1, seed " << seed;
        const bool low = least_entry(false, b.first) <= x, above = entry_above(false, b.first) <= x;
        ASSERT_EQ(a.first >= b.first, low) << seed;
        ASSERT_EQ(a.first > b.first, above) << seed;
        const auto parts = split_entry(false, x, {});
        ASSERT_TRUE(parts && parts->secondary_key == a.first && parts->primary_key == a.second)
            << "SE-2, seed " << seed;
    }
}

TEST(SecondaryKey, UniqueEntriesAreTheKeys) {
    EXPECT_EQ(entry_of(true, Slice("a\0b", 3), "pk"), Slice("a\0b", 3));
    EXPECT_EQ(entry_value(true, "pk"), "pk");
    EXPECT_GT(entry_above(true, "a"), "a");
    EXPECT_LT(entry_above(true, "a"), "aa");
    EXPECT_EQ(split_entry(true, "k", "pk")->primary_key, "pk");
}

TEST(SecondaryKey, WhatIsNoEntryIsRefused) {
    for (const Slice bytes : {Slice(""), Slice("abc"), Slice("a\0", 2), Slice("a\0b", 3)})
        EXPECT_FALSE(split_entry(false, bytes, {}));
    EXPECT_FALSE(split_entry(false, entry_of(false, "a", "b"), "value"));
}

}  // namespace lockstep::sm::secondary_key_test
