// labels: unit tsan
// first_touch_test.cc - how much of a mapping has memory: ahead of what is in use, and no further.
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "sm/buffer/first_touch.h"
#include "tests/sm/buffer/pool_test_util.h"

namespace lockstep::sm::first_touch_test {

constexpr size_t kMiB = 1 << 20, kSystemPage = 4096;

// Bytes of the range that have memory.
size_t present(const std::byte* from, size_t bytes) {
    std::vector<unsigned char> in_core((bytes + kSystemPage - 1) / kSystemPage);
    EXPECT_EQ(mincore(const_cast<std::byte*>(from), bytes, in_core.data()), 0);
    return static_cast<size_t>(std::ranges::count_if(in_core, [](auto c) { return c & 1; })) *
           kSystemPage;
}

class FirstTouchTest : public testing::Test {
protected:
    static constexpr size_t kBytes = 160 * kMiB + 64 * 1024;  // ends within a huge page

    void SetUp() override {
        void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        // So that one touch takes one page.
        ASSERT_EQ(madvise(at, kBytes, MADV_NOHUGEPAGE), 0);
        memory_ = static_cast<std::byte*>(at);
        touch_.watch(memory_, kBytes);
    }
    void TearDown() override { munmap(memory_, kBytes); }
    // As the pool does: calls while something is due.
    int advance(size_t used) {
        int calls = 0;
        rig_.run([&] {
            for (; touch_.is_due(used); ++calls) {
                ASSERT_LT(calls, 100) << "no end";
                touch_.advance(used);
            }
        });
        return calls;
    }

    PoolRig rig_;
    FirstTouch touch_;
    std::byte* memory_ = nullptr;
};

TEST_F(FirstTouchTest, GoesAsFarAheadAsIsInUse) {
    EXPECT_EQ(advance(0), 0);
    EXPECT_EQ(advance(kMiB - 1), 0);
    EXPECT_EQ(present(memory_, kBytes), 0u);
    EXPECT_EQ(advance(3 * kMiB), 1);
    EXPECT_EQ(present(memory_ + 2 * kMiB, 4 * kMiB), 4 * kMiB);
    EXPECT_EQ(present(memory_, kBytes), 4 * kMiB);  // its user touches the begin
    EXPECT_EQ(advance(3 * kMiB), 0);
}

TEST_F(FirstTouchTest, StaysWithinItsBound) {
    EXPECT_EQ(advance(70 * kMiB), 8);
    EXPECT_EQ(present(memory_ + 70 * kMiB, 64 * kMiB), 64 * kMiB);
    EXPECT_EQ(present(memory_ + 134 * kMiB, kBytes - 134 * kMiB), 0u);
    EXPECT_EQ(present(memory_, 70 * kMiB), 0u);
}

TEST_F(FirstTouchTest, EndsWithTheMapping) {
    EXPECT_GT(advance(120 * kMiB), 0);
    EXPECT_EQ(present(memory_ + 120 * kMiB, 40 * kMiB), 40 * kMiB);
    EXPECT_EQ(advance(kBytes), 0);
}

TEST_F(FirstTouchTest, CatchesUpWithAUserThatWasFaster) {
    EXPECT_EQ(advance(4 * kMiB), 1);
    EXPECT_GT(advance(130 * kMiB), 0);
    EXPECT_EQ(present(memory_ + 8 * kMiB, 122 * kMiB), 0u);  // the user did that
    EXPECT_EQ(present(memory_ + 130 * kMiB, 30 * kMiB), 30 * kMiB);
    EXPECT_LE(advance(kBytes), 1);
    EXPECT_EQ(advance(kBytes), 0);
}

TEST_F(FirstTouchTest, ChangesNoByte) {
    for (size_t at = 0; at < kBytes; at += 7 * kSystemPage) memory_[at] = std::byte{0x5a};
    EXPECT_GT(advance(50 * kMiB), 0);
    for (size_t at = 0; at < kBytes; at += 7 * kSystemPage)
        ASSERT_EQ(memory_[at], std::byte{0x5a}) << at;
}

// The system refuses to touch what must not be written.
TEST_F(FirstTouchTest, AnErrorEndsIt) {
    ASSERT_EQ(mprotect(memory_, kBytes, PROT_NONE), 0);
    EXPECT_EQ(advance(70 * kMiB), 1);
    EXPECT_EQ(advance(100 * kMiB), 0);
    rig_.run([&] { touch_.advance(100 * kMiB); });  // as a thread that asked too early
    EXPECT_FALSE(touch_.is_due(100 * kMiB));
}

// Frames are touched beyond those that a page has, while the pages come.
TEST(FirstTouchOfFrames, IsAheadOfThePages) {
    PoolRig rig({.pool_bytes = 64 * kMiB, .huge_pages = true});
    constexpr uint32_t kPages = 2000;
    std::vector<PageId> pages;
    rig.run([&] {
        make_pages(rig.engine, kPages, pages);
        const auto first = rig.engine.pool->fix_shared(pages[0]);
        const auto last = rig.engine.pool->fix_shared(pages[kPages - 1]);
        ASSERT_TRUE(first && last);
        const auto* const from = reinterpret_cast<const std::byte*>(&**first);
        const auto* const end = reinterpret_cast<const std::byte*>(&**last) + kPageBytes;
        ASSERT_GT(end, from + kPages / 2 * kPageBytes) << "frames are used in order";
        const auto* const beyond =
            end + kSystemPage - reinterpret_cast<uintptr_t>(end) % kSystemPage;
        size_t ahead = 0;
        for (int i = 0; i < 500 && ahead < 12 * kMiB; ++i) {
            ahead = present(beyond, 12 * kMiB);
            threads::sleep_until(threads::now() + 10 * kMillisecond);
        }
        EXPECT_EQ(ahead, 12 * kMiB);
    });
}

}  // namespace lockstep::sm::first_touch_test
