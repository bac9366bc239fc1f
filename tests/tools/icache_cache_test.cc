// labels: unit
// icache_cache_test.cc - the cache simulator against sequences whose misses can be
// counted by hand, and against a slow obvious model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <list>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "tools/icache/cache.h"

namespace lockstep::icache::icache_cache_test {

uint32_t misses(Cache& cache, std::initializer_list<uint64_t> lines) {
    uint32_t n = 0;
    for (const uint64_t line : lines) n += !cache.access(line);
    return n;
}

TEST(IcacheCache, DirectMappedConflicts) {
    Cache cache({1024, 1, 64});                    // 16 sets
    EXPECT_EQ(misses(cache, {0, 16, 0, 16}), 4u);  // one set, one way
    EXPECT_EQ(misses(cache, {1, 2, 1, 2}), 2u);
    EXPECT_EQ(misses(cache, {16, 1, 2}), 0u);
}

TEST(IcacheCache, TwoWaysKeepTwoAndDropTheOldest) {
    Cache cache({1024, 2, 64});  // 8 sets
    EXPECT_EQ(misses(cache, {0, 8, 0, 8}), 2u);
    EXPECT_EQ(misses(cache, {16}), 1u);  // drops 0, the least recently used
    EXPECT_EQ(misses(cache, {8, 16}), 0u);
    EXPECT_EQ(misses(cache, {0}), 1u);  // drops 8
    EXPECT_EQ(misses(cache, {16, 8}), 1u);
}

TEST(IcacheCache, FullKeepsTheLatestLines) {
    Cache cache({256, 0, 64});  // 4 lines
    EXPECT_EQ(misses(cache, {1, 2, 3, 4}), 4u);
    EXPECT_EQ(misses(cache, {1, 2, 3, 4}), 0u);
    EXPECT_EQ(misses(cache, {5}), 1u);  // drops 1
    EXPECT_EQ(misses(cache, {2, 3, 4, 5}), 0u);
    // A loop of one line more than the cache misses always: what LRU is known for.
    EXPECT_EQ(misses(cache, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}), 10u);
}

TEST(IcacheCache, TouchCountsLinesThatAreCrossed) {
    Cache cache({1024, 2, 64});
    EXPECT_EQ(cache.touch(60, 8), 2u);
    EXPECT_EQ(cache.touch(0, 128), 0u);
    EXPECT_EQ(cache.touch(128, 64), 1u);
    cache.clear();
    EXPECT_EQ(cache.touch(60, 8), 2u);
}

// IC-1, IC-2.
TEST(IcacheCache, EveryShapeAgreesWithAListPerSet) {
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE(testing::Message() << "LOCKSTEP_SEED=" << seed);
    for (const Geometry& geometry :
         {Geometry{1024, 1, 64}, {1024, 4, 32}, {2048, 8, 64}, {1024, 0, 64}, {4096, 0, 32}}) {
        Rng rng(seed);
        Cache cache(geometry);
        std::vector<std::list<uint64_t>> sets(geometry.sets());
        for (int i = 0; i < 20000; ++i) {
            const uint64_t line = rng.chance(0.5) ? rng.below(geometry.lines() * 2)
                                                  : rng.below(geometry.lines() / 2 + 1);
            auto& set = sets[line % geometry.sets()];
            const auto found = std::find(set.begin(), set.end(), line);
            const bool there = found != set.end();
            if (there) set.erase(found);
            set.push_front(line);
            if (set.size() > geometry.ways_real()) set.pop_back();
            ASSERT_EQ(cache.access(line), there) << geometry.text() << " access " << i;
        }
    }
}

TEST(IcacheGeometry, ReadsWhatPeopleWrite) {
    EXPECT_EQ(*parse_geometry("65536,2,64"), (Geometry{65536, 2, 64}));
    EXPECT_EQ(*parse_geometry("65536,2"), (Geometry{65536, 2, 64}));
    EXPECT_EQ(*parse_geometry("16K,full,64"), (Geometry{16384, 0, 64}));
    EXPECT_EQ(parse_geometry("16K,full,64")->sets(), 1u);
    EXPECT_EQ(parse_geometry("32K,8,64")->sets(), 64u);
    for (const char* bad : {"", "65536", "65536,", "65536,2,64,1", "65537,2,64", "65536,3,64",
                            "65536,0,64", "65536,2,48", "65536,2,8", "128,2,64", "64G,2,64",
                            "x,2,64", "65536,-2,64", "4096,128,64", "65536,2,", "1Kx,2,64"})
        EXPECT_FALSE(parse_geometry(bad)) << bad;
}

}  // namespace lockstep::icache::icache_cache_test
