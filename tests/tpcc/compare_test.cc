// labels: unit
// compare_test.cc - ratios of two runs and their intervals; results that are not comparable.
#include "tpcc/compare.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::tpcc {
namespace compare_test {

std::vector<double> noisy(Rng& rng, double mean, double noise, size_t count = 30) {
    std::vector<double> samples;
    for (size_t i = 0; i < count; ++i)
        samples.push_back(mean * (1 + noise * (static_cast<double>(rng.below(2001)) / 1000 - 1)));
    return samples;
}

TEST(Compare, ADifferenceAboveTheNoiseIsShown) {
    Rng rng(seed_of_run(1));
    const RatioInterval r = compare_samples(noisy(rng, 1000, 0.05), noisy(rng, 1200, 0.05));
    EXPECT_TRUE(r.shows_difference());
    EXPECT_GT(r.low, 1.1);
    EXPECT_LT(r.low, 1.2);
    EXPECT_GT(r.high, 1.2);
    EXPECT_NEAR(r.ratio, 1.2, 0.05);
}

// The interval contains the truth in 95% of all pairs, so about 10 of 200 miss it.
TEST(Compare, EqualRunsShowADifferenceAboutOnceInTwenty) {
    Rng rng(seed_of_run(2));
    int shown = 0;
    for (int i = 0; i < 400; ++i)
        shown += compare_samples(noisy(rng, 500, 0.2), noisy(rng, 500, 0.2)).shows_difference();
    EXPECT_GT(shown, 4);
    EXPECT_LT(shown, 45);
}

TEST(Compare, TooLittleIsNotJudged) {
    Rng rng(seed_of_run(3));
    const auto few = noisy(rng, 10, 0.1, 4), many = noisy(rng, 20, 0.1);
    EXPECT_FALSE(compare_samples(few, many).known);
    EXPECT_FALSE(compare_samples(few, many).shows_difference());
    EXPECT_NEAR(compare_samples(few, many).ratio, 2, 0.5);
    EXPECT_FALSE(compare_samples({}, many).known);
    EXPECT_FALSE(compare_samples({1, 2, 0, 4, 5, 6}, many).known);
    EXPECT_EQ(compare_files("/proc/version", "/proc/version", false), 2);
    EXPECT_EQ(compare_files("/proc/version", "/proc/version", true), 2);
}

// A result of a run as --json writes it, as far as the comparison reads it.
class Results : public testing::Test {
protected:
    Results() : directory_(make_own_directory("compare")) {}
    void TearDown() override { std::filesystem::remove_all(directory_); }

    // `more` replaces members of the result.
    std::string write(const std::string& name, int run_number, uint64_t pool_bytes,
                      const nlohmann::json& more = nlohmann::json::object()) {
        nlohmann::json types, point{{"measured", true}, {"length_s", 1}};
        const nlohmann::json numbers{{"count", 9},  {"tx_per_s", 500}, {"p50_us", 5},
                                     {"p90_us", 9}, {"p99_us", 20},    {"p999_us", 40}};
        for (const char* type : {"NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel"})
            types[type] = numbers;
        point["all"] = numbers;
        point["types"] = types;
        nlohmann::json result{{"settings",
                               {{"warehouses", 1},
                                {"interval_s", 1},
                                {"run_number", run_number},
                                {"pool_bytes", pool_bytes}}},
                              {"ended", "complete"},
                              {"conditions", nlohmann::json::array({check(true)})},
                              {"stock", nlohmann::json::array({check(true)})},
                              {"series", std::vector<nlohmann::json>(6, point)}};
        result.update(more);
        const std::string path = directory_ + "/" + name;
        std::ofstream(path) << result;
        return path;
    }
    static nlohmann::json check(bool ok) { return {{"id", 7}, {"ok", ok}, {"text", "S_YTD"}}; }
    // The status and what was printed.
    static std::pair<int, std::string> compare(const std::string& a, const std::string& b,
                                               bool force = false) {
        testing::internal::CaptureStdout();
        const int status = compare_files(a, b, force);
        std::fflush(stdout);
        return {status, testing::internal::GetCapturedStdout()};
    }

private:
    std::string directory_;
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_F(Results, EqualRunNumbersAndPoolsAreCompared) {
    const auto [status, text] = compare(write("a", 2, 1000), write("b", 2, 1000));
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "transactions a second")) << text;
    EXPECT_FALSE(has(text, "WARNING")) << text;
}

// Each run makes its database larger, and a pool that is sized to the data with it.
TEST_F(Results, OtherRunNumbersOrPoolsAreRefused) {
    const std::string base = write("a", 1, 1000), later = write("b", 2, 1000),
                      larger = write("c", 1, 2000);
    for (const auto& [other, reason] : {std::pair{later, "settings/run_number: 1 against 2"},
                                        std::pair{larger, "settings/pool_bytes: 1000 against"}}) {
        const auto [status, text] = compare(base, other);
        EXPECT_EQ(status, 1);
        EXPECT_TRUE(has(text, "Not comparable:")) << text;
        EXPECT_TRUE(has(text, reason)) << text;
        EXPECT_TRUE(has(text, "same --pool")) << text;
        EXPECT_TRUE(has(text, "--force")) << text;
        EXPECT_FALSE(has(text, "transactions a second")) << text;
    }
}

// Figures of a database with a fault, or of one that nobody has checked, are of no use.
TEST_F(Results, ABrokenOrMissingCheckIsNamed) {
    const nlohmann::json broken = nlohmann::json::array({check(false)}),
                         none = nlohmann::json::array();
    const std::string base = write("a", 1, 1000);
    for (const auto& [more, reason] :
         {std::pair<nlohmann::json, const char*>{{{"conditions", broken}}, "B: condition 7 is"},
          {{{"stock", broken}}, "B: the stock is broken: S_YTD"},
          {{{"index_faults", {"no entry"}}}, "B: no entry"},
          {{{"conditions", none}}, "B: the conditions were not checked"},
          {{{"online_checks", {{{"stock", broken}}}}}, "B, during the run: the stock is broken"},
          {{{"ended", "failed"}}, "B: the run ended early"}}) {
        const auto [status, text] = compare(base, write("b", 1, 1000, more));
        EXPECT_EQ(status, 1) << reason;
        EXPECT_TRUE(has(text, reason)) << text;
    }
}

// Whatever differs is told, also settings that nobody thought of when the comparison was written.
TEST_F(Results, AllThatDiffersIsNamed) {
    nlohmann::json settings{{"warehouses", 1},     {"interval_s", 1}, {"run_number", 1},
                            {"pool_bytes", 1000},  {"path", "a"},     {"command_line", "x"},
                            {"ctx_points", "none"}};
    const std::string base = write("a", 1, 1000, {{"settings", settings}});
    settings.update({{"path", "b"}, {"command_line", "y"}, {"ctx_points", "icache"}});
    settings["new_setting"] = 5;
    const auto [status, text] = compare(base, write("b", 1, 1000, {{"settings", settings}}));
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "settings/ctx_points: \"none\" against \"icache\"")) << text;
    EXPECT_TRUE(has(text, "settings/new_setting: none against 5")) << text;
    EXPECT_FALSE(has(text, "settings/path")) << text;
    EXPECT_FALSE(has(text, "command_line")) << text;
    EXPECT_FALSE(has(text, "nothing that the results name")) << text;
}

// Percentiles of other intervals are other values.
TEST_F(Results, OtherIntervalsAreRefused) {
    const nlohmann::json settings{
        {"warehouses", 1}, {"interval_s", 2}, {"run_number", 1}, {"pool_bytes", 1000}};
    const auto [status, text] =
        compare(write("a", 1, 1000), write("b", 1, 1000, {{"settings", settings}}));
    EXPECT_EQ(status, 1);
    EXPECT_TRUE(has(text, "settings/interval_s: 1 against 2")) << text;
}

// Of 20 seconds B stalls for 10: its throughput is half, and not that of the other seconds.
TEST_F(Results, SecondsOfAStallCount) {
    const std::string base = write("a", 1, 1000);
    nlohmann::json result;
    std::ifstream(base) >> result;
    nlohmann::json works = result["series"][0], stalls = works;
    const nlohmann::json none{{"count", 0},  {"tx_per_s", 0}, {"p50_us", 0},
                              {"p90_us", 0}, {"p99_us", 0},   {"p999_us", 0}};
    stalls["all"] = none;
    for (auto& type : stalls["types"]) type = none;
    std::vector<nlohmann::json> steady(20, works), series = steady;
    for (size_t i = 0; i < series.size(); i += 2) series[i] = stalls;
    const auto [status, text] = compare(write("c", 1, 1000, {{"series", steady}}),
                                        write("b", 1, 1000, {{"series", series}}));
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "       500.0        250.0     0.500")) << text;
    // The response times are those of the transactions that there were.
    EXPECT_TRUE(has(text, "all types, p99_us                20.0         20.0     1.000")) << text;
    // All of B stalls: no ratio, and no 1.000.
    const auto [all, nothing] =
        compare(base, write("d", 1, 1000, {{"series", std::vector<nlohmann::json>(6, stalls)}}));
    EXPECT_EQ(all, 0);
    EXPECT_TRUE(has(nothing, "       500.0          0.0         -   some have none")) << nothing;
}

TEST_F(Results, ForcedRatiosHaveAWarningAboveThem) {
    const auto [status, text] = compare(write("a", 1, 1000), write("b", 2, 1000), true);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "Not comparable:")) << text;
    const size_t warning = text.find("WARNING"), ratios = text.find("transactions a second");
    ASSERT_NE(ratios, text.npos) << text;
    EXPECT_LT(warning, ratios) << text;
}

}  // namespace compare_test
}  // namespace lockstep::tpcc
