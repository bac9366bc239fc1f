// verdict.cc - the rules of the specification.
#include "tpcc/verdict.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::tpcc {

namespace {

// In the order of TxnType. New-Order has no minimum: it is what the others leave.
constexpr double kSharesLeast[kTxnTypes] = {0, 43, 4, 4, 4};    // percent, clause 5.2.3
constexpr double kResponseMost[kTxnTypes] = {5, 5, 5, 80, 20};  // seconds; Delivery: deferred
constexpr const char* kResponseClauses[kTxnTypes] = {"5.2.5.3", "5.2.5.3", "5.2.5.3", "2.7.2",
                                                     "5.2.5.3"};
constexpr double kPaceLeast = 9, kPaceMost = 12.86;
constexpr Nanos kIntervalLeast = 120 * 60 * kSecond, kCheckpointGapMost = 30 * 60 * kSecond;
constexpr size_t kCheckpointsLeast = 4;

double percent(uint64_t part, uint64_t whole) {
    return whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}
double seconds(Nanos nanos) { return static_cast<double>(nanos) / static_cast<double>(kSecond); }
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
        mix();
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
              bool within) {
        verdict_.rules.push_back(
            {std::move(name), std::move(found), std::move(wanted), clause, within});
    }

    // Rollbacks that the input demands are New-Orders too.
    void mix() {
        for (size_t t = 1; t < kTxnTypes; ++t) {
            const double share = percent(facts_.counts[t], all_);
            rule(fmt::format("{} of all transactions", kTxnNames[t]), fmt::format("{:.2f}%", share),
                 fmt::format("at least {:.0f}%", kSharesLeast[t]), "5.2.3",
                 share >= kSharesLeast[t]);
        }
        const double rolled = percent(facts_.new_orders_rolled_back, facts_.counts[0]);
        rule("New-Orders rolled back on demand", fmt::format("{:.2f}%", rolled), "0.9% to 1.1%",
             "5.5.1.5", rolled >= 0.9 && rolled <= 1.1);
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
        rule("NOPM per warehouse", fmt::format("{:.2f}", verdict_.per_warehouse),
             fmt::format("{:.0f} to {:.2f}", kPaceLeast, kPaceMost), "4.2",
             verdict_.per_warehouse >= kPaceLeast && verdict_.per_warehouse <= kPaceMost);
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
    return static_cast<size_t>(
        std::ranges::count_if(rules, [](const Rule& rule) { return !rule.within; }));
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
        lines.push_back(fmt::format("  {:<33} {:>12}  {:<16} {:<7} {}", rule.name, rule.found,
                                    rule.wanted, rule.clause,
                                    rule.within ? "within" : "outside the specification"));
    lines.push_back(fmt::format("  {:.0f} NOPM: New-Orders per minute. This result is not audited.",
                                verdict.new_orders_per_minute));
    lines.push_back(
        "  tpmC is the same count of a run that keeps all these rules and that an "
        "auditor has certified.");
    return lines;
}

nlohmann::ordered_json verdict_json(const Verdict& verdict) {
    nlohmann::ordered_json rules = nlohmann::ordered_json::array();
    for (const Rule& rule : verdict.rules)
        rules.push_back({{"rule", rule.name},
                         {"found", rule.found},
                         {"wanted", rule.wanted},
                         {"clause", rule.clause},
                         {"within", rule.within}});
    return {{"audited", false}, {"outside", verdict.outside()}, {"rules", rules}};
}

}  // namespace lockstep::tpcc
