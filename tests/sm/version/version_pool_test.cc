// labels: unit tsan
// version_pool_test.cc - memory of versions: reuse, bounds, blocks that other workers give back.
#include "sm/version/version_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/sm/buffer/pool_test_util.h"
#include "threads/base/rng.h"
#include "threads/base/sanitized.h"

namespace lockstep::sm::version_pool_test {

struct Held {
    VersionPool::Taken taken;
    size_t bytes;
    char mark;
};

Held take(VersionPool& pool, uint32_t worker, size_t bytes, char mark) {
    const Held held{pool.take(worker, bytes), bytes, mark};
    EXPECT_NE(held.taken.block, nullptr);
    std::memset(held.taken.block, mark, bytes);
    return held;
}

void give(VersionPool& pool, uint32_t worker, uint32_t here, const Held& held) {
    const auto* const bytes = static_cast<const char*>(held.taken.block);
    for (size_t i = 0; i < held.bytes; ++i) ASSERT_EQ(bytes[i], held.mark) << held.bytes;
    pool.give(worker, here, held.taken, held.bytes);
}

TEST(VersionPool, ABlockComesAgain) {
    if (kAddressSanitizer) GTEST_SKIP() << "all blocks are the heap's";
    VersionPool pool(1, VersionMemory::small);
    ASSERT_TRUE(pool.start(1 << 20));
    const Held first = take(pool, 0, 65, 'a');
    void* const at = first.taken.block;
    EXPECT_FALSE(first.taken.of_heap);
    give(pool, 0, 0, first);
    const Held other_class = take(pool, 0, 64, 'b');
    EXPECT_NE(other_class.taken.block, at);
    const Held again = take(pool, 0, 128, 'c');
    EXPECT_EQ(again.taken.block, at);
    give(pool, 0, 0, again);
    give(pool, 0, 0, other_class);
    pool.release();
    ASSERT_TRUE(pool.start(1 << 20));
    give(pool, 0, 0, take(pool, 0, 1, 'd'));
}

// VP-1: what another worker gives comes only when the list of the worker that took it is empty.
TEST(VersionPool, AnotherWorkerPutsNothingIntoTheList) {
    if (kAddressSanitizer) GTEST_SKIP() << "all blocks are the heap's";
    VersionPool pool(2, VersionMemory::small);
    ASSERT_TRUE(pool.start(1 << 20));
    const Held own = take(pool, 0, 64, 'a'), other = take(pool, 0, 64, 'b');
    give(pool, 0, 0, own);
    give(pool, 0, 1, other);
    EXPECT_EQ(pool.take(0, 64).block, own.taken.block);
    EXPECT_EQ(pool.take(0, 64).block, other.taken.block);
}

TEST(VersionPool, BlocksDoNotOverlap) {
    VersionPool pool(1, VersionMemory::small);
    ASSERT_TRUE(pool.start(1 << 20));
    Rng rng(1);
    std::deque<Held> held;
    for (int n = 0; n < 20'000; ++n) {
        if (held.size() > 500 || (rng.below(2) == 0 && !held.empty())) {
            const size_t i = rng.below(held.size());
            give(pool, 0, 0, held[i]);
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            held.push_back(take(pool, 0, 1 + rng.below(1200), static_cast<char>(n)));
        }
    }
    for (const Held& each : held) give(pool, 0, 0, each);
}

// VP-2.
TEST(VersionPool, BeyondTheLimitAndLargeBlocksAreOfTheHeap) {
    VersionPool pool(1, VersionMemory::small);
    ASSERT_TRUE(pool.start(100'000));
    std::deque<Held> held;
    size_t of_chunks = 0;
    for (int n = 0; n < 1000; ++n) {
        held.push_back(take(pool, 0, 1024, 'x'));
        of_chunks += held.back().taken.of_heap ? 0 : 1024;
    }
    EXPECT_LE(of_chunks, 100'000u + 64 * 1024);
    EXPECT_TRUE(kAddressSanitizer || of_chunks > 100'000u) << of_chunks;
    held.push_back(take(pool, 0, 1025, 'y'));
    EXPECT_TRUE(held.back().taken.of_heap);
    for (const Held& each : held) give(pool, 0, 0, each);
}

TEST(VersionPool, APreparedChunkHasItsMemoryAndComesNext) {
    constexpr size_t kChunk = 2 << 20, kBlock = 1024;
    PoolRig rig;
    VersionPool pool(1, VersionMemory::large);
    ASSERT_TRUE(pool.start(2 * kChunk));
    EXPECT_EQ(pool.spare(), nullptr);
    rig.run([&] { pool.prepare(); });
    const std::byte* const spare = pool.spare();
    ASSERT_NE(spare, nullptr);
    std::vector<unsigned char> in_core(kChunk / 4096);
    ASSERT_EQ(mincore(const_cast<std::byte*>(spare), kChunk, in_core.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(in_core, [](auto page) { return page & 1; }));
    rig.run([&] { pool.prepare(); });
    EXPECT_EQ(pool.spare(), spare);
    if (kAddressSanitizer) return;  // all blocks are the heap's
    std::deque<Held> held;
    held.push_back(take(pool, 0, kBlock, 'x'));
    EXPECT_EQ(pool.spare(), nullptr);
    const auto* const first = static_cast<const std::byte*>(held.front().taken.block);
    EXPECT_TRUE(first > spare && first < spare + kChunk);
    while (held.size() < kChunk / kBlock) held.push_back(take(pool, 0, kBlock, 'x'));
    rig.run([&] { pool.prepare(); });
    EXPECT_EQ(pool.spare(), nullptr) << "beyond the limit";
    for (const Held& each : held) give(pool, 0, 0, each);
    pool.release();
    ASSERT_TRUE(pool.start(2 * kChunk));
    rig.run([&] { pool.prepare(); });
    EXPECT_NE(pool.spare(), nullptr);
    pool.release();
    EXPECT_EQ(pool.spare(), nullptr);
}

// Blocks of worker 0 are given back by worker 1 and from outside.
TEST(VersionPool, OtherWorkersGiveBlocksBack) {
    VersionPool pool(2, VersionMemory::small);
    ASSERT_TRUE(pool.start(1 << 20));
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Held> held;
    bool ended = false;
    std::thread giver([&] {
        for (uint32_t n = 0;; ++n) {
            Held next{};
            {
                std::unique_lock guard(mutex);
                changed.wait(guard, [&] { return !held.empty() || ended; });
                if (held.empty()) return;
                next = held.front();
                held.pop_front();
            }
            changed.notify_all();
            give(pool, 0, 1 + n % 2, next);
        }
    });
    std::map<void*, int> seen;
    for (int n = 0; n < 20'000; ++n) {
        const Held next = take(pool, 0, 1 + static_cast<size_t>(n) % 300, static_cast<char>(n));
        ++seen[next.taken.block];
        std::unique_lock guard(mutex);
        held.push_back(next);
        changed.notify_all();
        changed.wait(guard, [&] { return held.size() < 1000; });
    }
    {
        const std::lock_guard guard(mutex);
        ended = true;
    }
    changed.notify_all();
    giver.join();
    // At most 1,000 are held at a time, so the others came again.
    EXPECT_TRUE(kAddressSanitizer || seen.size() < 20'000u) << seen.size();
}

}  // namespace lockstep::sm::version_pool_test
