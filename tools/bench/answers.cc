// answers.cc - many reports of one type as one, against one of them and against one by one; light
// reports beside heavy ones.
//
// Concepts   Each report sums ORDER_LINE by the number of the line, for a window of the items that
//            it draws: 1%, or half of them. Costs are CPU time of the process, and variants
//            alternate. A light report fetches one item by its key. Clients ask for it at fixed
//            times, whatever the answers take. These too are CPU time, which endless heavy reports
//            beside them make pass as the worker's own time.
#include <lockstep/plan.h>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "threads/base/try.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kItems = 100'000, kNarrow = kItems / 100, kWide = kItems / 2;
constexpr size_t kMany = 1024;

Plan draw_plan(Rng& rng, int64_t window) {
    const int64_t from = rng.between(1, kItems - window + 1);
    return Plan::scan("order_line", {"ol_number", "ol_amount"},
                      {{"ol_i_id", Compare::at_least, {from}},
                       {"ol_i_id", Compare::less, {from + window}}})
        .group({"ol_number"},
               {Aggregate::sum(col("ol_amount"), "amount"), Aggregate::count("lines")})
        .order({{"ol_number"}});
}

// CPU time in nanoseconds; checksums of the answers into `sums`.
Result<double> cost_of(Store& store, std::span<const Plan> plans, const AnswerOptions& options,
                       std::vector<int64_t>& sums) {
    lockstep::Report report = TRY(store.report());
    const Nanos began = cpu_time();
    const std::vector<Rows> answers = TRY(report.answer(plans, options));
    const auto cost = static_cast<double>(cpu_time() - began);
    sums.clear();
    for (const Rows& rows : answers) {
        int64_t& sum = sums.emplace_back();
        for (size_t row = 0; row < rows.rows(); ++row)
            sum = 31 * sum + rows.integer(row, 1) + rows.integer(row, 2);
    }
    return cost;
}

constexpr AnswerOptions kAsOne = {.sharing = Sharing::cycle, .together_min = 2},
                        kApart = {.sharing = Sharing::pipeline};
constexpr int kRounds = 5;

std::vector<Plan> draw_plans(size_t count, int64_t window) {
    Rng rng(1);
    std::vector<Plan> out;
    while (out.size() < count) out.push_back(draw_plan(rng, window));
    return out;
}

Result<void> many_as_one(Store& store, Report& out) {
    const std::vector<Plan> plans = draw_plans(kMany, kNarrow);
    const std::span<const Plan> all(plans);
    std::vector<int64_t> sums;
    std::vector<double> many, one;
    TRY(cost_of(store, all.first(1), kApart, sums));  // warms up
    for (int round = 0; round < 3 * kRounds; ++round) {
        one.push_back(
            TRY(cost_of(store, all.subspan(static_cast<size_t>(round), 1), kApart, sums)));
        many.push_back(TRY(cost_of(store, all, kAsOne, sums)));
    }
    out.measurement(fmt::format("{} reports of a type as one : one, CPU", kMany),
                    median(many) / median(one), "", "<= 5");
    return {};
}

// From how many reports on it is cheaper to run them as one.
Result<void> crossover(Store& store, int64_t window, Report& out) {
    const std::vector<Plan> plans = draw_plans(64, window);
    const std::span<const Plan> all(plans);
    std::vector<int64_t> together, apart;
    bool equal = true;
    for (const size_t count : {2, 4, 8, 16, 64}) {
        std::vector<double> ratios;
        for (int round = 0; round < kRounds; ++round) {
            const double as_one = TRY(cost_of(store, all.first(count), kAsOne, together));
            ratios.push_back(as_one / TRY(cost_of(store, all.first(count), kApart, apart)));
            equal &= together == apart;
        }
        out.measurement(fmt::format("{} reports of {}% of the items as one : one by one, CPU",
                                    count, 100 * window / kItems),
                        median(ratios), "", count >= 16 ? "<= 1" : "");
    }
    out.claim("answers are equal as one and one by one", equal);
    return {};
}

constexpr uint64_t kLightRate = 400, kLightClients = 64;
constexpr Nanos kWarmUp = kSecond / 2;

// One of the clients that fetch kLightRate items a second together, from `from` to `end`. How many
// it got after the first half a second.
Result<uint64_t> fetch_items(Store& store, uint64_t client, Nanos from, Nanos end) {
    constexpr Nanos kStep = kSecond / kLightRate, kPause = kStep * kLightClients;
    constexpr AnswerOptions kOptions = {.sharing = Sharing::cycle, .together_min = 2};
    Rng rng(client + 1);
    uint64_t got = 0;
    for (Nanos at = from + kStep * client; at < end; at += kPause) {
        while (cpu_time() < at) sleep_for(kMillisecond);
        lockstep::Report report = TRY(store.report({.max_age = kSecond}));
        const Rows rows = TRY(report.answer(
            Plan::scan("item", {"i_price"}, {{"i_id", Compare::equal, {rng.between(1, kItems)}}}),
            kOptions));
        if (rows.rows() != 1) return fail(ErrorCode::corrupt_page, "item");
        const Nanos now = cpu_time();
        got += now >= from + kWarmUp && now < end;
    }
    return got;
}

// Joins all lines with their items until `stop`; how often.
Result<uint64_t> join_lines(Store& store, const std::atomic<bool>& stop) {
    const Plan plan =
        Plan::scan("order_line", {"ol_i_id", "ol_number", "ol_quantity"})
            .join(Plan::scan("item", {"i_id", "i_price"}), {{"ol_i_id", "i_id"}})
            .group({"ol_number"}, {Aggregate::sum(col("ol_quantity") * col("i_price"), "worth")});
    uint64_t done = 0;
    for (; !stop.load(); ++done) {
        lockstep::Report report = TRY(store.report({.max_age = kSecond}));
        TRY(report.answer(plan, {.sharing = Sharing::none}));
    }
    return done;
}

// The share of the light reports that are answered in time, beside heavy ones.
Result<void> light_beside_heavy(Store& store, double seconds, Report& out) {
    constexpr size_t kHeavy = 4;
    std::atomic<bool> stop{false};
    std::vector<Handle<uint64_t>> light, joins;
    for (size_t i = 0; i < kHeavy; ++i)
        joins.push_back(store.start([&] { return join_lines(store, stop); }));
    const Nanos from = cpu_time() + kSecond / 5;
    const Nanos end = from + kWarmUp + static_cast<Nanos>(seconds * static_cast<double>(kSecond));
    for (uint64_t client = 0; client < kLightClients; ++client)
        light.push_back(store.start(
            [&store, client, from, end] { return fetch_items(store, client, from, end); }));
    uint64_t got = 0, joined = 0;
    for (auto& handle : light) got += TRY(handle.join());
    stop.store(true);
    for (auto& handle : joins) joined += TRY(handle.join());
    out.note(fmt::format("{} heavy reports ended meanwhile", joined));
    out.measurement("light fetches kept beside heavy reports",
                    static_cast<double>(got) / (seconds * static_cast<double>(kLightRate)), "",
                    ">= 0.95");
    return {};
}

}  // namespace

Result<void> bench_answers(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 2;
    Store store = TRY(Store::open(settings.directory + "/answers",
                                  {.workers = settings.workers,
                                   .pool_bytes = (warehouses * 160ull + 1024) << 20,
                                   .log_bytes = 8ull << 30}));
    tpcc::LoadProgress progress;
    TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    TRY(store.checkpoint());
    TRY(many_as_one(store, report));
    for (const int64_t window : {kNarrow, kWide}) TRY(crossover(store, window, report));
    TRY(light_beside_heavy(store, settings.seconds, report));
    return store.close();
}

}  // namespace lockstep::bench
