// labels: unit
// random_test.cc - NURand, last names, strings and the constants follow clauses 2.1.6 and 4.3.2.
#include "tpcc/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace lockstep::tpcc::random_test {

TEST(Random, LastNamesAreThreeSyllables) {
    EXPECT_EQ(last_name(0).view(), "BARBARBAR");
    EXPECT_EQ(last_name(371).view(), "PRICALLYOUGHT");  // the specification's example
    EXPECT_EQ(last_name(999).view(), "EINGEINGEING");
    std::set<std::string> names;
    for (uint32_t n = 0; n < 1000; ++n) names.emplace(last_name(n).view());
    EXPECT_EQ(names.size(), 1000u);
}

TEST(Random, NurandStaysInRangeAndIsSkewed) {
    Rng rng(1);
    std::vector<uint32_t> counts(3001);
    constexpr int kDraws = 300'000;
    for (int i = 0; i < kDraws; ++i) {
        const uint32_t v = nurand(rng, 1023, 1, 3000, 259);
        ASSERT_GE(v, 1u);
        ASSERT_LE(v, 3000u);
        ++counts[v];
    }
    // Uniform draws would stay within a few standard deviations (10) of 100; the bitwise or makes
    // some values far more frequent.
    EXPECT_GT(*std::max_element(counts.begin() + 1, counts.end()), 300u);
}

TEST(Random, ConstantsKeepTheRelationOfLoadAndRun) {
    for (uint64_t seed = 1; seed <= 500; ++seed) {
        const RandomConstants c = RandomConstants::choose(seed);
        const int delta =
            std::abs(static_cast<int>(c.c_last_run) - static_cast<int>(c.c_last_load));
        ASSERT_GE(delta, 65) << "seed " << seed;
        ASSERT_LE(delta, 119) << "seed " << seed;
        ASSERT_NE(delta, 96);
        ASSERT_NE(delta, 112);
        ASSERT_TRUE(c.valid());
    }
    EXPECT_FALSE((RandomConstants{0, 96, 0, 0}.valid()));
    EXPECT_FALSE((RandomConstants{0, 64, 0, 0}.valid()));
}

TEST(Random, LettersAreSpreadEvenly) {
    Rng rng(2);
    std::vector<char> text(620'000);
    random_letters(rng, text);
    std::vector<int> counts(256);
    for (const char c : text) {
        ASSERT_TRUE(std::isalnum(static_cast<unsigned char>(c)));
        ++counts[static_cast<unsigned char>(c)];
    }
    for (int c = 0; c < 256; ++c) {
        if (!std::isalnum(c)) continue;
        EXPECT_NEAR(counts[c], 10'000, 600) << static_cast<char>(c);
    }
}

TEST(Random, DataHasOriginalWhereAsked) {
    Rng rng(3);
    for (int i = 0; i < 1000; ++i) {
        Text<50> data;
        random_data(rng, i % 2, data);
        ASSERT_GE(data.size, 26);
        ASSERT_LE(data.size, 50);
        ASSERT_EQ(is_original(data), i % 2 == 1);
    }
}

// Texts of the word's own letters: parts of it, also just before the whole.
TEST(Random, OriginalIsFoundAmongItsOwnLetters) {
    const std::string word = "ORIGINAL";
    Rng rng{7};
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        while (text.size() < 24) {
            const size_t from = rng.below(word.size());
            text += word.substr(from, 1 + rng.below(word.size()));
        }
        text.resize(rng.below(text.size() + 1));
        ASSERT_EQ(is_original(text), text.find(word) != std::string::npos) << text;
    }
    EXPECT_TRUE(is_original(word));
    EXPECT_FALSE(is_original(word.substr(1)));
    EXPECT_FALSE(is_original(""));
}

TEST(Random, ShuffleIsAPermutationAndMovesThings) {
    Rng rng(4);
    std::vector<int> values(100);
    for (int i = 0; i < 100; ++i) values[i] = i;
    shuffle(rng, std::span(values));
    EXPECT_EQ(std::set<int>(values.begin(), values.end()).size(), 100u);
    int moved = 0;
    for (int i = 0; i < 100; ++i) moved += values[i] != i;
    EXPECT_GT(moved, 80);
}

TEST(Random, RowStreamsDiffer) {
    std::set<uint64_t> firsts;
    for (uint64_t w = 1; w <= 20; ++w)
        for (uint64_t d = 1; d <= 10; ++d)
            for (uint64_t id = 1; id <= 50; ++id) firsts.insert(row_rng(7, 1, w, d, id).next());
    EXPECT_EQ(firsts.size(), 20u * 10 * 50);
}

}  // namespace lockstep::tpcc::random_test
