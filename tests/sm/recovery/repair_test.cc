// labels: unit
// repair_test.cc - single pages rebuilt from the log equal the pages in memory; what
// the log cannot give stays an error.
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "sm/store/catalog.h"
#include "sm/store/engine_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep {
namespace {

class RepairTest : public StoreCrash {
protected:
    static void damage(const std::string& file, uint32_t page) {
        const int fd = ::open(file.c_str(), O_RDWR);
        ASSERT_GE(fd, 0);
        const std::string noise(512, '#');
        ASSERT_EQ(pwrite(fd, noise.data(), noise.size(),
                         static_cast<off_t>(uint64_t{page} * kPageBytes + 4096)),
                  512);
        ::close(fd);
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
    Options options = small_options();
    options.log_segment_bytes = 1 << 20;
    options.log_bytes = 16 << 20;
    Store store = open("a", options);
    make(store, "i", "h");
    for (uint64_t n = 0; std::filesystem::exists(path("a") + "/log.00000000"); ++n) {
        ASSERT_LT(n, 1000u);
        work(store, seed_of_run() + n, 500);
        ASSERT_OK(store.checkpoint());
    }
    work(store, seed_of_run(), 300);
    on_thread(store, [&] {
        sm::Engine& engine = sm::engine_of(store);
        ASSERT_GT(engine.log->start().value, options.log_segment_bytes);
        ASSERT_OK(store.wait_durable(engine.log->tail()));
        const auto index = (*engine.catalog->index("i"))->verify();
        ASSERT_OK(index);
        auto rebuilt = std::make_unique<sm::Page>();
        size_t found = 0;
        for (const PageId id : index->pages) {
            const auto repaired = sm::repair_page(engine, id, *rebuilt);
            ASSERT_OK(repaired);
            if (!*repaired) continue;
            ++found;
            const auto live = engine.pool->fix_shared(id);
            ASSERT_OK(live);
            EXPECT_EQ(rebuilt->header.lsn, (*live)->header.lsn) << id.value;
        }
        EXPECT_GT(found, 0u);
    });
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

}  // namespace
}  // namespace lockstep
