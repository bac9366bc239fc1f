// labels: unit
// spare_blocks_test.cc - memory blocks that a worker keeps: how many, and where they come from.
#include "threads/base/spare_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "threads/base/sanitized.h"

namespace lockstep::threads::spare_blocks_test {

// Under the address sanitizer each block is an allocation, so that its misuse is seen.
constexpr uint32_t kKept = kAddressSanitizer ? 0 : SpareBlocks::kKeptMax;

TEST(SpareBlocks, KeepsSomeAndFreesTheRest) {
    SpareBlocks blocks, other;
    std::vector<void*> taken;
    for (uint32_t i = 0; i < SpareBlocks::kKeptMax + 3; ++i) {
        taken.push_back(SpareBlocks::take(&blocks));
        std::memset(taken.back(), 0x5a, SpareBlocks::kBytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.back()) % alignof(std::max_align_t), 0u);
    }
    EXPECT_EQ(std::set<void*>(taken.begin(), taken.end()).size(), taken.size());
    EXPECT_EQ(blocks.kept(), 0u);
    // The worker that frees a block keeps it, wherever it comes from.
    for (void* block : taken) SpareBlocks::give(&other, block);
    EXPECT_EQ(blocks.kept(), 0u);
    EXPECT_EQ(other.kept(), kKept);
    if (kKept != 0) {
        void* const again = SpareBlocks::take(&other);
        EXPECT_EQ(again, taken[kKept - 1]);  // the last one, which is warm
        EXPECT_EQ(other.kept(), kKept - 1);
        SpareBlocks::give(&other, again);
    }
}

TEST(SpareBlocks, ForeignKernelThreadsHaveNone) {
    void* const block = SpareBlocks::take(nullptr);
    std::memset(block, 1, SpareBlocks::kBytes);
    SpareBlocks::give(nullptr, block);
}

}  // namespace lockstep::threads::spare_blocks_test
