// labels: unit
// space_map_test.cc - pages are given once, come back, and the volume grows.
#include <set>

#include "tests/sm/buffer/pool_test_util.h"

namespace lockstep::sm::space_map_test {

Result<std::vector<PageId>> take(RestartEnv& engine, uint32_t count) {
    PageReservation r = TRY(engine.space->prepare(count));
    ChangePart part = r.part();
    TRY(change_pages(engine, nullptr, ChangeRole::system, LogKind::space_grow, ObjectId{0},
                     {&part, 1}));
    return std::vector<PageId>(r.pages, r.pages + r.count);
}

TEST(SpaceMap, NewVolume) {
    PoolRig rig;
    rig.run([&] {
        SpaceMap& space = *rig.engine.space;
        EXPECT_EQ(space.pages_total(), (256u << 10) / kPageBytes);
        EXPECT_EQ(space.pages_used(), 3u);
        for (uint32_t p = 0; p < 3; ++p) EXPECT_TRUE(*space.is_used(PageId{p}));
        EXPECT_FALSE(*space.is_used(PageId{3}));
        EXPECT_FALSE(*space.is_used(PageId{1u << 30}));
    });
}

// SP-2 under two workers, with pages coming back all the time.
TEST(SpaceMap, NoPageIsGivenTwice) {
    PoolRig rig({.workers = 2, .pool_bytes = 4 << 20});
    const uint64_t seed = seed_of_run();
    std::vector<std::atomic<int>> owned(200000);
    std::atomic<uint64_t> held{0};
    std::vector<std::function<void()>> fns;
    for (int t = 0; t < 6; ++t)
        fns.push_back([&, t] {
            Rng rng(seed * 7 + t);
            std::vector<PageId> mine;
            for (int i = 0; i < 1200; ++i) {
                if (mine.size() < 400 && rng.chance(0.6)) {
                    auto pages = take(rig.engine, 1 + static_cast<uint32_t>(rng.below(8)));
                    ASSERT_TRUE(pages) << pages.error().text();
                    for (const PageId p : *pages) {
                        ASSERT_EQ(owned[p.value].fetch_add(1), 0)
                            << "page " << p.value << " seed " << seed;
                        ASSERT_LT(p.value, rig.engine.space->pages_total());
                        mine.push_back(p);
                    }
                } else if (!mine.empty()) {
                    std::swap(mine[rng.below(mine.size())], mine.back());
                    owned[mine.back().value].fetch_sub(1);
                    ASSERT_TRUE(rig.engine.space->free_now({&mine.back(), 1}));
                    mine.pop_back();
                }
                if (i % 16 == 0) threads::yield();
            }
            held += mine.size();
        });
    rig.run_all(std::move(fns));
    rig.run([&] {
        EXPECT_EQ(rig.engine.space->pages_used(), 3 + held.load());
        for (uint32_t p = 3; p < rig.engine.space->pages_total(); ++p)
            ASSERT_EQ(*rig.engine.space->is_used(PageId{p}), owned[p].load() == 1) << p;
    });
    EXPECT_EQ(rig.verify(), "");
}

TEST(SpaceMap, ReservationThatIsNotLoggedChangesNothing) {
    PoolRig rig;
    rig.run([&] {
        for (int i = 0; i < 1000; ++i) {
            auto r = rig.engine.space->prepare(8);
            ASSERT_TRUE(r);
            ASSERT_EQ(r->count, 8u);
        }
        EXPECT_EQ(rig.engine.space->pages_used(), 3u);
        EXPECT_EQ(rig.engine.space->pages_total(), (256u << 10) / kPageBytes);
    });
}

TEST(SpaceMap, ConsecutivePagesAreAdjacent) {
    PoolRig rig;
    rig.run([&] {
        PageId last = (*take(rig.engine, 1))[0];
        for (int i = 0; i < 50; ++i) {
            const PageId next = (*take(rig.engine, 1))[0];
            EXPECT_EQ(next.value, last.value + 1);
            last = next;
        }
        auto r = rig.engine.space->prepare(8);
        EXPECT_EQ(r->run_count, 1u);
        EXPECT_EQ(r->runs[1], 8u);
    });
}

// The volume grows by a sixteenth between its smallest and its largest step, freed pages are used
// before it grows, and map pages are made on the way.
TEST(SpaceMap, GrowsAndReuses) {
    PoolRig rig({.pool_bytes = 8 << 20});
    rig.run([&] {
        SpaceMap& space = *rig.engine.space;
        std::set<uint32_t> seen;
        uint64_t grown = 0, total = space.pages_total();
        while (seen.size() < kPagesPerMap + 5000) {  // into the second map
            auto pages = take(rig.engine, 8);
            ASSERT_TRUE(pages) << pages.error().text();
            for (const PageId p : *pages) ASSERT_TRUE(seen.insert(p.value).second);
            if (space.pages_total() != total) {
                const uint64_t step = (space.pages_total() - total) * kPageBytes;
                const uint64_t sixteenth = total / 16 * kPageBytes;
                EXPECT_EQ(step, std::clamp<uint64_t>(sixteenth, 256u << 10, 64u << 20));
                total = space.pages_total();
                ++grown;
            }
        }
        EXPECT_GE(grown, 7u);
        EXPECT_EQ(*rig.engine.disk->size(rig.engine.data_file), total * kPageBytes);
        EXPECT_FALSE(seen.contains(kPagesPerMap));  // that is the second map itself
        EXPECT_TRUE(*space.is_used(PageId{kPagesPerMap}));
        EXPECT_EQ(space.pages_used(), 3 + 1 + seen.size());
        // A whole stretch of the first map comes back, and is used again.
        std::vector<PageId> back;
        for (uint32_t p = 10000; p < 10800; ++p) back.push_back(PageId{p});
        ASSERT_TRUE(space.free_now(back));
        EXPECT_EQ(space.pages_used(), 4 + seen.size() - 800);
        std::set<uint32_t> again;
        while (again.size() < 800) {
            auto pages = take(rig.engine, 1);
            ASSERT_TRUE(pages);
            again.insert((*pages)[0].value);
            ASSERT_LT(again.size() + seen.size(), seen.size() + 1000);
            ASSERT_TRUE((*pages)[0].value >= kPagesPerMap ||
                        ((*pages)[0].value >= 10000 && (*pages)[0].value < 10800));
        }
        EXPECT_EQ(*again.begin(), 10000u);
        EXPECT_EQ(space.pages_total(), total);
        // Reopened, the hints are gone and the bits are not.
        ASSERT_TRUE(space.open());
        EXPECT_EQ(space.pages_total(), total);
        for (int i = 0; i < 1000; ++i) {
            auto pages = take(rig.engine, 1);
            ASSERT_TRUE(pages);
            ASSERT_FALSE(again.contains((*pages)[0].value));
            ASSERT_FALSE(seen.contains((*pages)[0].value));
        }
    });
}

TEST(SpaceMap, NoSpaceIsAnErrorAndNoHarm) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true});
    rig.sim->faults().only_paths_with(threads::SimFault::no_space_allocate, "/data");
    rig.sim->faults().set_odds(threads::SimFault::no_space_allocate, 1.0);
    rig.run([&] {
        std::set<uint32_t> seen;
        Result<std::vector<PageId>> pages = take(rig.engine, 1);
        for (; pages; pages = take(rig.engine, 1))
            ASSERT_TRUE(seen.insert((*pages)[0].value).second);
        EXPECT_EQ(pages.error().code, ErrorCode::no_space);
        EXPECT_EQ(seen.size(), (256u << 10) / kPageBytes - 3);
        const PageId back{17};
        ASSERT_TRUE(rig.engine.space->free_now({&back, 1}));
        pages = take(rig.engine, 1);
        ASSERT_TRUE(pages);
        EXPECT_EQ((*pages)[0], back);
        rig.sim->faults().set_odds(threads::SimFault::no_space_allocate, 0);
        pages = take(rig.engine, 8);
        ASSERT_TRUE(pages) << pages.error().text();
    });
}

TEST(SpaceMap, EnsureSizeExtendsTheFile) {
    PoolRig rig;
    rig.run([&] {
        SpaceMap& space = *rig.engine.space;
        ASSERT_TRUE(space.ensure_size(PageId{5}));
        EXPECT_EQ(space.pages_total(), 32u);
        ASSERT_TRUE(space.ensure_size(PageId{1000}));
        EXPECT_GT(space.pages_total(), 1000u);
        EXPECT_TRUE(rig.engine.pool->fix_optimistic(PageId{1000}));  // zeros: a free page
        EXPECT_EQ(space.prepare_free(PageId{1u << 27}).error().code, ErrorCode::corrupt_page);
    });
}

}  // namespace lockstep::sm::space_map_test
