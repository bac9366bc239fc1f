// labels: unit
// hot_locks_test.cc - which locks were waited for most, in the last seconds, with little memory.
#include "txn/lock/hot_locks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "threads/base/rng.h"

namespace lockstep::txn::hot_locks_test {

constexpr Nanos kBegin = 1000 * HotLocks::kPeriod;

LockName name(uint64_t n) { return LockName{mix64(n) | 1}; }

TEST(HotLocksTest, CountsByName) {
    HotLocks hot;
    const LockPlace place = LockPlace::of_key(PlaceKind::key, "warm");
    for (int i = 0; i < 3; ++i) hot.note(name(1), ObjectId{7}, &place, 10, kBegin);
    hot.note(name(2), ObjectId{8}, nullptr, 100, kBegin);
    const auto list = hot.list(10, kBegin);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].name, name(2));  // the longest wait first
    EXPECT_EQ(list[0].waited, 100u);
    EXPECT_EQ(list[1].waits, 3u);
    EXPECT_EQ(list[1].waited, 30u);
    EXPECT_EQ(list[1].object, ObjectId{7});
    EXPECT_EQ(list[1].place.key_kept(), "warm");
    EXPECT_EQ(hot.list(1, kBegin).size(), 1u);
}

TEST(HotLocksTest, OldWaitsAreForgotten) {
    HotLocks hot;
    hot.note(name(1), ObjectId{}, nullptr, 10, kBegin);
    const Nanos next = kBegin + HotLocks::kPeriod;
    hot.note(name(1), ObjectId{}, nullptr, 10, next);
    ASSERT_EQ(hot.list(10, next).size(), 1u);
    EXPECT_EQ(hot.list(10, next)[0].waits, 2u);  // both periods
    EXPECT_EQ(hot.list(10, next + HotLocks::kPeriod)[0].waits, 1u);
    EXPECT_TRUE(hot.list(10, next + 2 * HotLocks::kPeriod).empty());
    EXPECT_EQ(HotLocks::looks_back(kBegin), HotLocks::kPeriod);
    EXPECT_EQ(HotLocks::looks_back(kBegin + kSecond), HotLocks::kPeriod + kSecond);
    // After a pause nothing of before counts.
    hot.note(name(1), ObjectId{}, nullptr, 10, next + 100 * HotLocks::kPeriod);
    EXPECT_EQ(hot.list(10, next + 100 * HotLocks::kPeriod)[0].waits, 1u);
}

// Few names in each shard, so nothing is inherited: waits, times and places of two periods.
TEST(HotLocksTest, AgainstAModel) {
    struct Told {
        uint64_t waits = 0;
        Nanos waited = 0;
        std::string key;
        ObjectId object{};
    };
    std::map<uint64_t, Told> present, before;
    HotLocks hot;
    Rng rng(2);
    Nanos now = kBegin;
    for (int step = 0; step < 2000; ++step) {
        const uint64_t passed = rng.chance(0.01) ? 1 + rng.below(3) : 0;
        for (uint64_t i = 0; i < passed; ++i) before = std::exchange(present, {});
        now += static_cast<Nanos>(passed) * HotLocks::kPeriod;
        const uint64_t n = 1 + rng.below(40);
        Told& told = present[n];
        const auto waited = static_cast<Nanos>(1 + rng.below(1000));
        ++told.waits;
        told.waited += waited;
        told.object = ObjectId{static_cast<uint32_t>(n)};
        const bool known = rng.chance(0.3);
        if (known) told.key = "key " + std::to_string(step);
        const LockPlace place = LockPlace::of_key(PlaceKind::key, told.key);
        hot.note(name(n), told.object, known ? &place : nullptr, waited, now);
        auto all = present;
        for (const auto& [old, was] : before) {
            Told& to = all[old];
            to.waits += was.waits;
            to.waited += was.waited;
            to.object = was.object;
            if (to.key.empty()) to.key = was.key;
        }
        const auto list = hot.list(100, now);
        ASSERT_EQ(list.size(), all.size());
        for (size_t i = 0; i < list.size(); ++i) {
            const HotLockEntry& entry = list[i];
            const Told& expected = all.at(entry.object.value);
            EXPECT_EQ(entry.name, name(entry.object.value));
            EXPECT_EQ(entry.waits, expected.waits);
            EXPECT_EQ(entry.waited, expected.waited);
            EXPECT_EQ(entry.place.key_kept(), expected.key);
            EXPECT_TRUE(i == 0 || entry.waited <= list[i - 1].waited);
        }
    }
}

// 10 hot names with a third of all waits among 100,000 others: none is missed, no count too low.
TEST(HotLocksTest, HotOnesStayAmongMany) {
    HotLocks hot;
    Rng rng(1);
    std::vector<uint64_t> counts(10);
    for (int i = 0; i < 300'000; ++i) {
        const bool is_hot = rng.below(3) == 0;
        const uint64_t n = is_hot ? rng.below(10) : 10 + rng.below(100'000);
        if (is_hot) ++counts[n];
        hot.note(name(n), ObjectId{}, nullptr, 1, kBegin);
    }
    const auto list = hot.list(10, kBegin);
    ASSERT_EQ(list.size(), 10u);
    for (uint64_t n = 0; n < 10; ++n) {
        const auto found = std::ranges::find(list, name(n), &HotLockEntry::name);
        ASSERT_NE(found, list.end()) << n;
        EXPECT_GE(found->waits, counts[n]);
    }
    EXPECT_LE(hot.list(SIZE_MAX, kBegin).size(), HotLocks::kShards * HotLocks::kEntries);
}

TEST(HotLocksTest, ALongKeyIsCut) {
    const std::string key(1000, 'k');
    const LockPlace place = LockPlace::of_key(PlaceKind::key, key);
    EXPECT_EQ(place.key_bytes, 1000);
    EXPECT_EQ(place.key_kept(), key.substr(0, LockPlace::kKeyBytesKept));
    EXPECT_TRUE(LockPlace::of_key(PlaceKind::key, "").key_kept().empty());
}

}  // namespace lockstep::txn::hot_locks_test
