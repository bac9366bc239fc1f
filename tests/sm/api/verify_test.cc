// labels: unit
// verify_test.cc - one byte of one page in memory is wrong, for all pages and many
// bytes: verify() names it or the byte says nothing, and never falls over.
#include <gtest/gtest.h>

#include <map>

#include "sm/buffer/page.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "threads/base/rng.h"

namespace lockstep::verify_test {

constexpr int kRows = 150;

class VerifyNotices : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(store_.open());
        store_.on_thread([&] {
            EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
                TRY(store_->create_index(txn, "i"));
                return TRY(store_->create_heap(txn, "h")), Result<void>{};
            }));
            EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store_->index("i"));
                const Heap heap = TRY(store_->heap("h"));
                std::vector<RecordId> ids;
                // Keys so long that there are three levels.
                for (int n = 0; n < kRows; ++n) {
                    TRY(index.insert(txn, "key" + std::to_string(1000 + n) + std::string(700, 'k'),
                                     std::string(n % 50 == 3 ? 20'000 : 200, 'v')));
                    ids.push_back(TRY(heap.insert(txn, std::string(200, 'r'))));
                }
                // These move.
                for (int n = 0; n < kRows; n += 20)
                    TRY(heap.update(txn, ids[static_cast<size_t>(n)], std::string(4'000, 'm')));
                for (int n = 5; n < kRows; n += 20)
                    TRY(heap.erase(txn, ids[static_cast<size_t>(n)]));
                return {};
            }));
            EXPECT_TRUE(store_->checkpoint());
            expect_sound();
        });
    }
    void TearDown() override { EXPECT_TRUE(store_.close()); }

    void expect_sound() {
        const auto faults = store_->verify();
        ASSERT_TRUE(faults) << faults.error().text();
        for (const std::string& fault : *faults) ADD_FAILURE() << fault;
    }
    // On a user thread: the bytes at `at` are others for a moment. True if verify() says so.
    bool notices(PageId id, size_t at, std::string_view bytes) {
        std::string before(bytes.size(), '\0');
        const auto overwrite = [&](std::string_view with) {
            auto page = store_.engine().pool->fix_exclusive(id);
            ASSERT_TRUE(page) << page.error().text();
            std::byte* const to = page->mutable_page()->bytes() + at;
            std::memcpy(before.data(), to, before.size());
            std::memcpy(to, with.data(), with.size());
        };
        overwrite(bytes);
        const std::string right = before;
        const auto faults = store_->verify();
        overwrite(right);
        return !faults || !faults->empty();
    }
    struct Tally {
        int pages = 0, tried = 0, noticed = 0;
    };

    threads::SimDisk disk_;
    SimStore store_{disk_};
};

TEST_F(VerifyNotices, WrongBytes) {
    const uint64_t seed = seed_of_run(5);
    Rng rng(seed);
    std::map<sm::PageKind, Tally> tallies;
    store_.on_thread([&] {
        sm::Engine& engine = store_.engine();
        for (uint32_t p = sm::kFirstMapPage.value; p < engine.space->pages_total(); ++p) {
            if (!*engine.space->is_used(PageId{p})) continue;
            auto page = engine.pool->fix_shared(PageId{p});
            ASSERT_TRUE(page);
            const sm::PageKind kind = (*page)->kind();
            page->release();
            Tally& tally = tallies[kind];
            if (++tally.pages > 12) continue;  // more of the same
            for (int n = 0; n < 60; ++n) {
                const size_t at = n < 30 ? rng.below(160) : rng.below(kPageBytes - 4);
                std::string bytes(1 + rng.below(4), '\0');
                for (char& c : bytes)
                    c = static_cast<char>(rng.chance(0.3) ? 0xff : rng.below(256));
                ++tally.tried;
                tally.noticed += notices(PageId{p}, at, bytes);
            }
        }
        expect_sound();
    });
    for (const auto& [kind, tally] : tallies) {
        std::printf("kind %d: %d pages, %d of %d noticed\n", static_cast<int>(kind), tally.pages,
                    tally.noticed, tally.tried);
        EXPECT_GT(tally.noticed,
                  kind == sm::PageKind::btree || kind == sm::PageKind::heap ? tally.tried / 8 : 0)
            << static_cast<int>(kind) << ", seed " << seed;
    }
    // Maps, nodes, chains, a heap's pages and its maps.
    EXPECT_GE(tallies.size(), 5u);
}

}  // namespace lockstep::verify_test
