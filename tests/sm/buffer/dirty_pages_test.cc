// labels: unit
// dirty_pages_test.cc - the order of the pages that a checkpoint writes, and what other threads get
// meanwhile.
#include "sm/buffer/dirty_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sm/buffer/pool_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::sm::dirty_pages_test {

TEST(DirtyPages, ComeInAscendingOrder) {
    Rng rng(seed_of_run(1));
    for (const size_t count :
         {size_t{0}, size_t{1}, DirtyPages::kRunLength - 1, DirtyPages::kRunLength,
          DirtyPages::kRunLength + 1, size_t{20'000}}) {
        DirtyPages pages;
        std::vector<WriteCandidate> wanted;
        for (uint32_t f = 1; f <= count; ++f) {
            wanted.push_back({static_cast<uint32_t>(rng.below(1u << 20)), f});
            pages.add(wanted.back());
        }
        std::ranges::sort(wanted);
        pages.sort();
        EXPECT_EQ(pages.left(), count);
        for (const WriteCandidate& page : wanted) ASSERT_EQ(pages.next(), page);
        EXPECT_EQ(pages.left(), 0u);
    }
}

// All frames are dirty. Nothing else suspends the checkpoint before its first write: the log is
// durable.
TEST(DirtyPages, OtherThreadsRunWhileACheckpointLooksForThem) {
    PagesRig rig(3800, {.pool_bytes = 32 << 20, .simulated = true, .cleaner = false});
    rig.run([&] { ASSERT_TRUE(rig.engine.log->wait_durable(rig.engine.log->tail())); });
    EXPECT_GE(rig.pool().stats().dirty, 3800u);
    bool writing = false;
    rig.sim->observe([&](const threads::SimEvent& event) {
        writing = writing || event.path == rig.data_path();
    });
    uint32_t turns = 0;
    rig.run_all({[&] { EXPECT_TRUE(rig.pool().write_dirty(0)); },
                 [&] {
                     for (; !writing; ++turns) threads::yield();
                 }});
    rig.sim->observe(nullptr);
    EXPECT_GE(turns, 3u);
    EXPECT_EQ(rig.pool().stats().dirty, 0u);
    EXPECT_EQ(rig.verify(), "");
}

}  // namespace lockstep::sm::dirty_pages_test
