// labels: unit
// space_map_shrink_test.cc - giving back the free end of the data file: beside transactions,
// through growth, reopens and crashes.
#include <filesystem>
#include <set>

#include "sm/backup/backup_pages.h"
#include "tests/sm/buffer/pool_test_util.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::space_map_shrink_test {

class Shrink : public StoreCrash {
protected:
    uint64_t file_bytes(const std::string& name) const {
        return std::filesystem::file_size(path(name) + "/data");
    }
    // Waits until dropped pages are free again.
    static uint64_t give_back(Store& store) {
        uint64_t sum = 0;
        for (int i = 0; i < 100 && sum == 0; ++i) {
            auto bytes = store.give_back_space();
            EXPECT_TRUE(bytes) << bytes.error().text();
            sum += bytes.value_or(0);
            if (sum == 0) sleep_for(10 * kMillisecond);
        }
        return sum;
    }
    static void fill(Store& store, const char* index, int records, size_t bytes) {
        for (int done = 0; done < records; done += 50)
            ASSERT_OK(store.run(
                [&](Txn& txn) -> Result<void> {
                    const Index to = TRY(store.open_or_create_index(txn, index));
                    for (int i = done; i < done + 50; ++i)
                        TRY(to.put(txn, Key().u32(static_cast<uint32_t>(i)),
                                   std::string(bytes, static_cast<char>('a' + i % 26))));
                    return {};
                },
                {.durability = txn::Durability::lazy}));
    }
    static void drop(Store& store, const char* index) {
        ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, index); }));
    }
};

TEST_F(Shrink, FileGetsShorterAndGrowsAgain) {
    Store store = open("a");
    fill(store, "kept", 200, 100);
    const uint64_t small = file_bytes("a");
    for (int turn = 0; turn < 2; ++turn) {
        fill(store, "big", 1500, 3000);
        const uint64_t big = file_bytes("a");
        ASSERT_GT(big, small + (4 << 20));
        drop(store, "big");
        EXPECT_GT(give_back(store), 4u << 20);
        EXPECT_LE(file_bytes("a"), small);
        EXPECT_EQ(store.stats().pages_total * kPageBytes, file_bytes("a"));
        expect_sound(store);
    }
    EXPECT_EQ(*store.give_back_space(), 0u);
    fill(store, "more", 500, 3000);
    expect_sound(store);
    const auto kept = index_content(store, "kept"), more = index_content(store, "more");
    EXPECT_EQ(kept.size(), 200u);
    ASSERT_OK(store.close());
    store = open("a");
    expect_sound(store);
    EXPECT_EQ(index_content(store, "kept"), kept);
    EXPECT_EQ(index_content(store, "more"), more);
}

// A kill between the commit of a drop and the end of its sweep: the next open frees the rest.
TEST_F(Shrink, TheNextOpenFreesWhatADropHasLeft) {
    uint64_t small = 0;
    {
        Store store = open("a");
        fill(store, "kept", 200, 100);
        small = file_bytes("a");
        fill(store, "big", 1500, 3000);
        ASSERT_OK(store.checkpoint());
        on_thread(store, [&] {
            drop(store, "big");
            copy("a", "b");
        });
        ASSERT_OK(store.close());
    }
    Store store = open("b");
    ASSERT_GT(file_bytes("b"), small + (4 << 20));
    for (int i = 0; i < 200 && file_bytes("b") > small; ++i) {
        ASSERT_OK(store.give_back_space());
        sleep_for(10 * kMillisecond);
    }
    EXPECT_LE(file_bytes("b"), small);
    expect_sound(store);
    EXPECT_EQ(index_content(store, "kept").size(), 200u);
}

TEST_F(Shrink, BesideTransactionsThatAllocate) {
    Store store = open("a", small_options(2));
    fill(store, "kept", 200, 100);
    std::atomic<bool> stop{false};
    std::vector<Handle<void>> writers;
    for (int w = 0; w < 2; ++w)
        writers.push_back(store.start(
            [&, w]() -> Result<void> {
                const std::string name = "w" + std::to_string(w);
                while (!stop.load()) {
                    fill(store, name.c_str(), 200, 3000);
                    drop(store, name.c_str());
                }
                return {};
            },
            w));
    for (int i = 0; i < 40; ++i) {
        const auto bytes = store.give_back_space();
        ASSERT_OK(bytes);
    }
    stop.store(true);
    for (auto& writer : writers) ASSERT_OK(writer.join());
    expect_sound(store);
    EXPECT_EQ(index_content(store, "kept").size(), 200u);
    ASSERT_OK(store.close());
    store = open("a");
    expect_sound(store);
}

// Two calls at once. Between two steps of one of them the other one must not lower the volume, or
// the pages that came and went meanwhile would be cut without being forgotten.
TEST_F(Shrink, TwoCallsTakeTurns) {
    Store store = open("a", small_options(2));
    fill(store, "kept", 200, 100);
    std::atomic<bool> stop{false};
    std::vector<Handle<void>> callers;
    for (int w = 0; w < 2; ++w)
        callers.push_back(store.start(
            [&]() -> Result<void> {
                while (!stop.load()) TRY(store.give_back_space());
                return {};
            },
            w));
    for (int i = 0; i < 10; ++i) {
        fill(store, "big", 300, 3000);
        drop(store, "big");
    }
    stop.store(true);
    for (auto& caller : callers) ASSERT_OK(caller.join());
    EXPECT_EQ(store.stats().lost_writes, 0u);
    expect_sound(store);
    ASSERT_OK(store.close());
}

// A kill leaves a sound store with every committed record: before the cut, after it, and after the
// volume has grown over the place again.
TEST_F(Shrink, CrashAtAnyTime) {
    std::map<std::string, std::string> kept, more;
    {
        Store store = open("a");
        fill(store, "kept", 300, 1000);
        fill(store, "big", 1000, 3000);
        drop(store, "big");
        kept = index_content(store, "kept");
        EXPECT_GT(give_back(store), 0u);
        on_thread(store, [&] { copy("a", "cut"); });
        fill(store, "more", 1000, 3000);
        more = index_content(store, "more");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {  // durable, as is all before it
            return TRY(store.index("kept")).put(txn, "last", "1");
        }));
        kept["last"] = "1";
        on_thread(store, [&] { copy("a", "grown"); });
        // The cut is not durable: the file comes back with its old length and zeros.
        std::filesystem::copy(path("cut"), path("long"));
        std::filesystem::resize_file(path("long") + "/data", file_bytes("cut") + (9 << 20));
    }
    for (const char* name : {"cut", "grown", "long"}) {
        SCOPED_TRACE(name);
        Store store = open(name);
        expect_sound(store);
        const bool late = std::string(name) == "grown";
        auto wanted = kept;
        if (!late) wanted.erase("last");
        EXPECT_EQ(index_content(store, "kept"), wanted);
        if (late) {
            EXPECT_EQ(index_content(store, "more"), more);
        }
        fill(store, "again", 1000, 3000);
        expect_sound(store);
    }
}

// Takes pages until one lies at or behind `end`, in ascending order.
void take_up_to(sm::PoolRig& rig, uint32_t end, std::vector<PageId>& taken) {
    while (taken.empty() || taken.back().value < end) {
        auto r = rig.engine.space->prepare(8);
        ASSERT_TRUE(r) << r.error().text();
        sm::ChangePart part = r->part();
        ASSERT_TRUE(sm::change_pages(rig.engine, nullptr, sm::ChangeRole::system,
                                     sm::LogKind::space_grow, ObjectId{0}, {&part, 1}));
        taken.insert(taken.end(), r->pages, r->pages + r->count);
    }
}

// One page is in use, at any place of the map.
TEST(ShrinkMaps, TheLastPageInUseStays) {
    sm::PoolRig rig({.pool_bytes = 8 << 20});
    rig.run([&] {
        sm::SpaceMap& space = *rig.engine.space;
        std::vector<PageId> taken;
        take_up_to(rig, 10'000, taken);
        while (!taken.empty()) {
            const PageId last = taken.back();
            EXPECT_EQ(*space.lower_end(), last.value + 1);
            EXPECT_EQ(space.pages_total(), last.value + 1);
            EXPECT_TRUE(*space.is_used(last));
            const size_t left = taken.size() - std::min<size_t>(taken.size(), 101);
            ASSERT_TRUE(space.free_now(std::span(taken).subspan(left)));
            taken.resize(left);
        }
    });
}

// A volume of two maps: the second map goes, and is made anew when the volume grows.
TEST(ShrinkMaps, MapsAtTheEndGoAndComeBack) {
    sm::PoolRig rig({.pool_bytes = 8 << 20});
    rig.run([&] {
        sm::SpaceMap& space = *rig.engine.space;
        const auto take_and_free = [&](uint32_t end) {
            std::vector<PageId> taken;
            take_up_to(rig, end, taken);
            const std::set<PageId> distinct(taken.begin(), taken.end());
            EXPECT_EQ(distinct.size(), taken.size());
            for (const PageId p : taken) EXPECT_TRUE(*space.is_used(p));
            EXPECT_EQ(space.pages_used(), 3 + taken.size() + (end > sm::kPagesPerMap));
            ASSERT_TRUE(space.free_now(taken));
        };
        for (int turn = 0; turn < 2; ++turn) {
            take_and_free(sm::kPagesPerMap + 500);
            const uint64_t before = space.pages_total();
            EXPECT_GT(before, sm::kPagesPerMap + 500u);
            EXPECT_EQ(*space.lower_end(), 3u);
            ASSERT_TRUE(rig.engine.pool->write_dirty(0));
            const PageId map{sm::kPagesPerMap};
            EXPECT_NE(rig.engine.pool->resident(map), nullptr);
            EXPECT_TRUE(*space.forget_end(3, before));
            EXPECT_EQ(rig.engine.pool->resident(map), nullptr);
            if (turn == 0) {
                EXPECT_TRUE(*space.cut_file(3));
                EXPECT_EQ(*rig.engine.disk->size(rig.engine.data_file), 3 * kPageBytes);
                // The next growth reads zeros where the map was: no lost write.
                rig.forget(sm::kPagesPerMap, sm::kPagesPerMap + 1);
            }
        }
        // Grown since: what was lowered before must not be cut any more.
        ASSERT_TRUE(space.prepare(1));
        EXPECT_GT(space.pages_total(), 3u);
        EXPECT_FALSE(*space.cut_file(3));
        take_and_free(sm::kPagesPerMap + 500);
    });
}

// An outdated descent may read a page between the two checkpoints, or be reading it when the first
// one has ended. Nothing may remember what it had: the cut replaces it by zeros.
TEST(ShrinkMaps, ReadersOfGivenUpPagesLeaveNoTrace) {
    sm::PoolRig rig({.pool_bytes = 8 << 20, .simulated = true, .cleaner = false});
    const PageId map{sm::kPagesPerMap};
    uint64_t before = 0;
    sm::SpaceMap& space = *rig.engine.space;
    rig.run([&] {
        std::vector<PageId> taken;
        take_up_to(rig, map.value + 20, taken);
        ASSERT_TRUE(space.free_now(taken));
        before = space.pages_total();
        EXPECT_EQ(*space.lower_end(), 3u);
        rig.forget(map.value, map.value + 1);
        rig.engine.pool->written_lsns().forget(map);  // as after a restart without data.lsn
    });
    const auto read = [&] { EXPECT_TRUE(rig.engine.pool->fix_shared(map)); };
    rig.run_all({read, [&] { EXPECT_TRUE(*space.forget_end(3, before)); }});
    EXPECT_EQ(rig.engine.pool->resident(map), nullptr);
    EXPECT_EQ(rig.engine.pool->written_lsns().of(map), 0u);
    rig.run(read);
    EXPECT_EQ(rig.engine.pool->written_lsns().of(map), 0u);
    rig.run([&] {
        rig.forget(map.value, map.value + 1);
        EXPECT_TRUE(*space.cut_file(3));
        std::vector<PageId> taken;
        take_up_to(rig, map.value + 20, taken);
    });
}

// A write of the page is in flight when it is given up: its end would note an LSN.
TEST(ShrinkMaps, WritesOfGivenUpPagesLeaveNoTrace) {
    sm::PoolRig rig({.pool_bytes = 8 << 20, .simulated = true, .cleaner = false});
    sm::SpaceMap& space = *rig.engine.space;
    std::vector<PageId> pages;
    rig.run([&] {
        sm::make_pages(rig.engine, 1, pages);
        auto r = space.prepare_free(pages[0]);  // frees the page, which stays in memory, dirty
        ASSERT_TRUE(r);
        sm::ChangePart part = r->part();
        ASSERT_TRUE(sm::change_pages(rig.engine, nullptr, sm::ChangeRole::system,
                                     sm::LogKind::space_free, ObjectId{0}, {&part, 1}));
    });
    const uint64_t before = space.pages_total();
    rig.run([&] { EXPECT_EQ(*space.lower_end(), 3u); });
    std::vector<std::function<void()>> both;
    both.push_back([&] { EXPECT_TRUE(rig.engine.pool->write_dirty(0)); });
    both.push_back([&] {
        while (rig.engine.pool->stats().write_batches == 0 && rig.sim->next_event_time() == kNever)
            threads::yield();
        EXPECT_TRUE(*space.forget_end(3, before));
    });
    rig.run_all(std::move(both));
    EXPECT_EQ(rig.engine.pool->resident(pages[0]), nullptr);
    EXPECT_EQ(rig.engine.pool->written_lsns().of(pages[0]), 0u);
}

// An incremental backup must look at zeros that took the place of a page, also if they are in
// memory: the earlier backup may have what was there.
TEST(ShrinkMaps, ZerosOfGivenUpPagesMayBeNewer) {
    sm::PoolRig rig({.pool_bytes = 8 << 20, .simulated = true, .cleaner = false});
    sm::SpaceMap& space = *rig.engine.space;
    sm::BufferPool& pool = *rig.engine.pool;
    rig.run([&] {
        std::vector<PageId> pages;
        sm::make_pages(rig.engine, 1, pages);
        ASSERT_TRUE(space.free_now(pages));
        const Lsn earlier = rig.engine.log->tail();
        const uint64_t before = space.pages_total();
        EXPECT_EQ(*space.lower_end(), 3u);
        EXPECT_TRUE(*space.forget_end(3, before));
        EXPECT_TRUE(*space.cut_file(3));
        ASSERT_TRUE(space.ensure_size(pages[0]));
        EXPECT_TRUE(pool.may_be_newer(pages[0], earlier));
        ASSERT_TRUE(pool.fix_shared(pages[0]));
        ASSERT_NE(pool.resident(pages[0]), nullptr);
        EXPECT_TRUE(pool.may_be_newer(pages[0], earlier));
    });
}

// What an incremental backup has in place of a map of zeros.
TEST(ShrinkMaps, AnEmptyMapIsAPage) {
    const PageId id{sm::kPagesPerMap};
    EXPECT_TRUE(sm::is_map_page(id) && sm::is_map_page(sm::kFirstMapPage));
    EXPECT_FALSE(sm::is_map_page(PageId{0}) || sm::is_map_page(PageId{id.value + 2}));
    const auto page = std::make_unique<sm::Page>();
    sm::make_empty_map(*page, id, Lsn{512});
    EXPECT_EQ(sm::page_fault(*page, id, 512, 512), nullptr);
    EXPECT_EQ(page->kind(), sm::PageKind::space_map);
}

// The file of LSNs still names pages that the cut would turn into zeros.
TEST(ShrinkMaps, NothingIsCutIfTheLsnsWereNotSaved) {
    sm::PoolRig rig({.simulated = true});
    auto file = rig.engine.disk->open("store/data.lsn", threads::Disk::kCreate);
    ASSERT_TRUE(file);
    sm::SpaceMap& space = *rig.engine.space;
    rig.run([&] {
        std::vector<PageId> pages;
        sm::make_pages(rig.engine, 4, pages);
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        ASSERT_TRUE(space.free_now(pages));
        const uint64_t before = space.pages_total();
        EXPECT_EQ(*space.lower_end(), 3u);
        EXPECT_TRUE(*space.forget_end(3, before));
        sm::WrittenLsns& lsns = rig.engine.pool->written_lsns();
        rig.sim->faults().only_paths_ending_with(threads::SimFault::write_error, "data.lsn");
        rig.sim->faults().fail_nth(threads::SimFault::write_error, 1);
        EXPECT_FALSE(lsns.save(*file, 1, true));
        const auto cut = space.cut_file(3);
        ASSERT_FALSE(cut.has_value());
        EXPECT_EQ(cut.error().code, ErrorCode::io_error);
        EXPECT_EQ(*rig.engine.disk->size(rig.engine.data_file), before * kPageBytes);
        EXPECT_TRUE(lsns.save(*file, 1, true));
        EXPECT_TRUE(*space.cut_file(3));
    });
    rig.engine.disk->close(*file);
}

}  // namespace lockstep::space_map_shrink_test
