// labels: model
// predicate_index_test.cc - a predicate index against the conditions one by one; sets of reports.
#include "sm/report/predicate_index.h"

#include "tests/seed_of_run.h"
#include "tests/sm/report/operators_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::sm::report::predicate_index_test {

using namespace in_memory;

// Conditions of `reports` reports on one column. `points`: equalities only.
std::vector<std::vector<Where>> random_conditions(Rng& rng, size_t reports, bool points,
                                                  int64_t range) {
    constexpr Compare kAll[] = {Compare::equal,   Compare::less,     Compare::at_most,
                                Compare::greater, Compare::at_least, Compare::in};
    std::vector<std::vector<Where>> out(reports);
    for (auto& of : out)
        for (uint64_t n = 1 + rng.below(2); n-- > 0;) {
            Where where{"x", points ? Compare::equal : kAll[rng.below(6)], {}};
            for (uint64_t v = where.compare == Compare::in ? rng.below(4) : 1; v-- > 0;)
                where.values.emplace_back(rng.chance(0.02)   ? INT64_MIN
                                          : rng.chance(0.02) ? INT64_MAX
                                                             : rng.between(-range, range));
            of.push_back(std::move(where));
        }
    return out;
}

TEST(PredicateIndex, SaysWhatTheConditionsSay) {
    Rng rng(seed_of_run(1));
    Texts texts;
    for (int round = 0; round < 60; ++round) {
        const size_t reports = 1 + rng.below(150);
        const int64_t range = round % 3 == 0 ? 20 : round % 3 == 1 ? 5000 : INT64_MAX / 4;
        const auto conditions = random_conditions(rng, reports, round % 4 == 0, range);
        IdSets sets(reports);
        std::vector<std::vector<const Where*>> of(reports);
        for (size_t q = 0; q < reports; ++q)
            for (const Where& where : conditions[q]) of[q].push_back(&where);
        auto index = PredicateIndex::make(ValueKind::integer, of, sets, texts);
        ASSERT_TRUE(index);
        Lane lane;
        for (int i = 0; i < 300; ++i) lane.add(rng.between(-range - 2, range + 2), rng.chance(.1));
        lane.add(INT64_MIN, false);
        lane.add(INT64_MAX, false);
        for (const auto& all : conditions)
            if (!all[0].values.empty())
                lane.add(static_cast<int64_t>(all[0].values[0].bits()), false);
        std::vector<uint32_t> ids(lane.values.size(), IdSets::kAll);
        index->narrow(lane, sets, ids);
        for (size_t i = 0; i < ids.size(); ++i) {
            std::vector<bool> wanted(reports);
            sets.each(ids[i], [&](uint32_t id) { wanted[id] = true; });
            for (size_t q = 0; q < reports; ++q)
                ASSERT_EQ(wanted[q], std::ranges::all_of(conditions[q],
                                                         [&](const Where& w) {
                                                             return !lane.is_null(i) &&
                                                                    meets(lane.values[i], w);
                                                         }))
                    << "value " << lane.values[i] << ", report " << q;
        }
    }
}

TEST(PredicateIndex, TextsAndReals) {
    Texts texts;
    IdSets sets(4);
    const Where from{"t", Compare::at_least, {"b"}}, below{"t", Compare::less, {"c"}},
        begin{"t", Compare::prefix, {"bc"}}, some{"t", Compare::in, {"a", "z"}};
    const std::vector<std::vector<const Where*>> of = {{&from, &below}, {&begin}, {&some}, {}};
    auto index = PredicateIndex::make(ValueKind::text, of, sets, texts);
    ASSERT_TRUE(index);
    Lane lane;
    for (const char* text : {"a", "b", "bcd", "c", ""}) lane.add(texts.number(text), false);
    std::vector<uint32_t> ids(5, IdSets::kAll);
    index->narrow(lane, sets, ids);
    const auto list = [&](uint32_t set) {
        std::vector<uint32_t> out;
        sets.each(set, [&](uint32_t id) { out.push_back(id); });
        return out;
    };
    EXPECT_EQ(list(ids[0]), (std::vector<uint32_t>{2, 3}));
    EXPECT_EQ(list(ids[1]), (std::vector<uint32_t>{0, 3}));
    EXPECT_EQ(list(ids[2]), (std::vector<uint32_t>{0, 1, 3}));
    EXPECT_EQ(list(ids[3]), (std::vector<uint32_t>{3}));

    const Where real{"r", Compare::greater, {-0.5}}, whole{"r", Compare::at_most, {2}};
    const std::vector<std::vector<const Where*>> of_reals = {{&real}, {&whole}, {}, {&real}};
    auto reals = PredicateIndex::make(ValueKind::real, of_reals, sets, texts);
    ASSERT_TRUE(reals);
    Lane numbers;
    for (const double value : {-1e300, -0.5, -0.0, 2.0, 2.5}) numbers.add(real_code(value), false);
    ids.assign(5, IdSets::kAll);
    reals->narrow(numbers, sets, ids);
    EXPECT_EQ(list(ids[0]), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(list(ids[1]), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(ids[2], IdSets::kAll);
    EXPECT_EQ(ids[3], IdSets::kAll);
    EXPECT_EQ(list(ids[4]), (std::vector<uint32_t>{0, 2, 3}));
    for (const double value : {-1e300, -1.0, -1e-300, 0.0, 1e-300, 3.5})
        EXPECT_EQ(real_of(real_code(value)), value);
}

TEST(PredicateIndex, RefusesWhatDoesNotFit) {
    Texts texts;
    IdSets sets(1);
    const Where cases[] = {{"x", Compare::prefix, {"a"}},
                           {"x", Compare::equal, {"a"}},
                           {"x", Compare::equal, {1.5}},
                           {"x", Compare::equal, {}},
                           {"x", Compare::less, {1, 2}}};
    for (const Where& where : cases) {
        const std::vector<std::vector<const Where*>> of = {{&where}};
        EXPECT_FALSE(PredicateIndex::make(ValueKind::integer, of, sets, texts));
    }
    const Where number{"x", Compare::equal, {1}};
    const std::vector<std::vector<const Where*>> of = {{&number}};
    EXPECT_FALSE(PredicateIndex::make(ValueKind::text, of, sets, texts));
}

// IS-1, and operations against std::set.
TEST(IdSets, OperateAsSets) {
    Rng rng(seed_of_run(1));
    for (const size_t reports : {1, 63, 64, 65, 200}) {
        IdSets sets(reports);
        std::map<uint32_t, std::set<uint32_t>> known = {{IdSets::kEmpty, {}}};
        for (uint32_t id = 0; id < reports; ++id) known[IdSets::kAll].insert(id);
        const auto check = [&](uint32_t number, const std::set<uint32_t>& expected) {
            std::set<uint32_t> ids;
            sets.each(number, [&](uint32_t id) { ids.insert(id); });
            ASSERT_EQ(ids, expected);
            const auto [at, fresh] = known.emplace(number, expected);
            ASSERT_EQ(at->second, expected);
            for (const auto& [other, set] : known) ASSERT_EQ(other == number, set == expected);
        };
        for (int round = 0; round < 150; ++round) {
            std::vector<uint64_t> bits(sets.words());
            std::set<uint32_t> drawn;
            for (uint32_t id = 0; id < reports; ++id)
                if (rng.chance(0.3)) drawn.insert(id), bits[id / 64] |= 1ull << id % 64;
            check(sets.number(bits), drawn);
            const auto a = *std::next(known.begin(), static_cast<long>(rng.below(known.size()))),
                       b = *std::next(known.begin(), static_cast<long>(rng.below(known.size())));
            std::set<uint32_t> both, either = a.second, without = a.second;
            for (const uint32_t id : b.second) {
                if (a.second.contains(id)) both.insert(id);
                either.insert(id);
                without.erase(id);
            }
            check(sets.both(a.first, b.first), both);
            check(sets.either(a.first, b.first), either);
            check(sets.without(a.first, b.first), without);
        }
    }
}

}  // namespace lockstep::sm::report::predicate_index_test
