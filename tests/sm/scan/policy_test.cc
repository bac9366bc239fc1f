// labels: model perf
// policy_test.cc - each choice of each policy against a slow reference, and whole runs: each scan
// has each chunk once, nobody starves, and nothing in use is evicted.
#include "sm/scan/policy.h"

#include <gtest/gtest.h>

#include "tests/seed_of_run.h"
#include "tools/bench/scan_machine.h"

namespace lockstep::sm::scan::policy_test {

using bench::ScanMachine;
using bench::ScanModel;
using bench::ScanQuery;
using bench::ScanResult;

// A pass at random, with what its views point to.
struct RandomPass {
    RandomPass(Rng& rng, size_t chunks, size_t scans)
        : pinned(chunks), needs(scans, ChunkSet(chunks)), there(scans, ChunkSet(chunks)) {
        const size_t columns = 1 + rng.below(4);
        for (size_t c = 0; c < columns; ++c) {
            pages.push_back(1 + static_cast<uint32_t>(rng.below(5)));
            loaded.emplace_back(chunks);
        }
        const double fill = rng.chance(0.5) ? 0.1 : 0.6;
        if (rng.chance(0.3)) numbers = 3;
        for (size_t chunk = 0; chunk < chunks; ++chunk) {
            used.push_back(rng.below(std::min<uint64_t>(numbers, 1000)));
            for (ChunkSet& column : loaded)
                if (rng.chance(fill)) column.add(chunk);
            if (rng.chance(0.1)) pinned.add(chunk);
        }
        for (size_t i = 0; i < scans; ++i) add_scan(rng, i);
        view = {.chunks = chunks,
                .cursor = rng.below(chunks),
                .scans = this->scans,
                .there = loaded,
                .column_pages = pages,
                .pinned = &pinned,
                .used = used};
    }
    RandomPass(const RandomPass&) = delete;

    void add_scan(Rng& rng, size_t i) {
        const size_t chunks = pinned.chunks();
        const auto columns =
            static_cast<uint32_t>(1 + rng.below((uint64_t{1} << loaded.size()) - 1));
        needs[i].add(rng.below(chunks));
        const double share = rng.chance(0.3) ? 0.05 : 0.6;
        for (size_t chunk = 0; chunk < chunks; ++chunk) {
            if (rng.chance(share)) needs[i].add(chunk);
            bool complete = needs[i].has(chunk);
            for (size_t c = 0; c < loaded.size(); ++c)
                complete &= (columns >> c & 1) == 0 || loaded[c].has(chunk);
            if (complete) there[i].add(chunk);
        }
        scans.push_back({.needs = &needs[i],
                         .there = &there[i],
                         .left = needs[i].count(),
                         .ready = there[i].count() + (rng.chance(0.2) ? 1 : 0),
                         .columns = columns,
                         .batch = static_cast<uint32_t>(rng.below(2)),
                         .begin = rng.below(chunks),
                         .served = rng.below(numbers),
                         .waited = rng.below(std::min<uint64_t>(numbers, 2000)),
                         .takes = rng.chance(0.9)});
    }

    uint64_t numbers = 1'000'000;  // few: then some are equal
    std::vector<ChunkSet> loaded;
    ChunkSet pinned;
    std::vector<ChunkSet> needs, there;
    std::vector<uint32_t> pages;
    std::vector<uint64_t> used;
    std::vector<ScanView> scans;
    PassView view;
};

// The slow reference: chunk by chunk, scan by scan, as the papers say it.
class Reference {
public:
    explicit Reference(const PassView& view) : v_(view) {}

    // The chunks that the scan needs, in the order from `from` on.
    std::vector<size_t> order(const ScanView& scan, size_t from, bool only_missing) const {
        std::vector<size_t> out;
        for (size_t i = 0; i < v_.chunks; ++i) {
            const size_t chunk = (from + i) % v_.chunks;
            if (!scan.needs->has(chunk)) continue;
            if (!only_missing || !scan.there->has(chunk)) out.push_back(chunk);
        }
        return out;
    }
    // The place in its own order of the chunk that must be read for it; none: it has the next two.
    std::optional<size_t> own_gap(const ScanView& scan) const {
        const auto own = order(scan, scan.begin, false);
        for (size_t i = 0; i < std::min<size_t>(2, own.size()); ++i)
            if (!scan.there->has(own[i])) return i;
        return {};
    }
    bool wants(const ScanView& scan, size_t chunk, uint32_t columns) const {
        return scan.needs->has(chunk) && (scan.columns & columns) != 0;
    }
    uint32_t missing(size_t chunk, uint32_t columns) const {
        uint32_t out = 0;
        for (size_t c = 0; c < v_.there.size(); ++c)
            if ((columns >> c & 1) != 0 && !v_.there[c].has(chunk)) out |= 1u << c;
        return out;
    }
    uint64_t pages(uint32_t columns) const {
        uint64_t sum = 0;
        for (size_t c = 0; c < v_.there.size(); ++c)
            if ((columns >> c & 1) != 0) sum += v_.column_pages[c];
        return sum;
    }
    uint64_t load_score(const ScanView& scan, size_t chunk) const {
        uint64_t score = 0;
        for (const ScanView& other : v_.scans)
            if (wants(other, chunk, scan.columns))
                score += 1 + (other.ready < 2 ? v_.scans.size() + 1 : 0);
        return score;
    }
    uint64_t keep_score(size_t chunk, uint32_t column) const {
        uint64_t score = 0;
        for (const ScanView& other : v_.scans) {
            if (!wants(other, chunk, column)) continue;
            const bool loses = other.ready <= 2 && other.there->has(chunk);
            score += 1 + (loses ? v_.scans.size() + 1 : 0);
        }
        return score;
    }
    bool evictable(size_t chunk, uint32_t columns, const Place& load) const {
        return !v_.pinned->has(chunk) && chunk != load.chunk && missing(chunk, columns) == 0;
    }

private:
    const PassView& v_;
};

const ScanView* reference_whom(std::string_view policy, const PassView& v) {
    const Reference r(v);
    const ScanView* best = nullptr;
    double best_score = 0;
    for (const ScanView& scan : v.scans) {
        const auto missing = r.order(scan, v.cursor, true);
        if (!scan.takes || missing.empty()) continue;
        double score = 0;
        if (policy == "relevance") {
            if (scan.ready >= 2) continue;
            score = static_cast<double>(scan.waited) -
                    static_cast<double>(scan.left) * static_cast<double>(v.scans.size());
        } else if (policy == "normal" || policy == "attach" || policy == "naive") {
            const auto gap = r.own_gap(scan);
            if (!gap) continue;
            if (policy == "naive") return &scan;
            score = -static_cast<double>(scan.served) - (*gap != 0 ? 1e9 : 0);
        } else {
            score = -static_cast<double>((missing[0] + v.chunks - v.cursor) % v.chunks);
        }
        if (best != nullptr && score <= best_score) continue;
        best = &scan;
        best_score = score;
    }
    return best;
}

void expect_load(std::string_view policy, const PassView& v, const ScanView& scan,
                 const Place& got) {
    const Reference r(v);
    ASSERT_TRUE(scan.needs->has(got.chunk) && !scan.there->has(got.chunk));
    if (policy == "relevance") {
        ASSERT_EQ(got.columns, r.missing(got.chunk, scan.columns));
        ASSERT_EQ(got.score, r.load_score(scan, got.chunk));
        for (const size_t chunk : r.order(scan, 0, true))
            ASSERT_GE(got.score * r.pages(r.missing(chunk, scan.columns)),
                      r.load_score(scan, chunk) * r.pages(got.columns));
    } else if (policy == "normal" || policy == "attach" || policy == "naive") {
        ASSERT_EQ(got.columns, r.missing(got.chunk, scan.columns));
        const auto gap = r.own_gap(scan);
        ASSERT_EQ(got.chunk, gap ? r.order(scan, scan.begin, false)[*gap]
                                 : r.order(scan, scan.begin, true)[0]);
    } else {
        ASSERT_EQ(got.chunk, r.order(scan, v.cursor, true)[0]);
        uint32_t columns = 0;
        for (const ScanView& other : v.scans)
            if (other.batch == scan.batch && other.needs->has(got.chunk)) columns |= other.columns;
        ASSERT_EQ(got.columns, r.missing(got.chunk, columns));
    }
}

void expect_use(std::string_view policy, const PassView& v, const ScanView& scan,
                std::optional<size_t> got) {
    const Reference r(v);
    ASSERT_TRUE(!got || scan.there->has(*got));
    const auto own = r.order(scan, scan.begin, false);
    if (policy == "normal" || policy == "attach" || policy == "naive") {
        ASSERT_EQ(got.has_value(), scan.there->has(own[0]));
        ASSERT_EQ(got.value_or(own[0]), own[0]);
        return;
    }
    ASSERT_EQ(got.has_value(), !scan.there->empty());
    if (!got) return;
    const auto behind = [&](size_t chunk) { return (chunk + v.chunks - v.cursor) % v.chunks; };
    const auto interested = [&](size_t chunk) {
        return std::ranges::count_if(
            v.scans, [&](const ScanView& other) { return r.wants(other, chunk, scan.columns); });
    };
    for (size_t chunk = 0; chunk < v.chunks; ++chunk) {
        if (!scan.there->has(chunk)) continue;
        if (policy == "relevance") {
            ASSERT_LE(interested(*got), interested(chunk));
        } else {
            ASSERT_LE(behind(*got), behind(chunk));
        }
    }
}

void expect_evict(std::string_view policy, const PassView& v, const Place& load,
                  const std::optional<Place>& got) {
    const Reference r(v);
    ASSERT_TRUE(!got || r.evictable(got->chunk, got->columns, load));
    for (size_t chunk = 0; chunk < v.chunks; ++chunk)
        for (uint32_t c = 0; c < v.there.size(); ++c) {
            if (!r.evictable(chunk, 1u << c, load)) continue;
            if (policy == "relevance") {
                const uint64_t score = r.keep_score(chunk, 1u << c);
                ASSERT_LE(got ? r.keep_score(got->chunk, got->columns) : load.score, score);
            } else if (policy == "elevator") {
                const auto loses = [&](size_t at, uint32_t columns) {
                    return std::ranges::any_of(v.scans, [&](const ScanView& scan) {
                        return (scan.columns & columns) != 0 && scan.there->has(at);
                    });
                };
                ASSERT_TRUE(got ? !loses(got->chunk, got->columns) : loses(chunk, 1u << c));
            } else {
                ASSERT_TRUE(got);
                ASSERT_LE(v.used[got->chunk], v.used[chunk]);
                ASSERT_EQ(r.missing(got->chunk, got->columns), 0u);
            }
        }
    ASSERT_TRUE(!got || policy != "relevance" ||
                r.keep_score(got->chunk, got->columns) < load.score);
}

class EachPolicy : public testing::TestWithParam<const Policy*> {};

TEST_P(EachPolicy, ChoosesAsTheReference) {
    const Policy& policy = *GetParam();
    const uint64_t seed = seed_of_run();
    for (uint64_t round = 0; round < 400; ++round) {
        SCOPED_TRACE(round);
        Rng rng(seed + round);
        constexpr std::array<size_t, 6> kChunks = {1, 7, 63, 64, 65, 150};
        RandomPass pass(rng, kChunks[round % kChunks.size()], 1 + rng.below(12));
        const PassView& v = pass.view;
        ASSERT_EQ(policy.whom(v), reference_whom(policy.name, v));
        for (const ScanView& scan : v.scans) {
            expect_use(policy.name, v, scan, policy.use(v, scan));
            if (scan.left == scan.there->count()) continue;
            const Place load = policy.load(v, scan);
            expect_load(policy.name, v, scan, load);
            if (HasFatalFailure()) return;
            expect_evict(policy.name, v, load, policy.evict(v, load));
            if (HasFatalFailure()) return;
        }
    }
}

ScanMachine::Streams random_streams(Rng& rng, const ScanModel& model, size_t streams) {
    ScanMachine::Streams out(streams);
    for (auto& stream : out)
        for (size_t i = 0; i < 4; ++i) {
            const size_t count = 1 + rng.below(rng.chance(0.3) ? model.chunks : 4);
            stream.push_back({.kind = "any",
                              .first = rng.below(model.chunks - std::min(count, model.chunks) + 1),
                              .count = std::min(count, model.chunks),
                              .cost = rng.chance(0.5) ? 0.1 : 1.5,
                              .columns = static_cast<uint32_t>(
                                  1 + rng.below((uint64_t{1} << model.column_pages.size()) - 1)),
                              .cache_bytes = rng.below(60)});
        }
    return out;
}

// The machine checks that each scan has each of its chunks once and whole, that nothing in use is
// evicted, and that it never stands still (scan_machine.h).
TEST_P(EachPolicy, RunsAnyStreams) {
    const uint64_t seed = seed_of_run();
    for (uint64_t round = 0; round < 60; ++round) {
        SCOPED_TRACE(round);
        Rng rng(seed + round);
        ScanModel model{
            .chunks = 1 + rng.below(100), .cores = round % 2 == 0 ? 1u : 2u, .seed = seed};
        for (uint64_t more = rng.below(4); more > 0; --more)
            model.column_pages.push_back(1 + static_cast<uint32_t>(rng.below(4)));
        const auto pages = static_cast<uint64_t>(model.time_of(~0u));
        model.pool_pages = pages * (1 + model.cores + rng.below(10));
        model.stream_delay = static_cast<double>(rng.below(5));
        model.admission = {.scans_max = 2, .cache_bytes = 100, .wait_max = 20};
        const ScanMachine::Streams streams = random_streams(rng, model, 1 + rng.below(9));
        uint64_t chunks = 0;
        for (const auto& stream : streams)
            for (const ScanQuery& query : stream) chunks += query.count;
        const ScanResult result = ScanMachine(*GetParam(), model, streams).run();
        ASSERT_EQ(result.uses, chunks);
        ASSERT_EQ(result.kinds.at("any").second, 4 * streams.size());
    }
}

std::string name_of(const testing::TestParamInfo<const Policy*>& info) {
    std::string out(info.param->name);
    std::ranges::replace(out, '-', '_');
    return out;
}
std::vector<const Policy*> all_policies() {
    std::vector<const Policy*> out;
    for (const Policy& policy : kPolicies) out.push_back(&policy);
    return out;
}
INSTANTIATE_TEST_SUITE_P(Policies, EachPolicy, testing::ValuesIn(all_policies()), name_of);

TEST(Policies, AreFoundByName) {
    for (const Policy& policy : kPolicies) EXPECT_EQ(find_policy(policy.name), &policy);
    EXPECT_EQ(policy_of(ScanPolicy::normal).name, "normal");
    EXPECT_EQ(policy_of(ScanPolicy::relevance).name, "relevance");
    EXPECT_EQ(policy_of(ScanPolicy::full).name, "full");
    EXPECT_EQ(find_policy("best"), nullptr);
}

// A long scan of the table's first half among many short ones of the other half. Without its
// waiting all of these would go first.
constexpr size_t kHalf = 64;
ScanResult long_among_short(ScanPolicy policy) {
    const ScanModel model{.chunks = 2 * kHalf, .pool_pages = 8, .stream_delay = 0};
    Rng rng(seed_of_run());
    ScanMachine::Streams streams(9);
    for (size_t i = 1; i < streams.size(); ++i)
        for (int query = 0; query < 400; ++query)
            streams[i].push_back(
                {.kind = "short", .first = kHalf + rng.below(kHalf), .count = 1, .cost = 0.1});
    streams[0].push_back({.kind = "long", .count = kHalf, .cost = 0.1});
    return ScanMachine(policy_of(policy), model, streams).run();
}

TEST(Policies, RelevanceLetsNobodyStarve) {
    constexpr size_t kScans = 9;
    const ScanResult result = long_among_short(ScanPolicy::relevance);
    // A scan that has waited for `left` times as many loads as there are scans goes before each new
    // one, and each older one goes before it once at most.
    EXPECT_LE(result.longest_wait, kScans * (kHalf + 1));
    EXPECT_GT(result.longest_wait, kScans);  // short ones do go first
}

TEST(Policies, TheElevatorComesRound) {
    EXPECT_LE(long_among_short(ScanPolicy::elevator).longest_wait, 2 * kHalf);
}

TEST(Policies, NormalServesInTurn) {
    EXPECT_LE(long_among_short(ScanPolicy::normal).longest_wait, 9u);
}

// As the paper's table: [CS].
TEST(Policies, ThePapersOrder) {
    const ScanModel model;
    std::map<std::string_view, ScanResult> of;
    const std::array<uint32_t, 1> columns = {1};
    for (const char* const name : {"normal", "attach", "elevator", "relevance"})
        of[name] = ScanMachine(*find_policy(name), model,
                               bench::paper_streams(model, 0.2, 0.7, columns, 1))
                       .run();
    EXPECT_LT(of["relevance"].latency, of["attach"].latency);
    EXPECT_LT(of["attach"].latency, of["normal"].latency);
    EXPECT_LT(of["normal"].latency, of["elevator"].latency);
    EXPECT_LT(of["elevator"].pages, of["attach"].pages);
    EXPECT_LT(of["relevance"].pages, of["attach"].pages);
    EXPECT_LT(of["attach"].pages, of["normal"].pages);
}

// A scan that comes while others run.
struct Arrival {
    static constexpr size_t kChunks = 20;
    Arrival() {
        for (size_t chunk = 0; chunk < kChunks; ++chunk) whole.add(chunk);
        for (size_t chunk = 7; chunk < 20; ++chunk) far.add(chunk);
        for (size_t chunk = 3; chunk < 5; ++chunk) near.add(chunk);
    }
    std::array<Waiting, 2> admitted(const char* policy, std::span<const ScanView> scans) const {
        std::array<Waiting, 2> out;
        out[0].needs = out[1].needs = &whole;
        find_policy(policy)->admit({.chunks = kChunks, .scans = scans},
                                   {.next_batch = 3, .scans_max = 2}, out);
        return out;
    }
    ChunkSet whole{kChunks}, far{kChunks}, near{kChunks}, none{kChunks};
    std::array<ScanView, 2> running = {
        {{.needs = &near, .there = &none, .left = 2}, {.needs = &far, .there = &none, .left = 13}}};
};

TEST(Policies, AttachBeginsWhereMostIsShared) {
    const Arrival arrival;
    EXPECT_EQ(arrival.admitted("attach", arrival.running)[0].begin, 7u);
    EXPECT_EQ(arrival.admitted("normal", arrival.running)[0].begin, 0u);
    // Alone in its batch: each reads for itself.
    EXPECT_EQ(arrival.admitted("attach", arrival.running)[1].batch, 4u);
}

TEST(Policies, WhenAScanBegins) {
    const Arrival arrival;
    const std::span<const ScanView> running(arrival.running);
    const auto begun = [&](const char* policy, size_t others) {
        size_t out = 0;
        for (const Waiting& scan : arrival.admitted(policy, running.first(others)))
            out += scan.batch != kNoBatch;
        return out;
    };
    EXPECT_EQ(begun("full", 2), 2u);
    EXPECT_EQ(begun("full-n", 2), 0u);
    EXPECT_EQ(begun("full-n", 1), 1u);
    EXPECT_EQ(begun("full-n", 0), 2u);
    EXPECT_EQ(begun("cycle", 1), 0u);
    EXPECT_EQ(begun("cycle", 0), 2u);
}

}  // namespace lockstep::sm::scan::policy_test
