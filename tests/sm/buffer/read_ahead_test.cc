// labels: unit
// read_ahead_test.cc - pages read before anybody asks: never stale, never at the cost
// of what is in memory, never left behind at the end.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include <lockstep/store.h>
#include "tests/sm/buffer/pool_test_util.h"
#include "tests/steps_of_run.h"

namespace lockstep::sm::read_ahead_test {

using threads::SimFault;

TEST(ReadAhead, BringsPagesInWithoutAWaiter) {
    PagesRig rig(40, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        rig.forget_pages();
        const auto before = rig.pool().stats();
        EXPECT_EQ(rig.pool().read_ahead(pages), pages.size());
        // All on their way: nothing is read twice.
        EXPECT_EQ(rig.pool().read_ahead(pages), pages.size());
        threads::sleep_until(threads::now() + kSecond);
        const auto after = rig.pool().stats();
        EXPECT_EQ(after.reads_ahead - before.reads_ahead, 40u);
        EXPECT_EQ(after.reads - before.reads, 40u);
        for (const PageId id : pages) ASSERT_NE(rig.pool().resident(id), nullptr);
        for (const PageId id : pages) EXPECT_EQ(rig.pool().fix_optimistic(id)->page->id(), id);
        EXPECT_EQ(rig.pool().stats().faults, after.faults);
        // Neighbours went together.
        EXPECT_LE(rig.engine.runtime->io_stats().classes[2].transfers, 6u);
    });
    EXPECT_EQ(rig.verify(), "");
}

// Pages of cool() go before all others, except those that are used again or are dirty.
TEST(ReadAhead, CooledPagesGoFirst) {
    PagesRig rig(400, {.pool_bytes = 2 << 20, .simulated = true, .cleaner = false});
    const std::vector<PageId>& pages = rig.pages;
    const uint64_t frames = rig.pool().stats().frames;
    ASSERT_LT(frames, 300u);
    ASSERT_GT(frames, 120u);
    rig.run([&] {
        rig.forget_pages();
        const auto here = [&](size_t i) { return rig.pool().resident(pages[i]) != nullptr; };
        const auto use = [&](size_t i) { ASSERT_TRUE(rig.pool().fix_shared(pages[i])); };
        for (size_t i = 0; i < 100; ++i) use(i);
        // A walk that is longer than the clock's hand is patient, and keeps to few frames.
        for (int round = 0; round < 4; ++round)
            for (size_t i = 100; i < 400; ++i) {
                use(i);
                rig.pool().cool(std::span(pages).subspan(i, 1));
            }
        for (size_t i = 0; i < 100; ++i) EXPECT_TRUE(here(i)) << i;
        // One that is used again stays as any other.
        const size_t again = 399;
        ASSERT_TRUE(here(again));
        use(again);
        for (size_t i = 100; i < 150; ++i) {
            use(i);
            rig.pool().cool(std::span(pages).subspan(i, 1));
        }
        EXPECT_TRUE(here(again));
        // Numbers of no page, and pages that are not here.
        const PageId wrong[] = {kPageNone, PageId{UINT32_MAX - 1}, pages[200]};
        rig.pool().cool(wrong);
    });
    EXPECT_EQ(rig.verify(), "");
}

// Who wants a page that is on its way waits for that read; who changes it is not overtaken by it.
TEST(ReadAhead, ReadersAndWritersMeetItOnTheWay) {
    PagesRig rig(20, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        rig.forget_pages();
        const uint64_t reads = rig.pool().stats().reads;
        rig.pool().read_ahead(pages);
        for (const PageId id : pages) {
            auto page = rig.pool().fix_exclusive(id);
            ASSERT_TRUE(page);
            ASSERT_EQ(CounterPage::get(**page), 0u);
            ASSERT_TRUE(CounterPage::set(rig.engine, *page, id.value));
        }
        EXPECT_EQ(rig.pool().stats().reads - reads, 20u);
        // They are here, and dirty: not read again.
        rig.pool().read_ahead(pages);
        for (const PageId id : pages)
            EXPECT_EQ(CounterPage::get(**rig.pool().fix_shared(id)), id.value);
        EXPECT_EQ(rig.pool().stats().reads - reads, 20u);
    });
    EXPECT_EQ(rig.verify(), "");
}

// BA-1: with every frame in use it gives up at once; pages held by others stay.
TEST(ReadAhead, EvictsNothing) {
    PagesRig rig(400, {.pool_bytes = 1 << 20, .simulated = true, .cleaner = false});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        ASSERT_TRUE(rig.pool().write_dirty(0));
        std::vector<SharedPage> held;
        while (rig.pool().stats().resident + 2 < rig.pool().stats().frames) {
            auto page = rig.pool().fix_shared(pages[held.size()]);
            ASSERT_TRUE(page);
            held.push_back(std::move(*page));
        }
        const auto before = rig.pool().stats();
        std::vector<PageId> absent;
        for (const PageId id : pages)
            if (rig.pool().resident(id) == nullptr) absent.push_back(id);
        ASSERT_GT(absent.size(), 100u);
        EXPECT_EQ(rig.pool().read_ahead(absent), 0u);
        const auto after = rig.pool().stats();
        EXPECT_EQ(after.evictions, before.evictions);
        EXPECT_EQ(after.reads_ahead, before.reads_ahead);
        for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(held[i]->id(), pages[i]);
    });
    EXPECT_EQ(rig.verify(), "");
}

// A page that cannot be read in the background is left alone: the one who needs it gets the usual
// care, retries and errors.
TEST(ReadAhead, FailuresAreLeftToWhoNeedsThePage) {
    PagesRig rig(10, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] { rig.forget_pages(); });
    // The joined read, and one page alone.
    rig.sim->faults().fail_nth(SimFault::read_error, 1, 2);
    rig.run([&] {
        rig.pool().read_ahead(pages);
        threads::sleep_until(threads::now() + kSecond);
        size_t here = 0;
        for (const PageId id : pages) here += rig.pool().resident(id) != nullptr;
        EXPECT_EQ(here, 9u);
        for (const PageId id : pages) EXPECT_TRUE(rig.pool().fix_optimistic(id));
    });
    rig.run([&] { rig.forget_pages(); });
    rig.sim->faults().fail_nth(SimFault::bit_flip, 1, 1);
    rig.run([&] {
        rig.pool().read_ahead(std::span(pages).first(1));
        // Waits, finds it absent, reads it itself.
        auto page = rig.pool().fix_optimistic(pages[0]);
        ASSERT_TRUE(page) << page.error().text();
        EXPECT_EQ(page->page->id(), pages[0]);
        EXPECT_EQ(rig.pool().read_ahead({{PageId{1u << 30}}}), 0u);  // beyond any volume
    });
    EXPECT_EQ(rig.verify(), "");
}

// When the cleaners have ended, no read is active and no new read begins.
TEST(ReadAhead, EndsWithTheCleaners) {
    PagesRig rig(30, {.simulated = true});
    const std::vector<PageId>& pages = rig.pages;
    rig.run([&] {
        rig.forget_pages();
        rig.pool().read_ahead(pages);
        rig.pool().stop_cleaner();
        EXPECT_EQ(rig.pool().verify(), "");
        rig.forget_pages();
        EXPECT_EQ(rig.pool().read_ahead(pages), 0u);
    });
    EXPECT_EQ(rig.verify(), "");
}

// --- scans, through the public interface, with a pool that holds a fraction of the data
class Scans : public ::testing::TestWithParam<IoMethod> {
protected:
    void SetUp() override {
        char name[] = "/tmp/lockstep-ahead-XXXXXX";
        directory_ = mkdtemp(name);
        auto store = Store::open(
            directory_ + "/s",
            {.workers = 2, .pool_bytes = 4 << 20, .io = GetParam(), .steps = steps_of_run()});
        if (!store && GetParam() == IoMethod::io_uring) GTEST_SKIP() << store.error().text();
        ASSERT_TRUE(store) << store.error().text();
        store_.emplace(std::move(*store));
    }
    void TearDown() override {
        if (store_) {
            EXPECT_TRUE(store_->close());
        }
        std::filesystem::remove_all(directory_);
    }
    static std::string value_of(uint64_t n) {
        return std::string(100 + n % 50, static_cast<char>('a' + n % 26));
    }
    Index load(uint64_t rows) {
        Index index;
        const auto loaded = store_->run([&](Txn& txn) -> Result<void> {
            index = TRY(store_->create_index(txn, "i"));
            uint64_t next = 0;
            Key key;
            std::string value;
            return store_->bulk_load(txn, index, [&](Slice& k, Slice& v) {
                if (next == rows) return false;
                value = value_of(next);
                key = Key().u64(next++);
                k = key;
                v = value;
                return true;
            });
        });
        EXPECT_TRUE(loaded) << loaded.error().text();
        return index;
    }
    std::string directory_;
    std::optional<Store> store_;
};

TEST_P(Scans, BothWaysSeeEveryRecord) {
    constexpr uint64_t kRows = 80'000;  // 10 MB
    const Index index = load(kRows);
    for (const Isolation isolation : {Isolation::serializable, Isolation::snapshot})
        for (const bool up : {true, false})
            for (const auto& [from, to] :
                 {std::pair<uint64_t, uint64_t>{0, kRows}, {20'000, 60'000}}) {
                const auto before = store_->stats();
                const auto look = [&](Txn& txn) -> Result<uint64_t> {
                    Cursor cursor = from == 0 ? index.scan(txn)
                                              : index.scan(txn, Key().u64(from), Key().u64(to));
                    uint64_t n = 0;
                    while (TRY(up ? cursor.next() : cursor.prev())) {
                        const uint64_t row = up ? from + n : to - 1 - n;
                        if (cursor.key() != Slice(Key().u64(row)) ||
                            cursor.value() != value_of(row))
                            return fail(ErrorCode::bad_argument, "wrong record", row);
                        ++n;
                    }
                    return n;
                };
                const auto seen = store_->run(look, {.isolation = isolation});
                ASSERT_TRUE(seen) << seen.error().text();
                EXPECT_EQ(*seen, to - from);
                const auto after = store_->stats();
                // Most of what it reads, it reads ahead.
                const uint64_t ahead = after.reads_ahead - before.reads_ahead;
                EXPECT_GT(ahead, 100u) << (up ? "up" : "down");
                EXPECT_GT(2 * ahead, after.page_reads - before.page_reads);
            }
}

TEST_P(Scans, HeapsAreReadAhead) {
    constexpr uint64_t kRows = 40'000;
    const auto made = store_->run([&](Txn& txn) { return store_->create_heap(txn, "h"); });
    ASSERT_TRUE(made);
    for (uint64_t at = 0; at < kRows; at += 1000) {
        const auto done = store_->run([&](Txn& txn) -> Result<void> {
            for (uint64_t n = at; n < at + 1000; ++n) TRY(made->insert(txn, value_of(n)));
            return {};
        });
        ASSERT_TRUE(done) << done.error().text();
    }
    ASSERT_TRUE(store_->checkpoint());
    const uint64_t ahead = store_->stats().reads_ahead;
    uint64_t seen = 0, bytes = 0, expected = 0;
    for (uint64_t n = 0; n < kRows; ++n) expected += value_of(n).size();
    const auto scanned = store_->run([&](Txn& txn) {
        seen = bytes = 0;
        return made->scan(txn, [&](RecordId, Slice value) {
            ++seen;
            bytes += value.size();
            return true;
        });
    });
    ASSERT_TRUE(scanned) << scanned.error().text();
    EXPECT_EQ(seen, kRows);
    EXPECT_EQ(bytes, expected);
    EXPECT_GT(store_->stats().reads_ahead, ahead + 100);
}

// Scans beside writers on two workers, all missing all the time: no scan sees a stale page, which
// would show as a sum that does not fit.
TEST_P(Scans, NeverStaleBesideWriters) {
    constexpr uint64_t kRows = 40'000, kPairs = 200;
    const Index index = load(kRows);
    const auto amount = [](uint64_t n) { return std::string(100, '.') + std::to_string(n); };
    const auto number = [](Slice value) {
        return std::strtoull(std::string(value.substr(100)).c_str(), nullptr, 10);
    };
    const auto put = store_->run([&](Txn& txn) -> Result<void> {
        for (uint64_t p = 0; p < 2 * kPairs; ++p)
            TRY(index.put(txn, Key().u64(p * 100), amount(1000)));
        return {};
    });
    ASSERT_TRUE(put) << put.error().text();
    std::atomic<bool> stop{false};
    std::vector<Handle<void>> running;
    for (int w = 0; w < 4; ++w)
        running.push_back(store_->start([&, w]() -> Result<void> {
            Rng rng(static_cast<uint64_t>(w) + 1);
            for (int i = 0; i < 100; ++i) {
                const Key from = Key().u64(rng.below(kPairs) * 100),
                          to = Key().u64((kPairs + rng.below(kPairs)) * 100);
                TRY(store_->run([&](Txn& txn) -> Result<void> {
                    std::string a, b;
                    TRY(index.get(txn, from, a, Access::update));
                    TRY(index.get(txn, to, b, Access::update));
                    TRY(index.update(txn, from, amount(number(a) - 1)));
                    TRY(index.update(txn, to, amount(number(b) + 1)));
                    return {};
                }));
            }
            return {};
        }));
    for (int round = 0; round < 6; ++round) {
        const auto sum = store_->run([&](Txn& txn) -> Result<uint64_t> {
            uint64_t total = 0;
            Cursor cursor = index.scan(txn);
            while (TRY(round % 2 ? cursor.next() : cursor.prev()))
                if (cursor.value()[0] == '.') total += number(cursor.value());
            return total;
        });
        ASSERT_TRUE(sum) << sum.error().text();
        EXPECT_EQ(*sum, 2 * kPairs * 1000);
    }
    for (auto& handle : running) {
        const auto done = handle.join();
        EXPECT_TRUE(done) << done.error().text();
    }
    const auto faults = store_->verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty());
}

INSTANTIATE_TEST_SUITE_P(All, Scans, ::testing::Values(IoMethod::io_uring, IoMethod::pool),
                         [](const auto& info) {
                             return info.param == IoMethod::pool ? "pool" : "io_uring";
                         });

}  // namespace lockstep::sm::read_ahead_test
