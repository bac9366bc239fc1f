// answers.cc - many reports of one type as one, against one of them and against one by one.
//
// Concepts   Each report sums ORDER_LINE by the number of the line, for a window of 1% of the items
//            that it draws. Costs are CPU time of the process, and variants alternate.
#include <lockstep/plan.h>

#include <fmt/core.h>

#include <algorithm>

#include "threads/base/try.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kItems = 100'000, kWindow = kItems / 100;
constexpr size_t kMany = 1024;

Plan draw_plan(Rng& rng) {
    const int64_t from = rng.between(1, kItems - kWindow + 1);
    return Plan::scan("order_line", {"ol_number", "ol_amount"},
                      {{"ol_i_id", Compare::at_least, {from}},
                       {"ol_i_id", Compare::less, {from + kWindow}}})
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

Result<void> compare(Store& store, Report& out) {
    constexpr AnswerOptions kAsOne = {.sharing = Sharing::cycle, .together_min = 2},
                            kApart = {.sharing = Sharing::pipeline};
    constexpr int kRounds = 5;
    Rng rng(1);
    std::vector<Plan> plans;
    for (size_t i = 0; i < kMany; ++i) plans.push_back(draw_plan(rng));
    const std::span<const Plan> all(plans);
    std::vector<int64_t> sums, apart;
    std::vector<double> many, one;
    TRY(cost_of(store, all.first(1), kApart, sums));  // warms up
    for (int round = 0; round < kRounds; ++round) {
        one.push_back(
            TRY(cost_of(store, all.subspan(static_cast<size_t>(round), 1), kApart, sums)));
        many.push_back(TRY(cost_of(store, all, kAsOne, sums)));
    }
    out.measurement(fmt::format("{} reports of a type as one : one, CPU", kMany),
                    median(many) / median(one), "", "<= 5");
    for (const size_t count : {2, 4, 8, 16, 64, 256}) {
        std::vector<double> ratios;
        bool equal = true;
        for (int round = 0; round < kRounds; ++round) {
            const double together = TRY(cost_of(store, all.first(count), kAsOne, sums));
            ratios.push_back(together / TRY(cost_of(store, all.first(count), kApart, apart)));
            equal &= sums == apart;
        }
        out.claim(fmt::format("{} reports: equal answers", count), equal);
        out.measurement(fmt::format("{} reports as one : one by one, CPU", count), median(ratios),
                        "", count >= 16 ? "<= 1" : "");
    }
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
    TRY(compare(store, report));
    return store.close();
}

}  // namespace lockstep::bench
