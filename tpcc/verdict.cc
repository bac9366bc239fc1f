// verdict.cc - the rules of the specification.
#include "tpcc/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/base/say.h"
#include "tpcc/least_run.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

// In the order of TxnType. New-Order has no minimum: it is what the others leave.
constexpr double kSharesLeast[kTxnTypes] = {0, 43, 4, 4, 4};    // percent, clause 5.2.3
constexpr double kResponseMost[kTxnTypes] = {5, 5, 5, 80, 20};  // seconds; Delivery: deferred
constexpr const char* kResponseClauses[kTxnTypes] = {"5.2.5.3", "5.2.5.3", "5.2.5.3", "2.7.2",
                                                     "5.2.5.3"};
constexpr double kInteractiveMost = 5;  // of a Delivery, seconds
// Of a normal distribution 0.1% lies farther from the mean.
constexpr double kDeviationsByChance = 3.29;
constexpr double kPaceLeast = 9, kPaceMost = 12.86;
constexpr Nanos kIntervalLeast = 120 * 60 * kSecond, kCheckpointGapMost = 30 * 60 * kSecond;
constexpr size_t kCheckpointsLeast = 4;

double percent(uint64_t part, uint64_t whole) {
    return whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}
double minutes(Nanos nanos) { return seconds(nanos) / 60; }

class Judge {
public:
    explicit Judge(const VerdictFacts& facts) : facts_(facts) {
        for (const uint64_t n : facts.counts) all_ += n;
    }

    Verdict run() {
        if (facts_.measured > 0)
            verdict_.new_orders_per_minute =
                static_cast<double>(facts_.counts[0]) / minutes(facts_.measured);
        verdict_.per_warehouse =
            verdict_.new_orders_per_minute / std::max<double>(1, facts_.warehouses);
        if (!enough_for_throughput(seconds(facts_.measured), static_cast<double>(all_)))
            verdict_.too_short =
                too_short_text(seconds(facts_.measured), static_cast<double>(all_));
        mix();
        inputs();
        responses();
        deliveries();
        pace();
        interval();
        checkpoints();
        properties();
        return std::move(verdict_);
    }

private:
    void rule(std::string name, std::string found, std::string wanted, const char* clause,
              Standing standing) {
        verdict_.rules.push_back(
            {std::move(name), std::move(found), std::move(wanted), clause, standing});
    }
    void rule(std::string name, std::string found, std::string wanted, const char* clause,
              bool within) {
        rule(std::move(name), std::move(found), std::move(wanted), clause,
             within ? Standing::within : Standing::outside);
    }

    void mix() {
        for (size_t t = 1; t < kTxnTypes; ++t) {
            const double share = percent(facts_.counts[t], all_);
            rule(fmt::format("{} of all transactions", kTxnNames[t]), fmt::format("{:.2f}%", share),
                 fmt::format("at least {:.0f}%", kSharesLeast[t]), "5.2.3",
                 share >= kSharesLeast[t]);
        }
    }

    // Rollbacks that the input demands are New-Orders too.
    void inputs() {
        const InputCounts& chosen = facts_.inputs;
        const uint64_t orders = facts_.counts[0], payments = facts_.counts[1];
        input_share("New-Orders rolled back on demand", facts_.new_orders_rolled_back, orders,
                    {0.9, 1, 1.1});
        order_lines(chosen.order_lines, orders);
        remote_share("order lines of other warehouses", chosen.order_lines_remote,
                     chosen.order_lines, {0.95, 1, 1.05});
        remote_share("Payments of other warehouses", chosen.payments_remote, payments,
                     {14, 15, 16});
        input_share("Payments by last name", chosen.payments_by_name, payments, {57, 60, 63});
        input_share("Order-Status by last name", chosen.order_status_by_name, facts_.counts[2],
                    {57, 60, 63});
    }

    // Percent; `expected` is the probability of one choice.
    struct Bounds {
        double least, expected, most;
    };

    void input_share(const char* name, uint64_t part, uint64_t whole, const Bounds& bounds) {
        const double expected = bounds.expected / 100;
        const double deviation = 100 * std::sqrt(expected * (1 - expected));
        random_rule(name, percent(part, whole), "%", whole, bounds, deviation);
    }

    void remote_share(const char* name, uint64_t part, uint64_t whole, const Bounds& bounds) {
        if (facts_.warehouses > 1) return input_share(name, part, whole, bounds);
        rule(name, "1 warehouse", fmt::format("{:g}% to {:g}%", bounds.least, bounds.most),
             "5.5.1.5", Standing::not_applicable);
    }

    // From 5 to 15, each equally often.
    void order_lines(uint64_t lines, uint64_t orders) {
        const double mean = orders ? static_cast<double>(lines) / static_cast<double>(orders) : 0;
        random_rule("order lines of an order, mean", mean, "", orders, {9.5, 10, 10.5},
                    std::sqrt((11 * 11 - 1) / 12.0));
    }

    // `deviation`: the standard deviation of one of `n` choices.
    void random_rule(const char* name, double found, const char* unit, uint64_t n,
                     const Bounds& bounds, double deviation) {
        const double by_chance = kDeviationsByChance * deviation /
                                 std::sqrt(static_cast<double>(std::max<uint64_t>(n, 1)));
        Standing standing = Standing::within;
        if (n == 0 || found < bounds.least || found > bounds.most) standing = Standing::outside;
        if (n > 0 && standing == Standing::outside &&
            std::abs(found - bounds.expected) <= by_chance)
            standing = Standing::too_few;
        rule(name, n ? fmt::format("{:.2f}{}", found, unit) : "not run",
             fmt::format("{0:g}{2} to {1:g}{2}", bounds.least, bounds.most, unit), "5.5.1.5",
             standing);
    }

    void responses() {
        for (size_t t = 0; t < kTxnTypes; ++t) {
            const double p90 = seconds(facts_.percentile_90[t]);
            const bool any = facts_.counts[t] > 0;
            rule(fmt::format("90% of {} within{}", kTxnNames[t],
                             t == static_cast<size_t>(TxnType::delivery) ? ", deferred" : ""),
                 any ? fmt::format("{:.4f} s", p90) : "not run",
                 fmt::format("{:.0f} s", kResponseMost[t]), kResponseClauses[t],
                 any && p90 <= kResponseMost[t]);
        }
        const double queued = seconds(facts_.delivery_interactive_90);
        const bool any = facts_.deliveries_queued > 0;
        rule("90% of Delivery within, interactive",
             any ? fmt::format("{:.4f} s", queued) : "not run",
             fmt::format("{:.0f} s", kInteractiveMost), "5.2.5.3",
             any && queued <= kInteractiveMost);
    }

    void deliveries() {
        const auto all = facts_.counts[static_cast<size_t>(TxnType::delivery)];
        const double share = percent(facts_.deliveries_with_skips, all);
        rule("Deliveries that skip a district",
             all ? fmt::format("{} of {}", facts_.deliveries_with_skips, all) : "not run",
             "at most 1%, or 1", "2.7.4.2",
             all > 0 && (share <= 1 || facts_.deliveries_with_skips <= 1));
    }

    // Without think times a terminal offers far more than the specification lets it.
    void pace() {
        const bool within =
            verdict_.per_warehouse >= kPaceLeast && verdict_.per_warehouse <= kPaceMost;
        const bool judged = verdict_.too_short.empty();
        rule("NOPM per warehouse",
             judged ? fmt::format("{:.2f}", verdict_.per_warehouse) : "short run",
             fmt::format("{:.0f} to {:.2f}", kPaceLeast, kPaceMost), "4.2",
             !judged  ? Standing::too_few
             : within ? Standing::within
                      : Standing::outside);
        rule("terminals per warehouse", std::to_string(facts_.terminals), "10", "4.2",
             facts_.terminals == 10);
        rule("factor on keying and think times", fmt::format("{:g}", facts_.think), "at least 1",
             "5.2.5.7", facts_.think >= 1);
    }

    void interval() {
        rule("measured interval", fmt::format("{:.1f} min", minutes(facts_.measured)),
             fmt::format("at least {:.0f} min", minutes(kIntervalLeast)), "5.5.1.2",
             facts_.measured >= kIntervalLeast && facts_.complete);
    }

    void checkpoints() {
        const size_t count = facts_.checkpoints.size();
        rule("checkpoints in the interval", std::to_string(count),
             fmt::format("at least {}", kCheckpointsLeast), "5.5.2.2", count >= kCheckpointsLeast);
        // Before the first one and after the last one, too.
        Nanos longest = 0, last = 0;
        for (const Nanos at : facts_.checkpoints) {
            longest = std::max(longest, at > last ? at - last : 0);
            last = at;
        }
        longest = std::max(longest, facts_.measured > last ? facts_.measured - last : 0);
        rule("longest time without a checkpoint", fmt::format("{:.1f} min", minutes(longest)),
             fmt::format("at most {:.0f} min", minutes(kCheckpointGapMost)), "5.5.2.2",
             longest <= kCheckpointGapMost);
    }

    void properties() {
        rule("commits are durable", facts_.durable ? "yes" : "no, lazy", "yes", "3.5",
             facts_.durable);
        rule("all transactions are serializable", facts_.serializable ? "yes" : "no", "yes",
             "3.4.1", facts_.serializable);
    }

    const VerdictFacts& facts_;
    uint64_t all_ = 0;
    Verdict verdict_;
};

}  // namespace

size_t Verdict::outside() const {
    return static_cast<size_t>(std::ranges::count(rules, Standing::outside, &Rule::standing));
}

const char* Rule::text() const {
    switch (standing) {
        case Standing::within: return "within";
        case Standing::outside: return "outside the specification";
        case Standing::too_few: return "not judged: too few";
        case Standing::not_applicable: break;
    }
    return "does not apply";
}

Verdict judge(const VerdictFacts& facts) { return Judge(facts).run(); }

const char* nopm_text() {
    return "NOPM are New-Orders per minute. tpmC is the same count of a run that keeps all these "
           "rules and that an auditor has certified. This result is not audited, so it is no tpmC.";
}

std::vector<std::string> verdict_lines(const Verdict& verdict) {
    std::vector<std::string> lines;
    lines.push_back(fmt::format("Rules of the specification (TPC-C 5.11): {} of {} outside",
                                verdict.outside(), verdict.rules.size()));
    for (const Rule& rule : verdict.rules)
        lines.push_back(fmt::format("  {:<35} {:>12}  {:<16} {:<7} {}", rule.name, rule.found,
                                    rule.wanted, rule.clause, rule.text()));
    lines.push_back(
        verdict.too_short.empty()
            ? fmt::format("  {} NOPM: New-Orders per minute. This result is not audited.",
                          rate_text(verdict.new_orders_per_minute))
            : "  No NOPM, New-Orders per minute. " + verdict.too_short);
    lines.push_back(
        "  tpmC is the same count of a run that keeps all these rules and that an "
        "auditor has certified.");
    return lines;
}

// null: it is not judged.
static nlohmann::ordered_json within_json(Standing standing) {
    if (standing == Standing::within) return true;
    return standing == Standing::outside ? nlohmann::ordered_json(false) : nullptr;
}

nlohmann::ordered_json verdict_json(const Verdict& verdict) {
    nlohmann::ordered_json rules = nlohmann::ordered_json::array();
    for (const Rule& rule : verdict.rules)
        rules.push_back({{"rule", rule.name},
                         {"found", rule.found},
                         {"wanted", rule.wanted},
                         {"clause", rule.clause},
                         {"within", within_json(rule.standing)},
                         {"standing", rule.text()}});
    return {{"audited", false}, {"outside", verdict.outside()}, {"rules", rules}};
}

}  // namespace lockstep::tpcc
