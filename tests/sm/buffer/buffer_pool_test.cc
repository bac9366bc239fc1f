// labels: unit
// buffer_pool_test.cc - faults, eviction, checks of what is read, repair, memory, fixing in all its
// forms.
#include <algorithm>

#include "sm/buffer/write_backoff.h"
#include "tests/sm/buffer/pool_test_util.h"
#include "threads/io/aligned_buffer.h"

namespace lockstep::sm::buffer_pool_test {

// Many more pages than frames, changed from two workers: every page keeps its identity and every
// increment.
TEST(BufferPool, KeepsEveryChangeThroughEviction) {
    PoolRig rig({.workers = 2, .pool_bytes = 2 << 20});
    const uint64_t seed = seed_of_run();
    constexpr uint32_t kPages = 1500, kThreads = 8, kChanges = 4000;
    std::vector<PageId> pages;
    rig.run([&] { make_pages(rig.engine, kPages, pages); });
    std::vector<std::atomic<uint64_t>> expected(kPages);
    std::vector<std::function<void()>> fns;
    for (uint32_t t = 0; t < kThreads; ++t)
        fns.push_back([&, t] {
            Rng rng(seed * 100 + t);
            for (uint32_t i = 0; i < kChanges; ++i) {
                const size_t n = rng.chance(0.3) ? rng.below(20) : rng.below(kPages);
                if (rng.chance(0.5)) {
                    auto page = rig.engine.pool->fix_exclusive(pages[n]);
                    ASSERT_TRUE(page) << page.error().text();
                    ASSERT_EQ((*page)->id(), pages[n]);
                    ASSERT_TRUE(CounterPage::set(rig.engine, *page, CounterPage::get(**page) + 1));
                    expected[n].fetch_add(1);
                } else if (rng.chance(0.5)) {
                    auto page = rig.engine.pool->fix_shared(pages[n]);
                    ASSERT_TRUE(page) << page.error().text();
                    ASSERT_EQ((*page)->id(), pages[n]);
                    (void)CounterPage::get(**page);
                } else {
                    auto seen_page = rig.engine.pool->fix_optimistic(pages[n]);
                    ASSERT_TRUE(seen_page) << seen_page.error().text();
                    uint64_t v[2];
                    const uint32_t id = seen_page->page->header.page_id;
                    std::memcpy(v, seen_page->page->bytes() + CounterPage::kAt, sizeof v);
                    if (seen_page->valid()) {
                        ASSERT_EQ(id, pages[n].value);
                        ASSERT_EQ(v[0], ~v[1]);
                    }
                }
            }
        });
    rig.run_all(std::move(fns));
    EXPECT_EQ(rig.verify(), "");
    uint64_t sum = 0;
    rig.run([&] {
        for (uint32_t n = 0; n < kPages; ++n) {
            auto page = rig.engine.pool->fix_shared(pages[n]);
            ASSERT_TRUE(page);
            ASSERT_EQ(CounterPage::get(**page), expected[n].load())
                << "page " << pages[n].value << " seed " << seed;
            sum += expected[n];
        }
    });
    EXPECT_GT(sum, kThreads * kChanges / 3);
    const auto stats = rig.engine.pool->stats();
    EXPECT_GT(stats.evictions, 1000u);
    EXPECT_GT(stats.writes, 500u);
    EXPECT_LE(stats.resident, stats.frames);
    EXPECT_EQ(rig.verify(), "");
}

TEST(BufferPool, WorksWithoutCleaner) {
    PagesRig rig(800, {.cleaner = false});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        for (int round = 1; round <= 3; ++round)
            for (const PageId id : pages) {
                auto page = rig.pool().fix_exclusive(id);
                ASSERT_TRUE(page) << page.error().text();
                ASSERT_EQ(CounterPage::get(**page), static_cast<uint64_t>(round - 1));
                ASSERT_TRUE(CounterPage::set(rig.engine, *page, round));
            }
    });
    EXPECT_EQ(rig.verify(), "");
}

// The kernel promises addresses that are multiples of 4096 only: a mapping of one such page between
// two pools moves the next one's frames.
TEST(BufferPool, FramesAreAlignedWhereverTheKernelMapsThem) {
    std::vector<threads::AlignedBuffer> pads;
    for (int round = 0; round < 6; ++round) {
        PoolRig rig({.workers = 1, .pool_bytes = 2 << 20});
        std::vector<PageId> pages;
        rig.run([&] {
            make_pages(rig.engine, 3, pages);
            for (const PageId id : pages) {
                auto page = rig.engine.pool->fix_shared(id);
                ASSERT_TRUE(page) << page.error().text();
                EXPECT_EQ(reinterpret_cast<uintptr_t>(&**page) % alignof(Page), 0u)
                    << "round " << round;
            }
        });
        auto pad = threads::make_aligned_buffer(4096);
        ASSERT_TRUE(pad) << pad.error().text();
        pads.push_back(std::move(*pad));
    }
}

// A few pages in constant use stay in memory while many others pass through.
TEST(BufferPool, HotPagesStay) {
    PoolRig rig;
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, 2000, pages);
        const uint64_t reads = rig.engine.pool->stats().reads;
        uint64_t hot_misses = 0;
        for (uint32_t i = 0; i < 4000; ++i) {
            ASSERT_TRUE(rig.engine.pool->fix_optimistic(pages[100 + i % 1900]));
            for (uint32_t h = 0; h < 10; ++h) {
                hot_misses += rig.engine.pool->resident(pages[h]) == nullptr;
                ASSERT_TRUE(rig.engine.pool->fix_optimistic(pages[h]));
            }
        }
        EXPECT_GT(rig.engine.pool->stats().reads - reads, 2000u);
        EXPECT_LE(hot_misses, 10u);
    });
}

TEST(BufferPool, KeepsTheMemoryItWasGiven) {
    for (const uint64_t bytes : {1ull << 20, 4ull << 20, 37ull << 20, 64ull << 20})
        for (const uint32_t workers : {1u, 4u}) {
            PoolRig rig({.workers = workers, .pool_bytes = bytes, .cleaner = false});
            EXPECT_LE(rig.engine.pool->memory_bytes(), bytes);
            EXPECT_GE(rig.engine.pool->memory_bytes(), bytes * 9 / 10);
            EXPECT_GE(rig.engine.pool->stats().frames * kPageBytes, bytes * 7 / 10);
        }
}

TEST(BufferPool, RefusesSenselessOptions) {
    PoolRig rig;
    const auto make = [&](BufferPoolOptions o) {
        return BufferPool::create(*rig.engine.runtime, *rig.engine.log, rig.engine.data_file, o);
    };
    EXPECT_EQ(make({.bytes = 1000}).error().code, ErrorCode::bad_option);
    EXPECT_EQ(make({.pages_max = 0}).error().code, ErrorCode::bad_option);
    EXPECT_EQ(make({.free_target = -1}).error().code, ErrorCode::bad_option);
}

// What the volume holds is damaged in some way: never data, always an error that names the page.
class Damage : public ::testing::Test {
protected:
    void SetUp() override {
        rig_.run([&] {
            make_pages(rig_.engine, 4, pages_);
            rig_.forget(pages_[0].value, pages_[3].value + 1);
        });
    }
    void expect_corrupt(PageId id, uint64_t why) {
        rig_.run([&] {
            const auto seen_page = rig_.engine.pool->fix_optimistic(id);
            ASSERT_FALSE(seen_page);
            EXPECT_EQ(seen_page.error().code, ErrorCode::corrupt_page) << seen_page.error().text();
            EXPECT_EQ(seen_page.error().a, id.value);
            EXPECT_EQ(seen_page.error().b, why);
            EXPECT_FALSE(rig_.engine.pool->fix_shared(id));
            EXPECT_FALSE(rig_.engine.pool->fix_exclusive(id));
        });
        EXPECT_EQ(rig_.engine.pool->resident(id), nullptr);
        EXPECT_EQ(rig_.verify(), "");
    }
    PoolRig rig_;
    std::vector<PageId> pages_;
};

TEST_F(Damage, TornPageIsDetected) {
    std::string bytes = rig_.read_raw(pages_[1]);
    bytes[40] ^= 1;
    rig_.write_raw(pages_[1], bytes);
    expect_corrupt(pages_[1], 2);
    // The others are fine.
    rig_.run([&] { EXPECT_TRUE(rig_.engine.pool->fix_optimistic(pages_[0])); });
}

TEST_F(Damage, MisdirectedPageIsDetected) {
    rig_.write_raw(pages_[1], rig_.read_raw(pages_[2]));
    expect_corrupt(pages_[1], 2);
}

TEST_F(Damage, WrongIdUnderARightChecksumIsDetected) {
    std::string bytes = rig_.read_raw(pages_[1]);
    Page page;
    std::memcpy(static_cast<void*>(&page), bytes.data(), kPageBytes);
    page.header.page_id = 99;
    page.header.checksum = page_checksum(page, pages_[1]);
    bytes.assign(reinterpret_cast<const char*>(&page), kPageBytes);
    rig_.write_raw(pages_[1], bytes);
    expect_corrupt(pages_[1], 3);
}

TEST_F(Damage, PageFromTheFutureIsDetected) {
    std::string bytes = rig_.read_raw(pages_[1]);
    Page page;
    std::memcpy(static_cast<void*>(&page), bytes.data(), kPageBytes);
    page.header.lsn = 1ull << 50;
    page.header.checksum = page_checksum(page, pages_[1]);
    bytes.assign(reinterpret_cast<const char*>(&page), kPageBytes);
    rig_.write_raw(pages_[1], bytes);
    expect_corrupt(pages_[1], 4);
}

TEST_F(Damage, PageBeyondTheFileIsAnError) {
    expect_corrupt(PageId{static_cast<uint32_t>(rig_.engine.space->pages_total()) + 5}, 1);
    rig_.run([&] {
        EXPECT_EQ(rig_.engine.pool->fix_optimistic(kPageNone).error().code,
                  ErrorCode::corrupt_page);
        EXPECT_EQ(rig_.engine.pool->fix_optimistic(PageId{kPageNone.value - 1}).error().code,
                  ErrorCode::corrupt_page);
    });
}

TEST_F(Damage, ZerosAreAFreePage) {
    rig_.write_raw(pages_[1], std::string(kPageBytes, 0));
    rig_.engine.pool->written_lsns().forget(pages_[1]);  // else they would be a lost write
    rig_.run([&] {
        auto page = rig_.engine.pool->fix_shared(pages_[1]);
        ASSERT_TRUE(page) << page.error().text();
        EXPECT_EQ((*page)->kind(), PageKind::free);
        EXPECT_EQ((*page)->lsn(), kLsnNone);
        EXPECT_EQ((*page)->id(), pages_[1]);
    });
}

TEST_F(Damage, RepairedPageIsUsedAndWrittenAgain) {
    std::string good = rig_.read_raw(pages_[1]), bad = good;
    bad[8000] ^= 1;
    rig_.write_raw(pages_[1], bad);
    int asked = 0;
    rig_.engine.pool->set_repair([&](PageId id, Page& page) -> Result<bool> {
        ++asked;
        if (id != pages_[1]) return false;
        std::memcpy(static_cast<void*>(&page), good.data(), kPageBytes);
        return true;
    });
    rig_.run([&] {
        auto page = rig_.engine.pool->fix_shared(pages_[1]);
        ASSERT_TRUE(page) << page.error().text();
        EXPECT_EQ(CounterPage::get(**page), 0u);
    });
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(rig_.engine.pool->stats().repairs, 1u);
    EXPECT_EQ(rig_.engine.pool->stats().dirty, 1u);
    rig_.run([&] { ASSERT_TRUE(rig_.engine.pool->write_dirty(0)); });
    EXPECT_EQ(rig_.read_raw(pages_[1]), good);
    rig_.write_raw(pages_[2], bad);
    // The log has no image: the first error stands.
    expect_corrupt(pages_[2], 2);
    EXPECT_GE(asked, 2);
}

TEST(BufferPool, OptimisticFixSeesChangesAndUpgradesOnlyWithoutThem) {
    PoolRig rig;
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, 2, pages);
        BufferPool& pool = *rig.engine.pool;
        OptimisticPage before = *pool.fix_optimistic(pages[0]);
        EXPECT_TRUE(before.valid());
        ExclusivePage page;
        ASSERT_TRUE(pool.upgrade(before, pages[0], page));
        EXPECT_FALSE(before.valid());
        ASSERT_TRUE(CounterPage::set(rig.engine, page, 5));
        page.release();
        EXPECT_FALSE(before.valid());
        EXPECT_FALSE(pool.upgrade(before, pages[0], page));
        OptimisticPage now = *pool.fix_optimistic(pages[0]);
        {
            auto shared = pool.fix_shared(pages[0]);
            EXPECT_TRUE(now.valid());  // readers do not disturb
            EXPECT_FALSE(pool.upgrade(now, pages[0], page));
            EXPECT_FALSE(pool.try_fix_exclusive(pages[0], page));
        }
        EXPECT_TRUE(pool.try_fix_exclusive(pages[0], page));
        EXPECT_EQ(CounterPage::get(*page), 5u);
        page.release();
        EXPECT_FALSE(pool.try_fix_exclusive(PageId{100000}, page));
        EXPECT_EQ(pool.resident(PageId{100000}), nullptr);
        EXPECT_EQ(pool.resident(kPageNone), nullptr);
    });
}

TEST(BufferPool, DroppedPageIsForgottenAndComesBackNew) {
    PoolRig rig;
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, 3, pages);
        BufferPool& pool = *rig.engine.pool;
        const uint64_t dirty = pool.stats().dirty;
        OptimisticPage seen_page = *pool.fix_optimistic(pages[1]);
        pool.drop(std::move(*pool.fix_exclusive(pages[1])));
        EXPECT_FALSE(seen_page.valid());
        EXPECT_EQ(pool.resident(pages[1]), nullptr);
        EXPECT_EQ(pool.stats().dirty, dirty - 1);
        auto fresh = pool.fix_new(pages[1]);
        ASSERT_TRUE(fresh);
        EXPECT_EQ((*fresh)->kind(), PageKind::free);
        EXPECT_EQ((*fresh)->id(), pages[1]);
        EXPECT_EQ((*fresh)->lsn(), kLsnNone);
        fresh->release();
        auto again = pool.fix_new(pages[0]);  // resident: taken as it is
        ASSERT_TRUE(again);
        EXPECT_EQ((*again)->kind(), PageKind::overflow);
    });
    EXPECT_EQ(rig.verify(), "");
}

// All pages are warm, so the hand passes every frame before it frees one.
TEST(BufferPool, OtherThreadsRunWhileTheHandTurns) {
    PoolRig rig({.pool_bytes = 32 << 20, .simulated = true, .cleaner = false});
    BufferPool& pool = *rig.engine.pool;
    uint32_t next = 100, turns = 0;
    bool done = false;
    rig.run([&] {
        while (pool.stats().resident < pool.stats().frames)
            ASSERT_TRUE(pool.fix_new(PageId{next++}));
    });
    rig.run_all({[&] {
                     EXPECT_TRUE(pool.fix_new(PageId{next}));
                     done = true;
                 },
                 [&] {
                     for (; !done; ++turns) threads::yield();
                 }});
    EXPECT_GE(turns, 3u);
    EXPECT_GT(pool.stats().evictions, 0u);
}

// Everything latched: an error after a while, and no harm done.
TEST(BufferPool, FullOfLatchedPages) {
    PagesRig rig(400, {.pool_bytes = 1 << 20, .simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        std::vector<SharedPage> held;
        for (const PageId id : pages) {
            auto page = rig.pool().fix_shared(id);
            if (!page) {
                EXPECT_EQ(page.error().code, ErrorCode::pool_full) << page.error().text();
                break;
            }
            held.push_back(std::move(*page));
        }
        EXPECT_GE(held.size() + 2, rig.pool().stats().frames);
        EXPECT_LT(held.size(), pages.size());
        held.clear();
        EXPECT_TRUE(rig.pool().fix_shared(pages.back()));
    });
    EXPECT_EQ(rig.verify(), "");
}

// A device that takes longer than the patience for a frame: whoever finds none waits for it.
TEST(BufferPool, ASlowDeviceIsNoFullPool) {
    PagesRig rig(300,
                 {.pool_bytes = 1 << 20,
                  .simulated = true,
                  .sim = {.latency_min = 2 * kRoomPatience, .latency_max = 2 * kRoomPatience}});
    rig.run([&] { rig.forget_pages(); });
    ASSERT_LT(rig.pool().stats().frames, rig.pages.size());
    size_t left = rig.pages.size();
    std::vector<std::function<void()>> readers;
    for (const PageId id : rig.pages)
        readers.push_back([&rig, &left, id] {
            const auto page = rig.pool().fix_shared(id);
            EXPECT_TRUE(page) << page.error().text();
            --left;
        });
    readers.push_back([&rig, &left] {  // time passes in small steps
        for (; left > 0; threads::yield()) rig.clock.advance(10 * kMillisecond);
    });
    rig.run_all(std::move(readers));
    EXPECT_EQ(rig.verify(), "");
}

// Many threads ask for the same absent pages at once: each is read once.
TEST(BufferPool, OneReadForManyWaiters) {
    PagesRig rig(10, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] { rig.forget_pages(); });
    const uint64_t reads = rig.pool().stats().reads;
    std::vector<std::function<void()>> fns;
    for (int t = 0; t < 50; ++t)
        fns.push_back([&] {
            for (const PageId id : pages) {
                auto page = rig.pool().fix_optimistic(id);
                ASSERT_TRUE(page);
                EXPECT_EQ(page->page->id(), id);
            }
        });
    rig.run_all(std::move(fns));
    EXPECT_EQ(rig.pool().stats().reads - reads, 10u);
    EXPECT_GT(rig.pool().stats().read_waiters, 0u);
}

TEST(BufferPool, ReadErrorsAreRetriedOnce) {
    PagesRig rig(2, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] { rig.forget_pages(); });
    rig.sim->faults().fail_nth(threads::SimFault::read_error, 1, 1);
    rig.run([&] { EXPECT_TRUE(rig.pool().fix_optimistic(pages[0])); });
    rig.sim->faults().fail_nth(threads::SimFault::bit_flip, 1, 1);
    rig.run([&] {
        auto page = rig.pool().fix_optimistic(pages[1]);
        EXPECT_TRUE(page) << page.error().text();
        rig.forget_pages();
    });
    rig.sim->faults().fail_nth(threads::SimFault::read_error, 1, 2);
    rig.run([&] {
        const auto page = rig.pool().fix_optimistic(pages[0]);
        ASSERT_FALSE(page);
        EXPECT_EQ(page.error().code, ErrorCode::io_error);
        EXPECT_EQ(page.error().a, pages[0].value);
        // The word went back to absent: a later attempt succeeds.
        EXPECT_TRUE(rig.pool().fix_optimistic(pages[0]));
    });
    EXPECT_EQ(rig.verify(), "");
}

}  // namespace lockstep::sm::buffer_pool_test
