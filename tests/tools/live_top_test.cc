// labels: unit
// live_top_test.cc - a screen of `lockstep top` from two snapshots that were written by hand.
#include "tools/cli/live/live_top.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/cli/live/live_text.h"

namespace lockstep::cli::live_top_test {

Json snapshot(uint64_t seconds, uint64_t commits) {
    Json stats = {{"commits", commits},
                  {"aborts", 0},
                  {"deadlock_retries", 0},
                  {"transactions_live", 40},
                  {"transactions_waiting", 2},
                  {"lock_waits", 0},
                  {"deadlocks", 0},
                  {"lock_timeouts", 0},
                  {"log_bytes", 0},
                  {"log_flushes", 0},
                  {"log_syncs", 0},
                  {"page_reads", 0},
                  {"page_writes", 0},
                  {"evictions", 0},
                  {"log_used_bytes", 512 << 20},
                  {"log_capacity_bytes", 2ull << 30},
                  {"checkpoints", 3},
                  {"pool_resident", 750},
                  {"pool_frames", 1000},
                  {"pool_dirty", 100}};
    for (const char* cause : {"lock", "page_read", "latch", "log", "io", "begin"})
        stats["waits"][cause] = {{"count", 0}, {"wait_nanos", 0}, {"now", 0}};
    Json teams =
        Json::array({{{"operation", "fetch (i)"}, {"teams", 0}, {"entered", 0}, {"left", 0}}});
    return {{"pid", 4711},
            {"program", "shop"},
            {"directory", "/var/db/shop"},
            {"time_nanos", seconds * 1'000'000'000},
            {"open_for_nanos", seconds * 1'000'000'000},
            {"failure", nullptr},
            {"options", {{"transactions_max", 16384}, {"pool_bytes", 1ull << 30}, {"steps", true}}},
            {"stats", stats},
            {"steps", {{"teams", teams}, {"tuner", Json::array()}}},
            {"hot_locks", {{"looks_back_nanos", 8'000'000'000}, {"locks", Json::array()}}}};
}

TopView view() {
    TopView v;
    v.before = snapshot(100, 1000);
    v.now = snapshot(102, 83'400);
    Json& stats = v.now["stats"];
    stats["log_bytes"] = 20 << 20;
    stats["waits"]["lock"] = {{"count", 2406}, {"wait_nanos", 2'887'200'000}, {"now", 3}};
    v.now["steps"]["teams"][0] = {
        {"operation", "fetch (i)"}, {"teams", 100}, {"entered", 800}, {"left", 600}};
    for (int i = 0; i < 30; ++i)
        v.now["hot_locks"]["locks"].push_back(
            {{"lock", "index \"warehouse\", key \"" + std::string(100, 'k') + "\""},
             {"waits", 812},
             {"wait_nanos", 1'600'000'000}});
    v.transactions = Json::array();
    for (uint64_t i = 0; i < 40; ++i)
        v.transactions.push_back({{"id", 9'000'000 + i},
                                  {"age_nanos", 7'200'000'000'000},
                                  {"state", "lock_wait"},
                                  {"marked", i == 1},
                                  {"internal", i == 2},
                                  {"locks", 123},
                                  {"log_bytes", 5 << 10},
                                  {"log_pinned_bytes", 3 << 20},
                                  {"waits_for", "X on index \"warehouse\", key \"\\x00\""},
                                  {"waited_nanos", 12'000'000}});
    return v;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
        end = text.find('\n', at);
        lines.push_back(text.substr(at, end - at));
    }
    return lines;
}
bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(LiveTopTest, RatesAreDifferences) {
    const Json top = top_json(view());
    EXPECT_EQ(top["rates"]["seconds"], 2.0);
    EXPECT_EQ(top["rates"]["commits"], 41'200.0);
    EXPECT_EQ(top["waits"]["lock"]["per_second"], 1203.0);
    EXPECT_EQ(top["waits"]["lock"]["mean_nanos"], 1'200'000);
    EXPECT_EQ(top["waits"]["log"]["per_second"], 0.0);
    EXPECT_EQ(top["teams"]["size_mean"], 8.0);
    EXPECT_EQ(top["teams"]["stray_share"], 0.25);
    EXPECT_EQ(top["transactions"].size(), 40u);
}

TEST(LiveTopTest, AScreenFitsTheTerminal) {
    for (const auto& [columns, rows] :
         {std::pair<size_t, size_t>{80, 24}, {200, 60}, {40, 10}, {1, 1}}) {
        const auto lines = lines_of(top_text(view(), columns, rows));
        EXPECT_LE(lines.size(), rows);
        for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_EQ(lines_of(top_text(view(), 80, 24)).size(), 24u);
}

TEST(LiveTopTest, EverythingIsThereAt80Columns) {
    const std::string text = top_text(view(), 80, 24);
    for (const char* part : {"shop (4711)",
                             "/var/db/shop",
                             "41.2k committed",
                             "40 active of 16384",
                             "2 wait to begin",
                             "lock",
                             "1203",
                             "1.2 ms",
                             "10 MB",
                             "25% of 2 GB used",
                             "3 checkpoints",
                             "75% of 1 GB used",
                             "10% dirty",
                             "8.0 threads each",
                             "25% strays",
                             "9000000",
                             "lock_wait*",
                             "lock_wait+",
                             "12 ms X on",
                             "3 MB",
                             "812",
                             "1.97 ms",
                             "index \"warehouse\", key",
                             "in the last 8 s"})
        EXPECT_TRUE(has(text, part)) << part << "\nis not in\n" << text;
}

// They have lines of their own once a store has had one.
TEST(LiveTopTest, ReportsAreShown) {
    TopView v = view();
    const Json open = Json::array({{{"number", 17},
                                    {"sees", 5},
                                    {"age_nanos", 1'500'000'000},
                                    {"scans", 3},
                                    {"ran", 1},
                                    {"progress", 0.25},
                                    {"behind", 12}}});
    Json reports = {{"reports", 0},
                    {"states", 0},
                    {"scans", 0},
                    {"made", 0},
                    {"made_again", 0},
                    {"shared", 0},
                    {"rows", 0},
                    {"bytes", 0},
                    {"busy_nanos", 0},
                    {"reports_open", 0},
                    {"scans_open", 0},
                    {"passes_open", 0},
                    {"kept_bytes", 0},
                    {"behind_max", 0},
                    {"state_oldest_nanos", 0},
                    {"open", Json::array()}};
    v.before["reports"] = v.now["reports"] = reports;
    EXPECT_FALSE(has(top_text(v, 80, 24), "report"));
    reports["reports"] = 17;
    reports["rows"] = 4'000'000;
    reports["made"] = 200;
    reports["made_again"] = 20;
    reports["shared"] = 1400;
    reports["busy_nanos"] = 500'000'000;
    reports["reports_open"] = 1;
    reports["scans_open"] = 2;
    reports["passes_open"] = 1;
    reports["state_oldest_nanos"] = 1'500'000'000;
    reports["kept_bytes"] = 3 << 20;
    reports["open"] = open;
    v.now["reports"] = reports;
    const std::string text = top_text(v, 100, 24);
    for (const char* part :
         {"2M rows", "100 parts read", ", 10 again", "700 shared a second", "25% of a worker",
          "1 open, 2 scans in 1 passes", "oldest state 1.5 s", "3 MB kept", "report 17", "25% read",
          "1 of 3 scans have ended", "behind 12 parts"})
        EXPECT_TRUE(has(text, part)) << part << "\nis not in\n" << text;
}

TEST(LiveTopTest, WhatIsMissingIsSaid) {
    TopView v = view();
    v.transactions = nullptr;
    v.no_transactions = "no answer yet";
    v.now["failure"] = "write of log: EIO";
    v.now["options"]["steps"] = false;
    const std::string text = top_text(v, 80, 24);
    EXPECT_TRUE(has(text, "OLDEST TRANSACTIONS: no answer yet"));
    EXPECT_TRUE(has(text, "THE STORE HAS FAILED: write of log: EIO"));
    EXPECT_TRUE(has(text, "teams         off"));
}

// Counters of teams are set back by set_steps(); two snapshots may have the same time.
TEST(LiveTopTest, CountersThatFallGiveNoRate) {
    TopView v = view();
    v.before["steps"]["teams"][0]["teams"] = 1'000'000;
    v.before["stats"]["commits"] = 1'000'000'000;
    EXPECT_EQ(top_json(v)["teams"]["teams"], 0.0);
    EXPECT_EQ(top_json(v)["rates"]["commits"], 0.0);
    v.before = v.now;
    EXPECT_EQ(top_json(v)["rates"]["commits"], 0.0);
    EXPECT_TRUE(has(top_text(v, 80, 24), "0 committed"));
}

TEST(LiveTextTest, Units) {
    EXPECT_EQ(time_text(0), "0 ns");
    EXPECT_EQ(time_text(999), "999 ns");
    EXPECT_EQ(time_text(1'234'567), "1.23 ms");
    EXPECT_EQ(time_text(59'000'000'000), "59 s");
    EXPECT_EQ(time_text(600'000'000'000), "10 min");
    EXPECT_EQ(time_text(7'200'000'000'000), "2.0 h");
    EXPECT_EQ(bytes_text(512), "512 B");
    EXPECT_EQ(bytes_text(1 << 20), "1 MB");
    EXPECT_EQ(rate_text(0.254), "0.254");
    EXPECT_EQ(rate_text(1530), "1530");
    EXPECT_EQ(rate_text(41'249), "41.2k");
    EXPECT_EQ(rate_text(1'530'000), "1.53M");
    EXPECT_EQ(cut("abc", 3), "abc");
    EXPECT_EQ(cut("abcd", 3), "ab~");
    EXPECT_EQ(cut("\u00e9\u20ac\u00e9", 3), "\u00e9\u20ac\u00e9");
    EXPECT_EQ(cut("\u00e9\u20ac\u00e9x", 3), "\u00e9\u20ac~");
    EXPECT_EQ(cut("\u20ac\u20ac", 1), "~");
    EXPECT_EQ(cut("\u20ac", 0), "");
}

TEST(LiveTextTest, FieldsOfNestedObjects) {
    const Json json = {{"a", 1}, {"b", {{"c", "x"}, {"d", {1, 2}}}}};
    EXPECT_EQ(fields_text(json),
              "a                            1\nb.c                          x\n");
}

}  // namespace lockstep::cli::live_top_test
