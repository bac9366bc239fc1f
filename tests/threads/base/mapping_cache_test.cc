// mapping_cache_test.cc - memory that closed stores leave to the next ones, and the search for
// zeros in it.
#include "threads/base/mapping_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <vector>

#include "threads/base/zero_bytes.h"
#include "threads/thread/stack.h"

namespace lockstep::threads::mapping_cache_test {

constexpr size_t kBytes = 8 * 4096;

void* map_some() {
    return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// msync() refuses addresses that nothing is mapped at.
bool is_mapped(void* at) { return msync(at, 4096, MS_ASYNC) == 0; }

TEST(MappingCache, GivesOnlyWhatWasGivenForTheUse) {
    MappingCache cache;
    void* const at = map_some();
    cache.give(MappingUse::frames, at, kBytes);
    EXPECT_EQ(cache.take(MappingUse::locks, kBytes), nullptr);
    EXPECT_EQ(cache.take(MappingUse::frames, kBytes / 2), nullptr);
    EXPECT_EQ(cache.take(MappingUse::frames, kBytes), at);
    EXPECT_EQ(cache.take(MappingUse::frames, kBytes), nullptr) << "one mapping, two owners";
    munmap(at, kBytes);
}

TEST(MappingCache, KeepsSoManyAndUnmapsTheRest) {
    std::vector<void*> all(40);
    for (void*& at : all) at = map_some();
    {
        MappingCache cache;
        for (void* at : all) cache.give(MappingUse::log_ring, at, kBytes);
        EXPECT_FALSE(is_mapped(all.front()));
        EXPECT_TRUE(is_mapped(all.back()));
    }
    for (void* at : all) EXPECT_FALSE(is_mapped(at));
}

TEST(MappingCache, StacksComeBackWithTheirGuards) {
    MappingCache cache;
    std::byte* base;
    {
        StackPool pool(64 * 1024, &cache);
        base = (*pool.take())->base;
    }
    StackPool pool(64 * 1024, &cache);
    const Stack& again = **pool.take();
    EXPECT_EQ(again.base, base);
    base[0] = std::byte{1};  // usable
    EXPECT_TRUE(again.guards(base - 1));
    EXPECT_DEATH(*const_cast<volatile std::byte*>(base - 1) = std::byte{1}, "");
    // Another size of stack has slabs of its own.
    StackPool larger(128 * 1024, &cache);
    EXPECT_NE((*larger.take())->base, base);
}

TEST(ZeroBytes, EachByteCounts) {
    std::vector<std::byte> bytes(300);
    EXPECT_TRUE(all_zero(bytes.data(), 0));
    EXPECT_TRUE(all_zero(bytes.data(), bytes.size()));
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = std::byte{0x80};
        EXPECT_FALSE(all_zero(bytes.data(), bytes.size())) << i;
        EXPECT_TRUE(all_zero(bytes.data(), i)) << i;
        bytes[i] = std::byte{0};
    }
}

}  // namespace lockstep::threads::mapping_cache_test
