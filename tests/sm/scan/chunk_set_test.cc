// labels: model
// chunk_set_test.cc - sets of chunks and counts over them against std::set and plain counters.
#include "sm/scan/chunk_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sm/scan/tally.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::scan::chunk_set_test {

size_t next_in(const std::set<size_t>& set, size_t from, size_t chunks) {
    if (set.empty()) return chunks;
    const auto at = set.lower_bound(from);
    return at != set.end() ? *at : *set.begin();
}

TEST(ChunkSet, IsASet) {
    Rng rng(seed_of_run());
    for (const size_t chunks : {1u, 2u, 63u, 64u, 65u, 128u, 300u}) {
        ChunkSet one(chunks), other(chunks);
        std::set<size_t> ones, others, difference;
        for (int step = 0; step < 300; ++step) {
            const size_t chunk = rng.below(chunks);
            if (rng.chance(0.5)) one.add(chunk), ones.insert(chunk);
            else one.remove(chunk), ones.erase(chunk);
            const size_t second = rng.below(chunks);
            if (rng.chance(0.5)) other.add(second), others.insert(second);
            else other.remove(second), others.erase(second);
            ASSERT_EQ(one.count(), ones.size());
            ASSERT_EQ(one.empty(), ones.empty());
            ASSERT_EQ(one.has(chunk), ones.contains(chunk));
            difference.clear();
            std::ranges::copy_if(ones, std::inserter(difference, difference.end()),
                                 [&](size_t member) { return !others.contains(member); });
            ASSERT_EQ(one.common(other), ones.size() - difference.size());
            const size_t from = rng.below(chunks + 1);
            ASSERT_EQ(one.next(from), next_in(ones, from, chunks)) << chunks << " from " << from;
            ASSERT_EQ(one.next_not_in(other, from), next_in(difference, from, chunks));
        }
    }
}

TEST(Tally, CountsEachBit) {
    Rng rng(seed_of_run());
    for (int round = 0; round < 200; ++round) {
        Tally tally;
        std::array<uint64_t, 64> counts{};
        for (uint64_t sets = rng.below(40); sets > 0; --sets) {
            const uint64_t set = rng.next() & rng.next();
            tally.add(set);
            for (unsigned bit = 0; bit < 64; ++bit) counts[bit] += set >> bit & 1;
        }
        const uint64_t among = rng.next() & rng.next() & rng.next();
        uint64_t most = 0, least = ~uint64_t{0}, at_most = 0, at_least = 0;
        for (unsigned bit = 0; bit < 64; ++bit) {
            ASSERT_EQ(tally.at(bit), counts[bit]);
            if ((among >> bit & 1) == 0) continue;
            most = std::max(most, counts[bit]);
            least = std::min(least, counts[bit]);
        }
        for (unsigned bit = 0; bit < 64; ++bit) {
            const uint64_t here = among & uint64_t{1} << bit;
            at_most |= counts[bit] == most ? here : 0;
            at_least |= counts[bit] == least ? here : 0;
        }
        if (among == 0) continue;
        ASSERT_EQ(tally.most(among), at_most);
        ASSERT_EQ(tally.least(among), at_least);
    }
}

}  // namespace lockstep::sm::scan::chunk_set_test
