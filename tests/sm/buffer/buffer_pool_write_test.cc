// labels: unit sim
// buffer_pool_write_test.cc - writing pages: the write-ahead rule seen from the disk, changes
// during a write, checkpoints' writes, failing devices.
#include <map>
#include <optional>

#include "tests/sm/buffer/pool_test_util.h"

namespace lockstep::sm::buffer_pool_write_test {

using threads::SimFault;

// BP-1 as the disk sees it: when a page write is submitted, no record of the page is beyond what
// the log has synced. The page's lsn is taken from the bytes on the disk after the write has
// completed.
TEST(PoolWrite, NoPageBeforeItsLog) {
    for (uint64_t seed = seed_of_run(), end = seed + 5; seed < end; ++seed) {
        PoolRig rig({.pool_bytes = 1 << 20, .simulated = true, .sim = {.seed = seed}});
        std::vector<PageId> pages;
        // Offset -> durable end when its write was submitted.
        std::map<uint64_t, uint64_t> durable_at;
        uint64_t checked = 0;
        rig.sim->observe([&](const threads::SimEvent& e) {
            if (e.io != threads::IoKind::write || e.path != rig.data_path()) return;
            for (uint64_t at = e.offset; at < e.offset + e.bytes; at += kPageBytes) {
                if (e.kind == threads::SimEvent::submitted)
                    durable_at[at] = rig.engine.log->durable().value;
                if (e.kind != threads::SimEvent::completed) continue;
                Page page;
                std::memcpy(static_cast<void*>(&page),
                            rig.read_raw(PageId{static_cast<uint32_t>(at / kPageBytes)}).data(),
                            kPageBytes);
                ASSERT_EQ(page.header.checksum,
                          page_checksum(page, PageId{static_cast<uint32_t>(at / kPageBytes)}));
                ASSERT_LE(page.header.lsn, durable_at[at]);
                ++checked;
            }
        });
        rig.run([&] {
            make_pages(rig.engine, 300, pages);
            Rng rng(seed);
            for (int i = 0; i < 2000; ++i) {
                auto page = rig.engine.pool->fix_exclusive(pages[rng.below(pages.size())]);
                ASSERT_TRUE(page) << page.error().text();
                ASSERT_TRUE(CounterPage::set(rig.engine, *page, i));
            }
            ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        });
        rig.sim->observe(nullptr);
        EXPECT_GT(checked, 500u);
        EXPECT_EQ(rig.engine.pool->stats().dirty, 0u);
    }
}

// Pages keep changing while they are being written: what was dirty at the call is on disk, the
// newest change is never lost.
TEST(PoolWrite, ChangeDuringAWriteKeepsThePageDirty) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true, .sim = {.seed = seed_of_run()}});
    std::vector<PageId> pages;
    rig.run([&] { make_pages(rig.engine, 40, pages); });
    std::vector<uint64_t> at_call(pages.size(), 0), now(pages.size(), 0);
    bool stop = false;
    uint64_t changes = 0, stayed = 0;
    rig.run_all({[&] {
                     for (int round = 0; round < 30; ++round) {
                         at_call = now;
                         auto done = rig.engine.pool->write_dirty(0);
                         ASSERT_TRUE(done) << done.error().text();
                         stayed += rig.engine.pool->stats().dirty;
                         for (size_t i = 0; i < pages.size(); ++i) {
                             Page page;
                             std::memcpy(static_cast<void*>(&page), rig.read_raw(pages[i]).data(),
                                         kPageBytes);
                             ASSERT_GE(CounterPage::get(page), at_call[i]);
                         }
                     }
                     stop = true;
                 },
                 [&] {
                     Rng rng(5);
                     while (!stop) {
                         const size_t n = rng.below(pages.size());
                         {
                             auto page = rig.engine.pool->fix_exclusive(pages[n]);
                             ASSERT_TRUE(page);
                             ASSERT_TRUE(CounterPage::set(rig.engine, *page, now[n] + 1));
                             ++now[n];
                             ++changes;
                         }
                         threads::sleep_until(threads::now() + 5 * kMicrosecond);
                     }
                 }});
    EXPECT_GT(changes, 100u);
    EXPECT_GT(stayed, 10u);  // the case did occur
    rig.run([&] {
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        EXPECT_EQ(rig.engine.pool->stats().dirty, 0u);
    });
    for (size_t i = 0; i < pages.size(); ++i) {
        Page page;
        std::memcpy(static_cast<void*>(&page), rig.read_raw(pages[i]).data(), kPageBytes);
        EXPECT_EQ(CounterPage::get(page), now[i]);
    }
}

// With eviction going on at the same time (batches of others in flight) the promise of write_dirty
// is the same.
TEST(PoolWrite, CheckpointBesideEviction) {
    for (uint64_t seed = seed_of_run(), end = seed + 4; seed < end; ++seed) {
        PoolRig rig({.pool_bytes = 1 << 20, .simulated = true, .sim = {.seed = seed}});
        std::vector<PageId> pages;
        rig.run([&] { make_pages(rig.engine, 400, pages); });
        std::vector<uint64_t> now(pages.size(), 0);
        bool stop = false;
        std::vector<std::function<void()>> fns{[&] {
            for (int round = 0; round < 15; ++round) {
                const std::vector<uint64_t> at_call = now;
                auto done = rig.engine.pool->write_dirty(0);
                ASSERT_TRUE(done) << done.error().text();
                for (size_t i = 0; i < pages.size(); ++i) {
                    Page page;
                    std::memcpy(static_cast<void*>(&page), rig.read_raw(pages[i]).data(),
                                kPageBytes);
                    ASSERT_GE(CounterPage::get(page), at_call[i]) << "seed " << seed;
                }
            }
            stop = true;
        }};
        for (int t = 0; t < 4; ++t)
            fns.push_back([&, t] {
                Rng rng(seed * 10 + t);
                while (!stop) {
                    const size_t n = rng.below(pages.size());
                    auto page = rig.engine.pool->fix_exclusive(pages[n]);
                    ASSERT_TRUE(page) << page.error().text();
                    ASSERT_TRUE(CounterPage::set(rig.engine, *page, now[n] + 1));
                    ++now[n];
                }
            });
        rig.run_all(std::move(fns));
        EXPECT_GT(rig.engine.pool->stats().evictions, 100u);
        EXPECT_EQ(rig.verify(), "");
    }
}

TEST(PoolWrite, AdjacentPagesGoInOneRequest) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true});
    std::vector<PageId> pages;
    uint64_t requests = 0, largest = 0;
    rig.run([&] { make_pages(rig.engine, 64, pages); });
    rig.sim->observe([&](const threads::SimEvent& e) {
        if (e.kind != threads::SimEvent::submitted || e.io != threads::IoKind::write ||
            e.path != rig.data_path())
            return;
        ++requests;
        largest = std::max(largest, e.bytes);
    });
    rig.run([&] { ASSERT_TRUE(rig.engine.pool->write_dirty(0)); });
    rig.sim->observe(nullptr);
    // And the space map, page 2, adjacent too.
    EXPECT_EQ(rig.engine.pool->stats().writes, 65u);
    EXPECT_LE(requests, 10u);
    EXPECT_GE(largest, 8 * kPageBytes);
}

TEST(PoolWrite, PaceIsKept) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true});
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, 200, pages);
        const Nanos before = threads::now();
        ASSERT_TRUE(rig.engine.pool->write_dirty(100));
        EXPECT_GE(threads::now() - before, kSecond);
        EXPECT_EQ(rig.engine.pool->stats().dirty, 0u);
    });
}

TEST(PoolWrite, FailedPageWriteLosesNothing) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true});
    std::vector<PageId> pages;
    rig.run([&] { make_pages(rig.engine, 50, pages); });
    rig.sim->faults().only_paths_with(SimFault::write_error, "/data");
    // A joined transfer, and two of its pages when asked for alone.
    rig.sim->faults().fail_nth(SimFault::write_error, 2, 3);
    rig.run([&] {
        const auto done = rig.engine.pool->write_dirty(0);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, ErrorCode::io_error);
        EXPECT_GT(rig.engine.pool->stats().dirty, 0u);
        EXPECT_EQ(rig.engine.pool->stats().write_errors, 2u);
        EXPECT_FALSE(rig.engine.log->failed());
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));  // the device is well again
        EXPECT_EQ(rig.engine.pool->stats().dirty, 0u);
    });
    for (const PageId id : pages) {
        Page page;
        std::memcpy(static_cast<void*>(&page), rig.read_raw(id).data(), kPageBytes);
        EXPECT_EQ(page.header.checksum, page_checksum(page, id));
    }
}

// Dirty pages cannot be written for a while: readers go on with the clean frames, and nothing is
// lost.
TEST(PoolWrite, NoSpaceForPages) {
    PoolRig rig({.pool_bytes = 1 << 20, .simulated = true});
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, 300, pages);
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        for (int i = 0; i < 30; ++i) {
            auto page = rig.engine.pool->fix_exclusive(pages[i]);
            ASSERT_TRUE(CounterPage::set(rig.engine, *page, 9));
        }
    });
    rig.sim->faults().only_paths_with(SimFault::no_space_write, "/data");
    rig.sim->faults().set_odds(SimFault::no_space_write, 1.0);
    rig.run([&] {
        for (int round = 0; round < 3; ++round)
            for (const PageId id : pages) {
                auto page = rig.engine.pool->fix_shared(id);
                ASSERT_TRUE(page) << page.error().text();
            }
        EXPECT_EQ(rig.engine.pool->write_dirty(0).error().code, ErrorCode::no_space);
        EXPECT_GE(rig.engine.pool->stats().dirty, 30u);
    });
    rig.sim->faults().set_odds(SimFault::no_space_write, 0);
    rig.run([&] {
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        rig.forget(pages.front().value, pages.back().value + 1);
        for (int i = 0; i < 30; ++i)
            EXPECT_EQ(CounterPage::get(**rig.engine.pool->fix_shared(pages[i])), 9u);
    });
}

TEST(PoolWrite, FailedSyncStopsTheStore) {
    PoolRig rig({.pool_bytes = 4 << 20, .simulated = true});
    std::vector<PageId> pages;
    rig.run([&] { make_pages(rig.engine, 10, pages); });
    rig.sim->faults().only_paths_with(SimFault::sync_error, "/data");
    rig.sim->faults().fail_nth(SimFault::sync_error, 1, 1);
    rig.run([&] {
        EXPECT_FALSE(rig.engine.pool->write_dirty(0));
        EXPECT_TRUE(rig.engine.log->failed());
        EXPECT_EQ(rig.engine.pool->stats().sync_failures, 1u);
        auto page = rig.engine.pool->fix_exclusive(pages[0]);
        ASSERT_TRUE(page);
        const Lsn lsn = (*page)->lsn();
        const auto changed = CounterPage::set(rig.engine, *page, 1);
        ASSERT_FALSE(changed);
        EXPECT_EQ(changed.error().code, ErrorCode::store_failed);
        EXPECT_EQ(CounterPage::get(**page), 0u);  // before anything changed
        EXPECT_EQ((*page)->lsn(), lsn);
    });
}

}  // namespace lockstep::sm::buffer_pool_write_test
