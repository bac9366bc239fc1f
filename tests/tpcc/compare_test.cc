// labels: unit
// compare_test.cc - ratios of one or several runs, their intervals and verdicts; results that are
// not comparable.
#include "tpcc/compare.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "tpcc/input.h"
#include "tpcc/ratio.h"

namespace lockstep::tpcc::compare_test {

// A figure of each of some runs of one program.
std::vector<double> noisy(Rng& rng, double mean, double noise, size_t count) {
    std::vector<double> samples;
    for (size_t i = 0; i < count; ++i)
        samples.push_back(mean * (1 + noise * (static_cast<double>(rng.below(2001)) / 1000 - 1)));
    return samples;
}

// From tables of the distribution: two-sided 5%, 1% and 0.1%.
TEST(Ratio, QuantilesOfStudentsT) {
    EXPECT_NEAR(student(0.05, 1), 12.706, 0.02);
    EXPECT_NEAR(student(0.05, 2), 4.303, 0.005);
    EXPECT_NEAR(student(0.01, 4), 4.604, 0.005);
    EXPECT_NEAR(student(0.001, 10), 4.587, 0.01);
    EXPECT_NEAR(student(0.05, 100), 1.984, 0.002);
}

TEST(Ratio, ADifferenceAboveTheNoiseIsShown) {
    Rng rng(seed_of_run(1));
    const RatioInterval r =
        interval_of_ratio(1.2, noisy(rng, 1000, 0.02, 5), noisy(rng, 1200, 0.02, 5), 0.05);
    EXPECT_TRUE(r.shows_difference());
    EXPECT_GT(r.low, 1.1);
    EXPECT_LT(r.high, 1.3);
}

// Three runs of each are the fewest, and there the test must keep its rate of errors, too.
TEST(Ratio, EqualProgramsDifferAsOftenAsTheErrorSays) {
    Rng rng(seed_of_run(2));
    for (const size_t runs : {3u, 8u}) {
        int shown = 0;
        for (int i = 0; i < 1000; ++i) {
            const auto a = noisy(rng, 500, 0.2, runs), b = noisy(rng, 500, 0.2, runs);
            const double ratio =
                std::accumulate(b.begin(), b.end(), 0.0) / std::accumulate(a.begin(), a.end(), 0.0);
            shown += interval_of_ratio(ratio, a, b, 0.05).shows_difference();
        }
        EXPECT_LT(shown, 75) << runs;  // 50 are expected
    }
}

TEST(Ratio, TooLittleIsNotJudged) {
    EXPECT_FALSE(interval_of_ratio(2, {1, 1}, {2, 2, 2}, 0.05).known);
    EXPECT_FALSE(interval_of_ratio(2, {1, 0, 1}, {2, 2, 2}, 0.05).known);
    EXPECT_FALSE(interval_of_ratio(0, {1, 1, 1}, {0, 0, 0}, 0.05).known);
    EXPECT_FALSE(interval_of_ratio(1, {1, 1, 1}, {1, 1, 1}, 0.05).shows_difference());
}

// A result of a run as --json writes it, as far as the comparison reads it.
class Results : public testing::Test {
protected:
    Results() : directory_(make_own_directory("compare")) {}
    void TearDown() override { std::filesystem::remove_all(directory_); }

    // `more` replaces members of the result.
    std::string write(const std::string& name, int run_number, uint64_t pool_bytes,
                      const nlohmann::json& more = nlohmann::json::object()) {
        nlohmann::json histograms, transactions;
        for (const char* type : kTxnNames) {
            histograms[type] = {{10.0, 900}, {20.0, 100}};
            transactions[type] = {{"max_us", 20.0}};
        }
        nlohmann::json result{{"settings",
                               {{"warehouses", 1},
                                {"interval_s", 1},
                                {"run_number", run_number},
                                {"pool_bytes", pool_bytes}}},
                              {"ended", "complete"},
                              {"conditions", nlohmann::json::array({check(true)})},
                              {"stock", nlohmann::json::array({check(true)})},
                              {"series", {point_of(6, 3000)}},
                              {"histograms_us", histograms},
                              {"transactions", transactions}};
        result.update(more);
        const std::string path = directory_ + "/" + name;
        std::ofstream(path) << result;
        return path;
    }
    // A measured interval in which each type has a fifth of the transactions.
    static nlohmann::json point_of(double seconds, int count) {
        nlohmann::json point{
            {"measured", true}, {"length_s", seconds}, {"all", {{"count", count}}}};
        for (const char* type : kTxnNames) point["types"][type] = {{"count", count / 5}};
        return point;
    }
    static nlohmann::json series(std::vector<nlohmann::json> points) {
        return {{"series", std::move(points)}};
    }
    static nlohmann::json check(bool ok) { return {{"id", 7}, {"ok", ok}, {"text", "S_YTD"}}; }
    // The status and what was printed.
    static std::pair<int, std::string> compare_sides(const std::vector<std::string>& a,
                                                     const std::vector<std::string>& b,
                                                     bool force = false) {
        testing::internal::CaptureStdout();
        const int status = compare_files(a, b, force);
        std::fflush(stdout);
        return {status, testing::internal::GetCapturedStdout()};
    }
    static std::pair<int, std::string> compare(const std::string& a, const std::string& b,
                                               bool force = false) {
        return compare_sides({a}, {b}, force);
    }
    // Results of runs of one program: the same run numbers, and other throughputs.
    std::vector<std::string> runs(const std::string& name, const std::vector<int>& counts) {
        std::vector<std::string> files;
        for (size_t i = 0; i < counts.size(); ++i)
            files.push_back(write(name + std::to_string(i), static_cast<int>(i + 1), 1000,
                                  series({point_of(6, counts[i])})));
        return files;
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
          {series({}), "B: nothing was measured"},
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

// Columns of the row "transactions a second", and its words.
struct Row {
    double a = 0, b = 0, ratio = 0;
    std::string words;
};
Row row_of(const std::string& text, const std::string& name = "transactions a second") {
    Row row;
    const size_t at = text.find("\n" + name);
    EXPECT_NE(at, text.npos) << text;
    std::istringstream line(text.substr(at + 1 + name.size()));
    line >> row.a >> row.b >> row.ratio;
    std::getline(line, row.words);
    row.words.erase(0, row.words.find_first_not_of(' '));
    return row;
}

// 100 s at 10 a second and 1 s at 5,000: not 2,505, but 6,000 in 101 s.
TEST_F(Results, ALongIntervalWeighsMoreThanAShortOne) {
    const auto uneven = series({point_of(100, 1000), point_of(1, 5000)});
    const auto [status, text] =
        compare(write("a", 1, 1000, uneven), write("b", 1, 1000, series({point_of(101, 3000)})));
    EXPECT_EQ(status, 0);
    const Row row = row_of(text);
    EXPECT_NEAR(row.a, 59.406, 0.001) << text;
    EXPECT_NEAR(row.b, 29.703, 0.001) << text;
    EXPECT_NEAR(row.ratio, row.b / row.a, 0.0006) << text;
    // Also a piece that is much shorter than the others, and what is not measured does not.
    auto warm_up = point_of(50, 1'000'000);
    warm_up["measured"] = false;
    const auto [all, pieces] =
        compare(write("c", 1, 1000, series({warm_up, point_of(10, 9000), point_of(0.1, 100)})),
                write("d", 1, 1000, series({point_of(10.1, 9100)})));
    EXPECT_EQ(all, 0);
    EXPECT_EQ(row_of(pieces).words, "equal") << pieces;
}

// Of 20 seconds B stalls for 10: its throughput is half, and not that of the other seconds.
TEST_F(Results, SecondsOfAStallCount) {
    const std::vector<nlohmann::json> steady(20, point_of(1, 500));
    std::vector<nlohmann::json> stalls = steady;
    for (size_t i = 0; i < stalls.size(); i += 2) stalls[i] = point_of(1, 0);
    const std::string base = write("c", 1, 1000, series(steady));
    const auto [status, text] = compare(base, write("b", 1, 1000, series(stalls)));
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "       500.0        250.0     0.500")) << text;
    // All of B stalls: no ratio, and no 1.000.
    const auto [all, nothing] =
        compare(base, write("d", 1, 1000, series(std::vector<nlohmann::json>(20, point_of(1, 0)))));
    EXPECT_EQ(all, 0);
    EXPECT_TRUE(has(nothing, "       500.0        0.000         -")) << nothing;
    EXPECT_TRUE(has(nothing, "B has none")) << nothing;
}

// Of all response times together: those of the histogram, not a mean of means.
TEST_F(Results, PercentilesAreThoseOfTheHistograms) {
    const auto [status, text] = compare(write("a", 1, 1000), write("b", 1, 1000));
    EXPECT_EQ(status, 0);
    EXPECT_NEAR(row_of(text, "all types, p50_us").a, 10, 0.1) << text;
    EXPECT_NEAR(row_of(text, "all types, p99_us").a, 20, 0.2) << text;
    const nlohmann::json none{{"histograms_us", nlohmann::json::object()}};
    const auto [known, without] = compare(write("a", 1, 1000, none), write("b", 1, 1000, none));
    EXPECT_EQ(known, 0);
    EXPECT_FALSE(has(without, "p99_us")) << without;
    EXPECT_TRUE(has(without, "transactions a second")) << without;
}

// Two runs of one program always differ.
TEST_F(Results, AVerdictTakesThreeRunsOfEach) {
    const auto a = runs("a", {6000, 6060, 6030}), b = runs("b", {12'000, 12'120, 12'060});
    for (const auto& [of_a, of_b] : {std::pair{1, 1}, {2, 2}}) {
        const auto [status, text] =
            compare_sides({a.begin(), a.begin() + of_a}, {b.begin(), b.begin() + of_b});
        EXPECT_EQ(status, 0) << text;
        EXPECT_EQ(row_of(text).words, "differs within these runs") << text;
        EXPECT_FALSE(has(text, "B is")) << text;
        EXPECT_TRUE(has(text, "--repeat 3")) << text;
    }
    const auto [status, text] = compare_sides(a, b);
    EXPECT_EQ(status, 0);
    const Row row = row_of(text);
    EXPECT_NEAR(row.a, 1005, 0.1) << text;
    EXPECT_NEAR(row.ratio, 2, 0.001) << text;
    EXPECT_TRUE(row.words.ends_with("B is higher")) << text;
    EXPECT_TRUE(has(compare_sides(b, a).second, "B is lower"));
}

// In no row: 40 pairs of equal programs, three runs of each. Of 600 rows 30 would be wrong if each
// had an error of 5%.
TEST_F(Results, EqualProgramsSeldomGetAVerdict) {
    Rng rng(seed_of_run(4));
    int wrong = 0;
    for (int pair = 0; pair < 40; ++pair) {
        const auto counts = [&] {
            std::vector<int> some;
            for (int i = 0; i < 3; ++i) some.push_back(6000 + static_cast<int>(rng.below(1200)));
            return some;
        };
        const auto [status, text] = compare_sides(runs("a", counts()), runs("b", counts()));
        EXPECT_EQ(status, 0) << text;
        wrong += has(text, "B is");
    }
    EXPECT_LE(wrong, 8);  // 2 are expected at most
}

// The same result three times is one run.
TEST_F(Results, CopiesOfAResultAreOneRun) {
    const std::string a = write("a", 1, 1000, series({point_of(6, 6000)})),
                      b = write("b", 1, 1000, series({point_of(6, 9000)}));
    const auto [status, text] = compare_sides({a, a, a}, {b, b, b});
    EXPECT_EQ(status, 0) << text;
    EXPECT_TRUE(has(text, "counts once")) << text;
    EXPECT_EQ(row_of(text).words, "differs within these runs") << text;
    const auto [same, equal] = compare(a, a);
    EXPECT_EQ(same, 0);
    EXPECT_TRUE(has(equal, "A and B are the same result")) << equal;
    EXPECT_EQ(row_of(equal).words, "equal") << equal;
}

// Runs of a side that have other options, or other run numbers than those of the other side.
TEST_F(Results, RunsOfASideAreRepetitions) {
    auto a = runs("a", {6000, 6060, 6030}), b = runs("b", {6000, 6060, 6040});
    const nlohmann::json settings{{"settings",
                                   {{"warehouses", 1},
                                    {"interval_s", 1},
                                    {"run_number", 3},
                                    {"pool_bytes", 1000},
                                    {"steps", "on"}}}};
    auto other = b;
    other[2] = write("other", 3, 1000, settings);
    const auto [unlike, text] = compare_sides(a, other);
    EXPECT_EQ(unlike, 1);
    EXPECT_TRUE(has(text, "B3 is no repetition of B1: settings/steps: none against \"on\""))
        << text;
    b.pop_back();
    const auto [uneven, numbers] = compare_sides(a, b);
    EXPECT_EQ(uneven, 1);
    EXPECT_TRUE(has(numbers, "settings/run_number: 1, 2, 3 against 1, 2")) << numbers;
}

// A short run, and one that waited for a processor.
TEST_F(Results, WeakRunsAreNamed) {
    const nlohmann::json busy{{"cpu", {{"wait_share", 0.31}}}};
    const auto [status, text] =
        compare(write("a", 1, 1000, series({point_of(0.5, 3000)})), write("b", 1, 1000, busy));
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "A: 3000 transactions in 0.50 s: too little")) << text;
    EXPECT_TRUE(has(text, "B: its threads waited for a processor in 31%")) << text;
}

TEST_F(Results, MissingFieldsAreNamed) {
    const std::string base = write("a", 1, 1000);
    nlohmann::json whole;
    std::ifstream(base) >> whole;
    for (const char* field : {"measured", "length_s", "all", "types"}) {
        nlohmann::json point = whole["series"][0];
        point.erase(field);
        testing::internal::CaptureStderr();
        EXPECT_EQ(compare(base, write("b", 1, 1000, series({point}))).first, 2) << field;
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_TRUE(has(text, "/b is no result")) << text;
        EXPECT_TRUE(has(text, field)) << text;
    }
    EXPECT_EQ(compare("/proc/version", base).first, 2);
    EXPECT_EQ(compare(base, "/proc/version", true).first, 2);
    EXPECT_EQ(compare(base, "/proc/no/such/file").first, 2);
}

TEST_F(Results, ForcedRatiosHaveAWarningAboveThem) {
    const auto [status, text] = compare(write("a", 1, 1000), write("b", 2, 1000), true);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(has(text, "Not comparable:")) << text;
    const size_t warning = text.find("WARNING"), ratios = text.find("transactions a second");
    ASSERT_NE(ratios, text.npos) << text;
    EXPECT_LT(warning, ratios) << text;
}

}  // namespace lockstep::tpcc::compare_test
