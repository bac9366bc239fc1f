// labels: unit tsan
// latch_test.cc - latch words: exclusion, sharing, versions, absent words,
// starvation; ranked latches.
#include "threads/sync/latch.h"
#include "threads/base/rng.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"

namespace lockstep::threads::latch_test {

using namespace latch;

void spawn_or_fail(Runtime& runtime, uint32_t worker, ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

TEST(Latch, StatesOfAWord) {
    LatchWord word{with_payload(0, 42)};
    EXPECT_TRUE(try_shared(word));
    EXPECT_TRUE(try_shared(word));
    EXPECT_FALSE(try_exclusive(word));
    EXPECT_EQ(state(word), 2u);
    unlatch_shared(word);
    unlatch_shared(word);
    EXPECT_EQ(word.load(), with_payload(0, 42));  // sharing leaves no trace
    EXPECT_TRUE(try_exclusive(word));
    EXPECT_FALSE(try_shared(word));
    EXPECT_FALSE(readable(word));
    set_payload(word, 43);
    unlatch_exclusive(word);
    EXPECT_EQ(word.load(), with_payload(kVersionOne, 43));  // LA-1
}

TEST(Latch, SharedHoldersAreLimited) {
    LatchWord word{0};
    for (uint64_t i = 0; i < kSharedMax; ++i) ASSERT_TRUE(try_shared(word));
    EXPECT_FALSE(try_shared(word));
    EXPECT_EQ(state(word), kSharedMax);
    for (uint64_t i = 0; i < kSharedMax; ++i) unlatch_shared(word);
    EXPECT_EQ(word.load(), 0u);
}

TEST(Latch, VersionWrapsWithoutTouchingThePayload) {
    LatchWord word{with_payload(kVersionMask, 5)};
    EXPECT_TRUE(try_exclusive(word));
    unlatch_exclusive(word);
    EXPECT_EQ(word.load(), with_payload(0, 5));
}

TEST(Latch, OptimisticReadsAndUpgrade) {
    LatchWord word{0};
    const uint64_t snapshot = word.load();
    ASSERT_TRUE(readable(snapshot));
    EXPECT_TRUE(validate(word, snapshot));
    EXPECT_TRUE(try_shared(word));
    EXPECT_TRUE(validate(word, snapshot));  // a reader disturbs no reader
    EXPECT_FALSE(try_upgrade(word, snapshot));
    unlatch_shared(word);
    EXPECT_TRUE(try_upgrade(word, snapshot));
    EXPECT_FALSE(validate(word, snapshot));
    unlatch_exclusive(word);
    EXPECT_FALSE(validate(word, snapshot));
    EXPECT_FALSE(try_upgrade(word, snapshot));
}

TEST(Latch, AbsentWords) {
    LatchWord word{kAbsent};
    EXPECT_FALSE(try_shared(word));
    EXPECT_FALSE(try_exclusive(word));
    EXPECT_FALSE(latch_shared(word));
    EXPECT_FALSE(latch_exclusive(word));
    wait_while_exclusive(word);
    EXPECT_TRUE(fault_begin(word));
    EXPECT_FALSE(fault_begin(word));
    set_payload(word, 9);
    unlatch_exclusive(word);
    EXPECT_EQ(payload(word), 9u);
    EXPECT_TRUE(latch_exclusive(word));
    unlatch_to_absent(word);
    EXPECT_EQ(word.load(), kAbsent | 2 * kVersionOne);
}

// LA-2
TEST(Latch, DepthCountsExclusiveHolds) {
    auto runtime = *Runtime::start({});
    spawn_or_fail(*runtime, 0, [] {
        LatchWord a{0}, b{kAbsent};
        const uint32_t& depth = current()->latch_depth;
        EXPECT_TRUE(latch_shared(a));
        EXPECT_EQ(depth, 0u);
        unlatch_shared(a);
        EXPECT_TRUE(latch_exclusive(a));
        EXPECT_TRUE(fault_begin(b));
        EXPECT_EQ(depth, 2u);
        EXPECT_FALSE(try_exclusive(a));
        EXPECT_EQ(depth, 2u);
        unlatch_to_absent(b);
        EXPECT_EQ(depth, 1u);
        unlatch_exclusive(a);
        EXPECT_EQ(depth, 0u);
        EXPECT_TRUE(try_upgrade(a, a.load()));
        EXPECT_EQ(depth, 1u);
        unlatch_exclusive(a);
    });
    runtime->stop();
}

// Writers keep two counters equal and yield or park in between; readers of both kinds must never
// see them differ.
void exclusion(uint32_t workers, int threads, int rounds) {
    auto runtime = *Runtime::start({.workers = workers});
    LatchWord word{0};
    std::atomic<uint64_t> a{0}, b{0};
    std::atomic<uint64_t> writes{0}, torn{0}, optimistic{0};
    for (int i = 0; i < threads; ++i)
        spawn_or_fail(*runtime, static_cast<uint32_t>(i), [&, i] {
            for (int k = 0; k < rounds; ++k) {
                if ((i + k) % 3 == 0) {
                    EXPECT_TRUE(latch_exclusive(word));
                    EXPECT_EQ(state(word), kExclusive);
                    a.store(a.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
                    if (k % 4 == 0) yield();
                    b.store(b.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
                    ++writes;
                    unlatch_exclusive(word);
                } else if ((i + k) % 3 == 1) {
                    EXPECT_TRUE(latch_shared(word));
                    const uint64_t before = a.load(std::memory_order_relaxed);
                    if (k % 4 == 1) yield();
                    torn += before != b.load(std::memory_order_relaxed);
                    unlatch_shared(word);
                } else {
                    const uint64_t snapshot = word.load(std::memory_order_acquire);
                    if (!readable(snapshot)) continue;
                    const uint64_t first = a.load(std::memory_order_relaxed),
                                   second = b.load(std::memory_order_relaxed);
                    if (!validate(word, snapshot)) continue;
                    ++optimistic;
                    torn += first != second;
                }
                if (k % 16 == 15) yield();
            }
        });
    runtime->stop();
    EXPECT_EQ(torn, 0u);
    EXPECT_EQ(a, writes);
    EXPECT_EQ(b, writes);
    EXPECT_EQ(version_bits(word) >> kVersionShift, writes & (kVersionMask >> kVersionShift));
    // LA-4: nobody waits, so the bit is clear.
    EXPECT_EQ(word.load() & (kStateMask | kWaiters), 0u);
    printf("writes %lu, optimistic reads %lu, parked %lu times\n", writes.load(), optimistic.load(),
           runtime->stats().parks[static_cast<size_t>(ParkReason::latch)]);
}

TEST(Latch, ExclusionOneWorker) { exclusion(1, 20, 2'000); }
TEST(Latch, ExclusionTwoWorkers) { exclusion(2, 20, 2'000); }
TEST(Latch, ExclusionFourWorkers) { exclusion(4, 40, 1'000); }

// More shared holders than a word can count: the rest waits and gets its turn.
TEST(Latch, MoreReadersThanTheWordCounts) {
    auto runtime = *Runtime::start({.workers = 2});
    LatchWord word{0};
    std::atomic<int> passed{0};
    for (uint32_t i = 0; i < 400; ++i)
        spawn_or_fail(*runtime, i, [&, i] {
            EXPECT_TRUE(i % 50 == 7 ? latch_exclusive(word) : latch_shared(word));
            sleep_until(now() + 100 * kMicrosecond);
            i % 50 == 7 ? unlatch_exclusive(word) : unlatch_shared(word);
            ++passed;
        });
    runtime->stop();
    EXPECT_EQ(passed, 400);
    EXPECT_EQ(word.load() & (kStateMask | kWaiters), 0u);
}

// LA-5: overlapping readers never leave the word free by themselves.
TEST(Latch, WriterGetsThroughAStreamOfReaders) {
    auto runtime = *Runtime::start({.workers = 2});
    LatchWord word{0};
    std::atomic<bool> written{false};
    std::atomic<uint64_t> reads{0};
    for (uint32_t i = 0; i < 6; ++i)
        spawn_or_fail(*runtime, i, [&] {
            while (!written) {
                EXPECT_TRUE(latch_shared(word));
                ++reads;
                yield();
                unlatch_shared(word);
            }
        });
    spawn_or_fail(*runtime, 0, [&] {
        while (reads < 1000) yield();
        for (int i = 0; i < 100; ++i) {
            EXPECT_TRUE(latch_exclusive(word));
            unlatch_exclusive(word);
        }
        written = true;
    });
    runtime->stop();
}

// LA-5: greedy writers that give the latch up for no longer than an instant cannot overtake a
// waiter for ever.
TEST(Latch, WaiterGetsThroughGreedyWriters) {
    auto runtime = *Runtime::start({});
    LatchWord word{0};
    bool ended = false;
    int greedy_turns = 0, waits_done = 0, started = 0;
    for (int i = 0; i < 2; ++i)
        spawn_or_fail(*runtime, 0, [&] {
            ++started;
            while (started < 4) yield();
            EXPECT_TRUE(latch_exclusive(word));
            while (!ended && greedy_turns < 1'000'000) {
                ++greedy_turns;
                // The other greedy one or the waiter tries, in vain.
                yield();
                unlatch_exclusive(word);
                EXPECT_TRUE(latch_exclusive(word));
            }
            unlatch_exclusive(word);
        });
    for (const bool shared : {true, false})
        spawn_or_fail(*runtime, 0, [&, shared] {
            ++started;
            while (started < 4) yield();
            for (int k = 0; k < 20; ++k) {
                EXPECT_TRUE(shared ? latch_shared(word) : latch_exclusive(word));
                shared ? unlatch_shared(word) : unlatch_exclusive(word);
            }
            if (++waits_done == 2) ended = true;
        });
    runtime->stop();
    EXPECT_TRUE(ended);
    EXPECT_LT(greedy_turns, 10'000);
}

// Many threads want absent pages; one reads, the others wait for it or find the page there.
TEST(Latch, FaultProtocol) {
    auto runtime = *Runtime::start({.workers = 3});
    constexpr size_t kPages = 8;
    std::vector<LatchWord> words(kPages);
    std::atomic<uint64_t> faults{0}, evictions{0}, hits{0};
    // 0 while absent, frame number while present: under the latch.
    uint64_t content[kPages] = {};
    for (auto& word : words) word = kAbsent;
    for (uint32_t i = 0; i < 24; ++i)
        spawn_or_fail(*runtime, i, [&, i] {
            Rng rng(i);
            for (int k = 0; k < 500; ++k) {
                const size_t page = rng.below(kPages);
                LatchWord& word = words[page];
                if (rng.chance(0.2)) {
                    if (!try_exclusive(word)) continue;
                    EXPECT_EQ(content[page], page + 1);
                    content[page] = 0;
                    unlatch_to_absent(word);
                    ++evictions;
                    continue;
                }
                while (!latch_shared(word)) {
                    if (fault_begin(word)) {
                        EXPECT_EQ(content[page], 0u);
                        yield();  // the read
                        content[page] = page + 1;
                        set_payload(word, page + 1);
                        unlatch_exclusive(word);
                        ++faults;
                    } else {
                        wait_while_exclusive(word);
                    }
                }
                EXPECT_EQ(payload(word), page + 1);
                EXPECT_EQ(content[page], page + 1);
                ++hits;
                unlatch_shared(word);
            }
        });
    runtime->stop();
    EXPECT_GT(evictions, 0u);
    EXPECT_GE(faults, evictions);
    EXPECT_LE(faults, evictions + kPages);
    for (auto& word : words) EXPECT_EQ(word.load() & kWaiters, 0u);
}

TEST(Latch, ForeignKernelThreadsMayLatch) {
    auto runtime = *Runtime::start({});
    LatchWord word{0};
    uint64_t count = 0;
    spawn_or_fail(*runtime, 0, [&] {
        for (int i = 0; i < 1000; ++i) {
            EXPECT_TRUE(latch_exclusive(word));
            ++count;
            if (i % 10 == 0) yield();
            unlatch_exclusive(word);
        }
    });
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(latch_exclusive(word));
        ++count;
        unlatch_exclusive(word);
    }
    runtime->stop();
    EXPECT_EQ(count, 2000u);
}

TEST(RankedLatch, Excludes) {
    auto runtime = *Runtime::start({.workers = 2});
    Latch low(1, "low"), high(2, "high");
    uint64_t count = 0;
    std::atomic<uint64_t> shared_reads{0};
    for (uint32_t i = 0; i < 8; ++i)
        spawn_or_fail(*runtime, i, [&] {
            for (int k = 0; k < 300; ++k) {
                low.lock();
                if (k % 3 == 0 && high.try_lock()) high.unlock();
                high.lock_shared();
                ++count;
                high.unlock_shared();
                low.unlock();
                if (k % 10 == 0) yield();
                low.lock_shared();
                shared_reads += count > 0;
                low.unlock_shared();
            }
        });
    runtime->stop();
    EXPECT_EQ(count, 2400u);
    EXPECT_EQ(shared_reads, 2400u);
}

#ifdef LOCKSTEP_DEBUG_CHECKS
TEST(RankedLatchDeathTest, WrongOrderStops) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto wrong_order = [] {
        auto runtime = *Runtime::start({});
        Latch low(1, "low"), high(2, "high");
        (void)runtime->spawn(0, "wrong", [&] {
            high.lock();
            low.lock();
        });
        runtime->stop();
    };
    EXPECT_DEATH(wrong_order(), "rank");
}
#endif

}  // namespace lockstep::threads::latch_test
