// labels: unit model
// btree_node_test.cc - one B-tree page against std::map: heads, ties, prefixes,
// fences, compaction, split and merge actions.
#include "sm/btree/btree_node.h"
#include "sm/btree/btree_node_search.h"
#include "tests/seed_of_run.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "sm/btree/btree_payload.h"
#include "threads/base/rng.h"

namespace lockstep::sm {

void apply_btree_truncate(Page&, Slice);
void apply_btree_absorb(Page&, Slice);
void apply_btree_format(Page&, Slice);
void apply_btree_put(Page&, Slice);
void apply_btree_set_child(Page&, Slice);

namespace btree_node_test {

using namespace node;

struct Record {
    std::string value;
    bool ghost = false;
    bool operator==(const Record&) const = default;
};
using Model = std::map<std::string, Record>;

struct Node {
    std::unique_ptr<Page> page = std::make_unique<Page>();
    Model model;

    Node(Slice low, Slice high, bool infinite) {
        Builder::Frame f;
        f.page = PageId{7};
        f.object = ObjectId{3};
        f.low = low;
        f.high = high;
        f.infinite = infinite;
        Builder(*page, f);
    }
    void check() const {
        ASSERT_EQ(check_node(*page), "");
        ASSERT_EQ(count(*page), model.size());
        unsigned slot = 0;
        for (const auto& [key, record] : model) {
            ASSERT_EQ(full_key(*page, slot), key);
            ASSERT_EQ(value(*page, slot), record.value);
            ASSERT_EQ(ghost(*page, slot), record.ghost);
            const Found f = search(*page, key);
            ASSERT_TRUE(f.exact);
            ASSERT_EQ(f.slot, slot);
            ASSERT_TRUE(key_equals(*page, slot, SearchKey(key)));
            // It is found from its own slot, and from the one before.
            ASSERT_TRUE(check_near(key, slot));
            ASSERT_TRUE(slot == 0 || check_near(key, slot - 1));
            ++slot;
        }
    }
    // If the key's place is near `slot`, it is what a search finds. False: it is not.
    bool check_near(const std::string& key, unsigned slot) const {
        bool exact = false;
        if (!find_near(*page, SearchKey(key), slot, exact)) return false;
        const Found f = search(*page, key);
        EXPECT_TRUE(covers(*page, key));
        EXPECT_EQ(slot, f.slot);
        EXPECT_EQ(exact, f.exact);
        return true;
    }
    void check_search(const std::string& key) const {
        const auto at = model.lower_bound(key);
        const Found f = search(*page, key);
        ASSERT_EQ(f.slot, static_cast<unsigned>(std::distance(model.begin(), at)));
        ASSERT_EQ(f.exact, at != model.end() && at->first == key);
    }
};

// Keys whose alphabet is so small that heads tie, with zero bytes and with each other's prefixes.
std::string random_key(Rng& rng, const std::string& prefix, size_t longest) {
    std::string key = prefix;
    const size_t n = rng.below(longest + 1);
    for (size_t i = 0; i < n; ++i) key += "\0\1ab\xff"[rng.below(5)];
    return key;
}
std::string random_value(Rng& rng, size_t longest) {
    return std::string(rng.below(longest + 1), static_cast<char>('a' + rng.below(26)));
}

struct Fences {
    std::string low, high;
    bool infinite;
};
const Fences kFences[] = {{"", "", true},
                          {"", "b", false},
                          {"a", "", true},
                          {"abc", "abd", false},
                          {"abcabcabc", "abcabcb", false},
                          {std::string("\0", 1), std::string("\0\1", 2), false},
                          {"k", "k\xff", false}};

std::string key_within(Rng& rng, const Fences& f) {
    for (;;) {
        const size_t shared = f.infinite ? 0 : common_prefix(f.low, f.high);
        std::string key =
            random_key(rng, rng.below(3) ? f.low.substr(0, shared) : f.low, rng.below(8) ? 6 : 200);
        if (key >= f.low && (f.infinite || key < f.high)) return key;
    }
}

TEST(BTreeNode, RandomOperationsMatchAMapUnderAllFences) {
    const uint64_t seed = seed_of_run(4711);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    unsigned absent_near = 0;
    for (const Fences& fences : kFences) {
        for (int round = 0; round < 4; ++round) {
            Node n(fences.low, fences.high, fences.infinite);
            const size_t longest = round == 0 ? 8 : round == 1 ? 60 : 700;
            for (int i = 0; i < 1500; ++i) {
                const std::string key = key_within(rng, fences);
                ASSERT_TRUE(covers(*n.page, key));
                n.check_search(key);
                const Found f = search(*n.page, key);
                const auto count = static_cast<unsigned>(n.model.size());
                absent_near +=
                    !f.exact && n.check_near(key, f.slot - static_cast<unsigned>(rng.below(2)));
                n.check_near(key, static_cast<unsigned>(rng.below(count + 2)));
                // Of another node, too.
                n.check_near(random_key(rng, fences.low.substr(0, rng.below(4)), 6),
                             static_cast<unsigned>(rng.below(count + 2)));
                const auto it = n.model.find(key);
                if (!f.exact) {
                    const std::string v = random_value(rng, longest);
                    const Slice rest = Slice(key).substr(header(*n.page).prefix);
                    if (!fits(*n.page, key.size(), v.size())) {
                        if (n.model.empty()) continue;
                        const auto victim = std::next(
                            n.model.begin(), static_cast<ptrdiff_t>(rng.below(n.model.size())));
                        node::remove(*n.page, search(*n.page, victim->first).slot);
                        n.model.erase(victim);
                        continue;
                    }
                    const bool is_ghost = rng.below(10) == 0;
                    put(*n.page, f.slot, is_ghost ? kGhost : 0, rest, v);
                    n.model[key] = {v, is_ghost};
                } else if (rng.below(4) == 0) {
                    node::remove(*n.page, f.slot);
                    n.model.erase(it);
                } else if (rng.below(3) == 0) {
                    it->second.ghost = !it->second.ghost;
                    set_bits(*n.page, f.slot, it->second.ghost ? kGhost : 0,
                             it->second.ghost ? 0 : kGhost);
                } else {
                    std::string& v = it->second.value;
                    const size_t offset = rng.below(v.size() + 1),
                                 old_bytes = rng.below(v.size() - offset + 1);
                    const std::string fresh = random_value(rng, longest);
                    if (fresh.size() > old_bytes && fresh.size() - old_bytes > free_bytes(*n.page))
                        continue;
                    if (v.size() - old_bytes + fresh.size() > kInlineMax) continue;
                    splice(*n.page, f.slot, static_cast<unsigned>(offset),
                           static_cast<unsigned>(old_bytes), fresh);
                    v.replace(offset, old_bytes, fresh);
                }
                if (i % 50 == 0) n.check();
                if (HasFailure()) return;
            }
            n.check();
            if (HasFailure()) return;
        }
    }
    EXPECT_GT(absent_near, 1000u);
}

TEST(BTreeNode, SeparatorIsShortestKeyAboveLeftAndNotAboveRight) {
    Rng rng(seed_of_run(4711));
    for (int i = 0; i < 20000; ++i) {
        std::string a = random_key(rng, "", 8), b = random_key(rng, "", 8);
        if (a == b) continue;
        if (a > b) std::swap(a, b);
        const std::string s(separator(a, b));
        ASSERT_LT(a, s);
        ASSERT_LE(s, b);
        for (size_t n = 0; n < s.size(); ++n) ASSERT_LE(b.substr(0, n), a);
    }
}

std::string bytes(Slice a, Slice b, Slice c, Slice d = {}) {
    return std::string(a) + std::string(b) + std::string(c) + std::string(d);
}

// A split by truncate + format and a merge by absorb give back the same records.
TEST(BTreeNode, SplitAndMergeKeepAllRecords) {
    const uint64_t seed = seed_of_run(4711);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    for (const Fences& fences : kFences) {
        for (int round = 0; round < 30; ++round) {
            Node n(fences.low, fences.high, fences.infinite);
            for (int i = 0; i < 40; ++i) {
                const std::string key = key_within(rng, fences), v = random_value(rng, 20);
                const Found f = search(*n.page, key);
                if (f.exact || free_bytes(*n.page) < 3000) continue;
                put(*n.page, f.slot, 0, Slice(key).substr(header(*n.page).prefix), v);
                n.model[key] = {v, false};
            }
            if (n.model.size() < 3) continue;
            const unsigned at = 1 + static_cast<unsigned>(rng.below(n.model.size() - 1));
            const std::string sep(separator(full_key(*n.page, at - 1), full_key(*n.page, at)));
            std::string records;
            RecordWriter{records}.add_range(*n.page, at, count(*n.page),
                                            fence_prefix(sep, fences.high, fences.infinite));
            const payload::Format format{
                8,
                3,
                99,
                0,
                static_cast<uint16_t>(count(*n.page) - at),
                static_cast<uint16_t>(sep.size()),
                fences.infinite ? kInfinite : static_cast<uint16_t>(fences.high.size())};
            auto right_page = std::make_unique<Page>();
            apply_btree_format(*right_page, bytes(payload::bytes_of(format), sep,
                                                  fences.infinite ? "" : fences.high, records));
            const payload::Truncate truncate{static_cast<uint16_t>(at),
                                             static_cast<uint16_t>(sep.size()), 8};
            apply_btree_truncate(*n.page, bytes(payload::bytes_of(truncate), sep, {}));
            ASSERT_EQ(check_node(*n.page), "");
            ASSERT_EQ(check_node(*right_page), "");
            ASSERT_EQ(count(*n.page), at);
            ASSERT_EQ(right(*n.page), PageId{8});
            ASSERT_EQ(right(*right_page), PageId{99});
            unsigned i = 0;
            for (const auto& [key, record] : n.model) {
                const Page& p = i < at ? *n.page : *right_page;
                ASSERT_TRUE(covers(p, key));
                const Found f = search(p, key);
                ASSERT_TRUE(f.exact);
                ASSERT_EQ(value(p, f.slot), record.value);
                ++i;
            }
            const uint16_t gone = 0;
            std::string moved;
            RecordWriter{moved}.add_range(*right_page, 0, count(*right_page),
                                          fence_prefix(fences.low, fences.high, fences.infinite));
            const payload::Absorb absorb{
                1, static_cast<uint16_t>(count(*right_page)),
                fences.infinite ? kInfinite : static_cast<uint16_t>(fences.high.size()), 0, 99};
            apply_btree_absorb(*n.page, bytes(payload::bytes_of(absorb), payload::bytes_of(gone),
                                              fences.infinite ? "" : fences.high, moved));
            n.model.erase(n.model.begin());
            ASSERT_EQ(right(*n.page), PageId{99});
            n.check();
            if (HasFatalFailure()) return;
        }
    }
}

TEST(BTreeNode, InnerNodeFindsTheChildThatCoversAKey) {
    auto page = std::make_unique<Page>();
    Builder::Frame f;
    f.page = PageId{7};
    f.level = 1;
    f.link = PageId{100};
    {
        Builder builder(*page, f);
        for (uint32_t i = 1; i <= 5; ++i)
            builder.append(0, {}, std::string(1, static_cast<char>('a' + 2 * i)),
                           payload::bytes_of(uint32_t{100 + i}));
    }
    ASSERT_EQ(check_node(*page), "");
    EXPECT_EQ(child_at(*page, child_slot(*page, "")), PageId{100});
    EXPECT_EQ(child_at(*page, child_slot(*page, "b")), PageId{100});
    EXPECT_EQ(child_at(*page, child_slot(*page, "c")), PageId{101});
    EXPECT_EQ(child_at(*page, child_slot(*page, "cz")), PageId{101});
    EXPECT_EQ(child_at(*page, child_slot(*page, "zz")), PageId{105});
    EXPECT_EQ(child_at(*page, child_slot_below(*page, Slice("c"))), PageId{100});
    EXPECT_EQ(child_at(*page, child_slot_below(*page, Slice("ca"))), PageId{101});
    const payload::SetChild first{55, payload::kLink, 0}, second{66, 2, 0};
    apply_btree_set_child(*page, payload::bytes_of(first));
    apply_btree_set_child(*page, payload::bytes_of(second));
    EXPECT_EQ(child_at(*page, -1), PageId{55});
    EXPECT_EQ(child_at(*page, 2), PageId{66});
    EXPECT_EQ(check_node(*page), "");
}

TEST(BTreeNode, PutsRightBehindOneAnotherAreARun) {
    Node n("", "", true);
    for (unsigned i = 0; i < 6; ++i) {
        const std::string key = "k" + std::to_string(i);
        const payload::Put p{static_cast<uint16_t>(i), 0, 2, 0};
        apply_btree_put(*n.page, bytes(payload::bytes_of(p), key, {}));
    }
    EXPECT_EQ(header(*n.page).run, 5);
    EXPECT_EQ(header(*n.page).last_put, 5);
    const payload::Put p{0, 0, 1, 0};
    apply_btree_put(*n.page, bytes(payload::bytes_of(p), "a", {}));
    EXPECT_EQ(header(*n.page).run, 0);
}

// BN-3: whatever bytes a page shows to an optimistic reader, it stays inside the page (the
// sanitizer watches the borders).
TEST(BTreeNode, ReadingGarbageStaysInsideThePage) {
    Rng rng(seed_of_run(4711));
    auto page = std::make_unique<Page>();
    char buffer[2 * 1024];
    uint64_t sum = 0;
    for (int i = 0; i < 3000; ++i) {
        auto* words = reinterpret_cast<uint64_t*>(page.get());
        for (size_t w = 0; w < kPageBytes / 8; ++w) words[w] = rng.next();
        if (i % 2) header(*page).count = static_cast<uint16_t>(rng.below(300));
        const std::string key = random_key(rng, "", 30);
        const Found f = search(*page, key);
        sum += f.slot + covers(*page, key) + low(*page).size() + high(*page).size();
        for (unsigned s : {f.slot, 0u, count(*page)}) {
            if (s >= kSlotsMax) continue;
            const Slice v = value(*page, s), k = full_key(*page, s, buffer, sizeof buffer);
            ASSERT_LE(v.data() + v.size(), chars(*page) + kPageBytes);
            ASSERT_LE(k.size(), sizeof buffer);
            sum += child(*page, s).value + key_equals(*page, s, SearchKey(key));
            unsigned near = s;
            bool exact;
            sum += find_near(*page, SearchKey(key), near, exact) ? near + exact : 0;
            for (char c : v) sum += static_cast<uint8_t>(c);
        }
    }
    EXPECT_NE(sum, 0u);
}

// A check that cannot fail proves nothing: damage must be seen.
TEST(BTreeNode, CheckSeesDamage) {
    Node n("a", "b", false);
    put(*n.page, 0, 0, "aa", "one");
    put(*n.page, 1, 0, "ab", "two");
    ASSERT_EQ(check_node(*n.page), "");
    const auto damaged = [&](auto damage) {
        auto copy = std::make_unique<Page>();
        std::memcpy(static_cast<void*>(copy.get()), n.page.get(), kPageBytes);
        damage(*copy);
        return check_node(*copy);
    };
    EXPECT_NE(damaged([](Page& p) { std::swap(slots(p)[0], slots(p)[1]); }), "");
    EXPECT_NE(damaged([](Page& p) { slots(p)[0].head ^= 1; }), "");
    EXPECT_NE(damaged([](Page& p) { slots(p)[0].at = 100; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).garbage = 1; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).ghosts = 1; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).prefix = 1; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).count = 1; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).low_bytes = 0; }), "");
    EXPECT_NE(damaged([](Page& p) { header(p).common[0] = 'x', header(p).common_bytes = 1; }), "");
}

}  // namespace btree_node_test
}  // namespace lockstep::sm
