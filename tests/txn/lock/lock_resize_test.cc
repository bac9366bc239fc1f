// labels: unit tsan
// lock_resize_test.cc - the lock table follows the number of locks: how much memory it touches, and
// that locks, waits and commit notes stay right while it grows and shrinks.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <map>

#include "tests/seed_of_run.h"
#include "tests/txn/lock/lock_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::txn::lock_resize_test {

LockName random_name(Rng& rng) { return LockName{mix64(rng.next()) | 1}; }

// Bytes of the table that are in memory.
size_t touched(const LockManager& locks) {
    constexpr size_t kPage = 4096;
    const std::span<const std::byte> space = locks.address_space();
    std::vector<unsigned char> pages((space.size() + kPage - 1) / kPage);
    EXPECT_EQ(mincore(const_cast<std::byte*>(space.data()), space.size(), pages.data()), 0);
    return kPage * static_cast<size_t>(std::count_if(pages.begin(), pages.end(),
                                                     [](unsigned char page) { return page & 1; }));
}

struct LockResize : ::testing::Test {
    static constexpr uint32_t kOwners = 40;
    // Each owner locks `each` new names and releases its old ones, `rounds` times.
    void run(uint64_t rounds, uint64_t each) {
        for (uint64_t round = 0; round < rounds; ++round)
            for (uint32_t i = 0; i < kOwners; ++i) {
                locks.release_all(owners[i]);
                for (uint64_t n = 0; n < each; ++n)
                    ASSERT_TRUE(*locks.try_lock(owners[i], random_name(rng), LockMode::X));
            }
    }
    LockManager locks{{.owners_max = kOwners}};
    Owners owners{locks, kOwners};
    Rng rng{seed_of_run(7)};
};

constexpr size_t kLimit = 256 << 10;  // for 400 locks at a time

TEST_F(LockResize, FourHundredLocksTouchLittleMemory) {
    run(1500, 10);
    std::printf("%zu buckets, %zu bytes touched\n", locks.buckets(), touched(locks));
    EXPECT_LE(touched(locks), kLimit);
    EXPECT_GE(locks.buckets(), 400 * 4u);  // so that most locks find a bucket of their own
    EXPECT_EQ(locks.verify(), "");
}

TEST_F(LockResize, ManyLocksGrowTheTableAndItShrinksAgain) {
    run(4, 1000);
    std::printf("%zu buckets, %zu bytes touched\n", locks.buckets(), touched(locks));
    EXPECT_GT(touched(locks), 4 * kLimit);
    EXPECT_EQ(locks.verify(), "");
    run(8000, 10);
    std::printf("%zu buckets, %zu bytes touched\n", locks.buckets(), touched(locks));
    EXPECT_LE(touched(locks), kLimit);
    EXPECT_EQ(locks.verify(), "");
}

// As in TPC-C's mix with one terminal. A sample sees the locks of others only, and there are none.
TEST_F(LockResize, ALargeTransactionNowAndThenKeepsItsTable) {
    constexpr uint64_t kSmall = 30, kLarge = 450;
    const auto run_one = [&](uint64_t names) {
        for (uint64_t n = 0; n < names; ++n)
            ASSERT_TRUE(*locks.try_lock(owners[0], random_name(rng), LockMode::S));
        locks.release_all(owners[0]);
    };
    size_t changes = 0, before = 0;
    for (int round = 0; round < 1000; ++round) {
        for (int n = 0; n < 20; ++n) run_one(kSmall);
        run_one(kLarge);
        changes += round > 100 && locks.buckets() != before;
        before = locks.buckets();
    }
    EXPECT_EQ(changes, 0u);
    EXPECT_GE(locks.buckets(), kLarge * 4);
    for (int n = 0; n < 20000; ++n) run_one(kSmall);
    EXPECT_LT(locks.buckets(), kLarge * 4);
    EXPECT_EQ(locks.verify(), "");
}

TEST_F(LockResize, ATransactionThatReleasesNothingGrowsTheTable) {
    for (int n = 0; n < 20000; ++n)
        ASSERT_TRUE(*locks.try_lock(owners[0], random_name(rng), LockMode::S));
    EXPECT_GT(locks.buckets(), 4096u);
    EXPECT_EQ(locks.verify(), "");
}

// Growth turns overflow buckets into free ones. Later growths use these.
TEST(LockResizePools, GrowthAgainAndAgainTakesNoFurtherMemory) {
    constexpr uint64_t kMany = 30'000;
    LockManager locks({.buckets_log2 = 18, .quiet_rounds = 1, .owners_max = 4});
    Owners owners(locks, 1);
    Rng rng(seed_of_run(7));
    const auto lock_new = [&](uint64_t names) {
        for (uint64_t n = 0; n < names; ++n)
            ASSERT_TRUE(*locks.try_lock(owners[0], random_name(rng), LockMode::X));
    };
    const auto cycle = [&] {
        lock_new(kMany);
        EXPECT_GT(locks.buckets(), kMany);
        locks.release_all(owners[0]);
        for (int rounds = 0; locks.buckets() > 256 && rounds < 1'000'000; ++rounds) {
            lock_new(20);
            locks.release_all(owners[0]);
        }
        EXPECT_EQ(locks.buckets(), 256u);
    };
    const auto pools = [&] { return locks.memory_bytes() - locks.buckets() * kCacheLineBytes; };
    for (int n = 0; n < 4; ++n) cycle();
    const size_t before = pools();
    for (int n = 0; n < 12; ++n) cycle();
    EXPECT_LE(pools(), before + before / 16);
    EXPECT_EQ(locks.verify(), "");
}

// A small table at every moment of a long random history, against a map.
TEST(LockResizeModel, NoLockIsLostOrMixedUp) {
    Rng rng(seed_of_run(11));
    LockManager locks({.buckets_log2 = 9,
                       .buckets_min_log2 = 1,
                       .look_every = 4,
                       .quiet_rounds = 1,
                       .owners_max = 4});
    Owners owners(locks, 4);
    std::map<uint64_t, uint32_t> held;  // X
    size_t largest = 0;
    for (int step = 0; step < 6000; ++step) {
        const auto who = static_cast<uint32_t>(rng.below(4));
        const bool many = step / 1500 % 2 == 0;
        if (rng.below(many ? 200 : 2) == 0) {
            locks.release_all(owners[who]);
            std::erase_if(held, [&](const auto& lock) { return lock.second == who; });
        } else {
            const LockName name{mix64(1 + rng.below(2000)) | 1};
            const auto at = held.find(name.value);
            const bool free = at == held.end() || at->second == who;
            ASSERT_EQ(*locks.try_lock(owners[who], name, LockMode::X), free);
            if (free) held[name.value] = who;
        }
        largest = std::max(largest, locks.buckets());
        if (step % 16 == 0) {
            ASSERT_EQ(locks.verify(), "");
        }
        if (step % 128 != 0) continue;
        for (const auto& [name, owner] : held)
            ASSERT_EQ(locks.held(owners[owner], LockName{name}), LockMode::X);
    }
    EXPECT_GE(largest, 256u);
    EXPECT_LT(locks.buckets(), largest);
}

// LK-5: a split or merged bucket hands its commit note on.
TEST(LockResizeModel, CommitNotesSurvive) {
    constexpr Lsn kEnd{8000};
    LockManager locks({.buckets_log2 = 12,
                       .buckets_min_log2 = 1,
                       .look_every = 4,
                       .quiet_rounds = 1,
                       .owners_max = 4});
    Owners owners(locks, 4);
    Rng rng(seed_of_run(13));
    std::vector<LockName> changed;
    for (int n = 0; n < 64; ++n) {
        changed.push_back(random_name(rng));
        ASSERT_TRUE(*locks.try_lock(owners[0], changed.back(), LockMode::X));
        locks.release_all(owners[0], kEnd);
    }
    const auto expect_notes = [&] {
        for (const LockName name : changed) {
            ASSERT_TRUE(*locks.try_lock(owners[1], name, LockMode::S));
            EXPECT_EQ(locks.release_all_of_reader(owners[1]), kEnd);
        }
    };
    for (int n = 0; n < 500; ++n)
        ASSERT_TRUE(*locks.try_lock(owners[2], random_name(rng), LockMode::S));
    EXPECT_GT(locks.buckets(), 512u);
    expect_notes();
    locks.release_all(owners[2]);
    for (int n = 0; n < 4000; ++n) {
        ASSERT_TRUE(*locks.try_lock(owners[2], random_name(rng), LockMode::S));
        locks.release_all(owners[2]);
    }
    EXPECT_LT(locks.buckets(), 64u);
    expect_notes();
}

// The list of an owner that unlocked a name far behind may contain names of others (LK-6).
TEST(LockResizeModel, AListWithForeignNamesReleasesNothingForeign) {
    LockManager locks({.owners_max = 2});
    Owners owners(locks, 2);
    for (uint64_t n = 1; n <= 400; ++n)
        ASSERT_TRUE(*locks.try_lock(owners[0], LockName{n << 6 | 1}, LockMode::X));
    const LockName early{1 << 6 | 1};
    locks.unlock(owners[0], early, LockMode::X);
    ASSERT_TRUE(*locks.try_lock(owners[1], early, LockMode::X));
    locks.release_all(owners[0]);
    EXPECT_EQ(locks.held(owners[1], early), LockMode::X);
    EXPECT_EQ(locks.verify(), "");
}

// Real workers hold X on random names while the table changes its size; an array of holders says
// whether two ever had the same.
TEST(LockResizeWorkers, TwoWorkersNeverShareALock) {
    constexpr uint32_t kThreads = 8, kNames = 3000;
    LockManager locks({.buckets_log2 = 13,
                       .buckets_min_log2 = 1,
                       .look_every = 4,
                       .quiet_rounds = 1,
                       .owners_max = kThreads});
    Owners owners(locks, kThreads);
    std::vector<std::atomic<uint32_t>> holder(kNames);
    std::atomic<uint64_t> conflicts{0}, sizes{0}, grants{0};
    const uint64_t seed = seed_of_run(17);
    auto runtime = *threads::Runtime::start({.workers = 2});
    for (uint32_t me = 0; me < kThreads; ++me)
        ASSERT_TRUE(runtime->spawn(me, "locker", [&, me] {
            Rng rng(seed * 1000 + me);
            std::vector<uint32_t> mine;
            for (int round = 0; round < 600; ++round) {
                const size_t before = locks.buckets();
                const uint64_t many = round / 60 % 2 == 0 ? 300 : 3;
                for (uint64_t n = rng.below(many); n > 0; --n) {
                    const auto i = static_cast<uint32_t>(rng.below(kNames));
                    const Result<bool> got =
                        locks.try_lock(owners[me], LockName{mix64(i + 1) | 1}, LockMode::X);
                    ASSERT_TRUE(got.has_value());
                    if (!*got) continue;
                    const uint32_t was = holder[i].exchange(me + 1);
                    if (was == me + 1) continue;
                    conflicts += was != 0;
                    ++grants;
                    mine.push_back(i);
                }
                for (const uint32_t i : mine) conflicts += holder[i].exchange(0) != me + 1;
                mine.clear();
                locks.release_all(owners[me]);
                sizes += locks.buckets() != before;
                threads::yield();
            }
        }));
    runtime->stop();
    EXPECT_EQ(conflicts.load(), 0u);
    EXPECT_GT(sizes.load(), 5u);
    EXPECT_GT(grants.load(), 10000u);
    EXPECT_EQ(locks.verify(), "");
}

}  // namespace lockstep::txn::lock_resize_test
