// labels: unit
// repair_test.cc - single pages rebuilt from the log equal the pages in memory; what
// the log cannot give stays an error.
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::repair_test {

class RepairTest : public StoreCrash {
protected:
    static void damage_at(const std::string& file, uint64_t offset) {
        const int fd = ::open(file.c_str(), O_RDWR);
        ASSERT_GE(fd, 0);
        const std::string noise(64, '#');
        ASSERT_EQ(pwrite(fd, noise.data(), noise.size(), static_cast<off_t>(offset)), 64);
        ::close(fd);
    }
    static void damage(const std::string& file, uint32_t page) {
        damage_at(file, uint64_t{page} * kPageBytes + 4096);
    }
    static void work(Store& store, uint64_t seed, int count) {
        Rng rng(seed);
        for (int i = 0; i < count; ++i)
            ASSERT_OK(store.run(
                [&](Txn& txn) -> Result<void> {
                    TRY(TRY(store.index("i"))
                            .put(txn, "key" + std::to_string(rng.below(400)),
                                 random_text(rng, rng.below(200))));
                    TRY(TRY(store.heap("h")).insert(txn, random_text(rng, rng.below(300))));
                    return {};
                },
                {.durability = txn::Durability::lazy}));
    }
    static Options small_segments() {
        Options options = small_options();
        options.log_segment_bytes = 1 << 20;
        options.log_bytes = 16 << 20;
        return options;
    }
    void lose_first_segment(Store& store) const {
        for (uint64_t n = 0; std::filesystem::exists(path("a") + "/log.00000000"); ++n) {
            ASSERT_LT(n, 1000u);
            work(store, seed_of_run() + n, 500);
            ASSERT_OK(store.checkpoint());
        }
        EXPECT_GT(sm::engine_of(store).log->start().value, store.options().log_segment_bytes);
    }
    void make_and_lose_first_segment() {
        Store store = open("a", small_segments());
        make(store, "i", "h");
        lose_first_segment(store);
        ASSERT_OK(store.close());
    }
    static std::vector<PageId> pages_of_index(Store& store) {
        const auto index = (*sm::engine_of(store).catalog->index("i"))->verify();
        EXPECT_TRUE(index);
        return index->pages;
    }
    static bool log_begins_with_record(Store& store) {
        const sm::Engine& engine = sm::engine_of(store);
        txn::LogReader reader(*engine.disk, engine.log_options);
        reader.seek(engine.log->start());
        txn::LogRecordView record;
        const auto begins = reader.next(record);
        EXPECT_TRUE(begins.has_value());
        return *begins;
    }
    // Pages of the index that the log rebuilds as they are.
    static size_t pages_rebuilt(Store& store) {
        size_t found = 0;
        on_thread(store, [&] {
            sm::Engine& engine = sm::engine_of(store);
            ASSERT_OK(store.wait_durable(engine.log->tail()));
            auto rebuilt = std::make_unique<sm::Page>();
            for (const PageId id : pages_of_index(store)) {
                const auto repaired = sm::repair_page(engine, id, *rebuilt);
                ASSERT_OK(repaired);
                if (!*repaired) continue;
                ++found;
                const auto live = engine.pool->fix_shared(id);
                ASSERT_OK(live);
                EXPECT_EQ(rebuilt->header.lsn, (*live)->header.lsn) << id.value;
            }
        });
        return found;
    }
    // A record that the log has not written again since: 64 KB below the end.
    static Lsn record_far_below_end(const sm::Engine& engine) {
        txn::LogReader reader(*engine.disk, engine.log_options);
        reader.seek(Lsn{engine.superblock.checkpoint_lsn});
        txn::LogRecordView record;
        while (true) {
            const auto next = reader.next(record);
            if (!next.has_value() || !*next || record.end() + 65536 > engine.log->durable())
                return record.lsn;
        }
    }
};

TEST_F(RepairTest, RebuiltPageEqualsTheOneInMemory) {
    Store store = open("a");
    make(store, "i", "h");
    work(store, seed_of_run(), 300);
    ASSERT_OK(store.checkpoint());
    work(store, seed_of_run() + 1, 300);
    on_thread(store, [&] {
        sm::Engine& engine = sm::engine_of(store);
        ASSERT_OK(store.wait_durable(engine.log->tail()));
        auto index = (*engine.catalog->index("i"))->verify();
        auto heap = (*engine.catalog->heap("h"))->verify();
        ASSERT_OK(index);
        ASSERT_OK(heap);
        std::set<PageId> pages(index->pages.begin(), index->pages.end());
        pages.insert(heap->pages.begin(), heap->pages.end());
        auto rebuilt = std::make_unique<sm::Page>();
        size_t found = 0;
        for (const PageId id : pages) {
            auto repaired = sm::repair_page(engine, id, *rebuilt);
            ASSERT_OK(repaired);
            if (!*repaired) continue;
            ++found;
            auto live = engine.pool->fix_shared(id);
            ASSERT_OK(live);
            EXPECT_EQ(rebuilt->header.lsn, (*live)->header.lsn) << id.value;
            EXPECT_EQ(rebuilt->header.hole_begin, (*live)->header.hole_begin) << id.value;
            EXPECT_EQ(rebuilt->header.hole_end, (*live)->header.hole_end) << id.value;
            const size_t begin = rebuilt->header.hole_begin, end = rebuilt->header.hole_end;
            EXPECT_EQ(std::memcmp(rebuilt->bytes() + 8, (**live).bytes() + 8, begin - 8), 0)
                << id.value;
            EXPECT_EQ(std::memcmp(rebuilt->bytes() + end, (**live).bytes() + end, kPageBytes - end),
                      0)
                << id.value;
        }
        EXPECT_GT(found, pages.size() / 2);
        auto none = sm::repair_page(engine, PageId{4'000'000}, *rebuilt);
        ASSERT_OK(none);
        EXPECT_FALSE(*none);
    });
    ASSERT_OK(store.close());
}

// The log's first segments are gone: the pass begins where the log begins now.
TEST_F(RepairTest, RebuildsFromALogThatBeginsLater) {
    Store store = open("a", small_segments());
    make(store, "i", "h");
    lose_first_segment(store);
    work(store, seed_of_run(), 300);
    EXPECT_GT(pages_rebuilt(store), 0u);
    ASSERT_OK(store.close());
}

// A segment that is kept may begin inside a record.
TEST_F(RepairTest, RebuildsInARunThatHasMadeNoCheckpoint) {
    make_and_lose_first_segment();
    Store store = open("a", small_segments());
    work(store, seed_of_run(), 300);
    EXPECT_GT(pages_rebuilt(store), 0u);
    ASSERT_OK(store.close());
}

TEST_F(RepairTest, RebuildsWhileTheArchiveHoldsTheLog) {
    make_and_lose_first_segment();
    Options options = small_segments();
    options.archive_sink = [](std::string_view, uint64_t, Slice) -> Result<void> {
        return fail(ErrorCode::io_error, "tape");
    };
    Store store = open("a", options);
    ASSERT_OK(store.checkpoint());
    work(store, seed_of_run(), 300);
    EXPECT_FALSE(log_begins_with_record(store));
    EXPECT_GT(pages_rebuilt(store), 0u);
    ASSERT_OK(store.close());
}

// The backup holds the log from a block's begin on.
TEST_F(RepairTest, RebuildsWhileABackupHoldsTheLog) {
    Store store = open("a", small_segments());
    make(store, "i", "h");
    work(store, seed_of_run(), 300);
    BackupOptions how;
    uint64_t n = 0;
    bool held = false;
    how.progress = [&](const BackupProgress&) {
        if (held) return;
        ASSERT_LT(++n, 100u);
        work(store, seed_of_run() + n, 300);
        ASSERT_OK(store.checkpoint());
        work(store, seed_of_run() + n, 30);
        held = !log_begins_with_record(store);
        if (held) {
            EXPECT_GT(pages_rebuilt(store), 0u);
        }
    };
    ASSERT_OK(store.backup(path("b"), how));
    EXPECT_TRUE(held);
    ASSERT_OK(store.close());
}

// The search in the log must not end at a damaged record as if that were the log's end: what it
// has found is an old state then.
TEST_F(RepairTest, ReportsADamagedLogRecord) {
    Store store = open("a");
    make(store, "i", "h");
    work(store, seed_of_run(), 300);
    on_thread(store, [&] {
        sm::Engine& engine = sm::engine_of(store);
        ASSERT_OK(store.wait_durable(engine.log->tail()));
        const PageId id = pages_of_index(store).back();
        auto rebuilt = std::make_unique<sm::Page>();
        const auto whole = sm::repair_page(engine, id, *rebuilt);
        ASSERT_OK(whole);
        EXPECT_TRUE(*whole);
        const Lsn record = record_far_below_end(engine);
        damage_at(engine.log->segment_path(record),
                  record.value % *small_options().log_segment_bytes + 16);
        const auto refused = sm::repair_page(engine, id, *rebuilt);
        ASSERT_FALSE(refused.has_value());
        EXPECT_EQ(refused.error().code, ErrorCode::corrupt_log);
    });
    ASSERT_OK(store.close());
}

// A flush ends with a segment, and the record that lies across that end is not durable yet.
TEST(RepairSim, TheDurableEndMayLieInsideARecord) {
    threads::SimDisk disk({.seed = 1});
    SimStore store(disk);
    ASSERT_OK(store.open());
    sm::Engine& engine = store.engine();
    const uint64_t segment = engine.log_options.segment_bytes;
    auto page = std::make_unique<sm::Page>();
    int inside = 0;
    store.after_step([&] {
        const uint64_t durable = engine.log->durable().value;
        if (durable % segment != 0 || engine.log->tail().value == durable) return;
        const auto repaired = sm::repair_page(engine, PageId{4'000'000}, *page);
        EXPECT_TRUE(repaired.has_value()) << repaired.error().text();
        ++inside;
    });
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "i"));
            return {};
        }));
        for (int i = 0; inside < 5 && i < 10'000; ++i)
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                return TRY(store->index("i"))
                    .put(txn, "key" + std::to_string(i % 100), std::string(3000, 'v'));
            }));
    });
    store.after_step({});
    EXPECT_GE(inside, 5);
    ASSERT_OK(store.close());
}

// The log that has rebuilt a page goes before the volume has it: a power cut tears the write, and
// the next open makes a checkpoint.
TEST(RepairSim, APowerCutMayTearTheWriteOfARepairedPage) {
    threads::SimDisk disk({.seed = seed_of_run()});
    SimStore store(disk);
    store.options().checkpoint_log_bytes = 32 << 20;  // none by itself
    ASSERT_OK(store.open());
    PageId victim;
    const auto tear = [&](threads::SimDisk& of) {
        const auto file = of.open("/store/data", 0);
        ASSERT_OK(file);
        const std::string noise(kPageBytes / 2, '#');
        ASSERT_OK(of.write_now(*file, uint64_t{victim.value} * kPageBytes + kPageBytes / 2,
                               noise.data(), noise.size()));
        ASSERT_OK(of.sync_now(*file));
        of.close(*file);
    };
    const auto get = [](SimStore& from) {
        std::string value;
        from.on_thread([&] {
            const auto read = from->run([&](Txn& txn) -> Result<void> {
                TRY(TRY(from->index(txn, "i")).get(txn, "k", value));
                return {};
            });
            EXPECT_TRUE(read) << read.error().text();
        });
        return value;
    };
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "other"));
            TRY(store->create_index(txn, "i"));
            return {};
        }));
        ASSERT_OK(store->checkpoint());
        Txn old = std::move(*store->begin());  // keeps the log below the checkpoint
        ASSERT_OK(store->index("other")->put(old, "old", "v"));
        ASSERT_OK(store->run([&](Txn& txn) { return store->index("i")->put(txn, "k", "value"); }));
        ASSERT_OK(store->checkpoint());
        ASSERT_OK(old.commit());
        for (int n = 0; n < 2000; ++n)
            ASSERT_OK(store->run(
                [&](Txn& txn) {
                    return store->index("other")->put(txn, "k",
                                                      std::string(2000, n % 2 ? 'v' : 'w'));
                },
                {.durability = Durability::lazy}));
        sm::Engine& engine = store.engine();
        victim = engine.catalog->index_by_id(store->index("i")->id())->root();
        engine.pool->drop(std::move(*engine.pool->fix_exclusive(victim)));
        ASSERT_EQ(engine.pool->resident(victim), nullptr);
    });
    tear(disk);
    EXPECT_EQ(get(store), "value");
    EXPECT_EQ(store->stats().page_repairs, 1u);
    store.on_thread([&] { ASSERT_OK(store->wait_durable(store.engine().log->tail())); });
    const auto image = disk.image(1, threads::SimCrash::keep_all);
    tear(*image);
    SimStore again(*image);
    ASSERT_OK(again.open());
    EXPECT_EQ(get(again), "value");
    EXPECT_EQ(again->stats().page_repairs, 0u);
    ASSERT_OK(again.close());
    ASSERT_OK(store.close());
}

TEST_F(RepairTest, DamagedPageHealsOrIsNamed) {
    uint32_t victim = 0;
    {
        Store store = open("a");
        make(store, "i", "h");
        work(store, seed_of_run(), 300);
        on_thread(store, [&] {
            auto heap = (*sm::engine_of(store).catalog->heap("h"))->verify();
            ASSERT_OK(heap);
            victim = heap->pages.back().value;
        });
        ASSERT_OK(store.close());
    }
    std::map<RecordId, std::string> before;
    {
        Store store = open("a");
        before = heap_content(store, "h");
        ASSERT_OK(store.close());
    }
    damage(path("a") + "/data", victim);
    Store store = open("a");
    // The log still holds the page's first image unless its segment was recycled; either way no
    // damaged byte is handed out.
    auto scanned = store.run([&](Txn& txn) {
        return store.heap("h")->scan(txn, [&](RecordId id, Slice value) {
            EXPECT_EQ(before.at(id), value);
            return true;
        });
    });
    if (!scanned) {
        EXPECT_EQ(scanned.error().code, ErrorCode::corrupt_page);
        EXPECT_EQ(scanned.error().a, victim);
    } else {
        EXPECT_GT(sm::engine_of(store).pool->stats().repairs, 0u);
    }
    (void)store.close();
}

}  // namespace lockstep::repair_test
