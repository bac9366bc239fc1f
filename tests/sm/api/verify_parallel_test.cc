// labels: unit
// verify_parallel_test.cc - verify() on several workers finds exactly what it finds on one.
#include <optional>
#include <set>
#include <utility>

#include "sm/api/engine_of.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::verify_parallel_test {

class VerifyInParallel : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a", small_options(3)));
        for (int from = 0; from < 4000; from += 100)
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store_->open_or_create_index(txn, "i"));
                const Heap heap = TRY(store_->open_or_create_heap(txn, "h"));
                for (int n = from; n < from + 100; ++n) {
                    // Keys so long that there are three levels.
                    TRY(index.put(txn, std::to_string(10'000 + n) + std::string(300, 'k'),
                                  std::string(n % 100 == 3 ? 20'000 : 300, 'v')));
                    TRY(heap.insert(txn, std::string(500, 'r')));
                }
                return {};
            }));
    }
    void TearDown() override {
        store_.reset();
        StoreCrash::TearDown();
    }
    std::multiset<std::string> faults(uint32_t threads) {
        const auto found = store_->verify(threads);
        if (!found) return {found.error().text()};
        return {found->begin(), found->end()};
    }
    // Puts a byte into the page in memory; the one that was there.
    std::byte set(PageId id, size_t at, std::byte value) {
        sm::Engine& engine = sm::engine_of(*store_);
        on_thread(*store_, [&] {
            auto page = engine.pool->fix_exclusive(id);
            ASSERT_TRUE(page) << page.error().text();
            std::swap(page->mutable_page()->bytes()[at], value);
        });
        return value;
    }
    std::optional<Store> store_;
};

TEST_F(VerifyInParallel, SoundStore) {
    for (const uint32_t threads : {1u, 2u, 3u, 64u}) EXPECT_TRUE(faults(threads).empty());
    const auto none = store_->verify(0);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::bad_argument);
}

TEST_F(VerifyInParallel, SameFaults) {
    Rng rng(7);
    const uint64_t used = sm::engine_of(*store_).space->pages_used();
    int noticed = 0;
    for (int turn = 0; turn < 60; ++turn) {
        const PageId id{static_cast<uint32_t>(3 + rng.below(used - 3))};
        // Behind the header, whose number and LSN the pool relies on.
        const size_t at = 32 + rng.below(turn % 2 ? kPageBytes - 32 : 200);
        const std::byte right = set(id, at, std::byte{0x5a});
        const auto alone = faults(1), together = faults(3);
        EXPECT_EQ(alone, together) << "page " << id.value << " byte " << at;
        noticed += !alone.empty();
        set(id, at, right);
    }
    EXPECT_GT(noticed, 5);
    EXPECT_TRUE(faults(3).empty());
}

}  // namespace lockstep::verify_parallel_test
