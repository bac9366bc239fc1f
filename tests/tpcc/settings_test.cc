// labels: unit
// settings_test.cc - the command line: what it accepts, refuses, and turns into store options.
#include "tpcc/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tools/base/size_option.h"
#include "tpcc/load_space.h"

namespace lockstep::tpcc::settings_test {

ParsedCommandLine parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "lockstep-tpcc");
    return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Settings, Defaults) {
    const auto parsed = parse({});
    ASSERT_FALSE(parsed.exit_status);
    const Settings& s = parsed.settings;
    EXPECT_EQ(s.warehouse_count(), 4u);
    EXPECT_FALSE(s.warehouses);
    EXPECT_EQ(s.run.terminals, 10u);
    EXPECT_EQ(s.run.executor.durability, Durability::lazy);
    EXPECT_EQ(s.run.executor.isolation, Isolation::serializable);
    EXPECT_TRUE(check_options(s.store_options(4)));
    EXPECT_TRUE(check_options(s.store_options(200)));
    EXPECT_TRUE(check_options(s.store_options(65535)));
}

// Runs of other lengths measure the same pool.
TEST(Settings, TheDefaultPoolIsThatOfAnyLength) {
    const uint64_t bytes = parse({}).settings.store_options(4).pool_bytes;
    for (const auto& words : std::vector<std::vector<const char*>>{{"--duration", "1"},
                                                                   {"--duration", "7200"},
                                                                   {"--warmup", "600"},
                                                                   {"--transactions", "10"},
                                                                   {"--workers", "2"},
                                                                   {"--repeat", "9"}})
        EXPECT_EQ(parse(words).settings.store_options(4).pool_bytes, bytes) << words[0];
    EXPECT_GT(parse({}).settings.store_options(5).pool_bytes, bytes);
}

TEST(Settings, FilesOfRepetitionsHaveTheirNumbers) {
    const auto parsed = parse(
        {"--repeat", "3", "--json", "a.b/out.json", "--csv", "tables", "--html", "/dev/stdout"});
    ASSERT_FALSE(parsed.exit_status);
    const Settings second = parsed.settings.of_repetition(2);
    EXPECT_EQ(second.json_file, "a.b/out-2.json");
    EXPECT_EQ(second.csv_directory, "tables-2");
    EXPECT_EQ(second.html_file, "/dev/stdout");
    EXPECT_TRUE(second.picture_file.empty());
    const auto once = parse({"--json", "out.json"});
    EXPECT_EQ(once.settings.of_repetition(1).json_file, "out.json");
    EXPECT_TRUE(parse({"--repeat", "0"}).exit_status);
}

TEST(Settings, TwoSidesOfAComparison) {
    const auto two = parse({"compare", "/proc/version", "/proc/stat"});
    ASSERT_FALSE(two.exit_status);
    EXPECT_EQ(two.settings.compare_base, std::vector<std::string>{"/proc/version"});
    EXPECT_EQ(two.settings.compare_against, std::vector<std::string>{"/proc/stat"});
    const auto several = parse({"compare", "/proc/version", "/proc/stat", "--against",
                                "/proc/mounts", "/proc/meminfo", "--force"});
    ASSERT_FALSE(several.exit_status);
    EXPECT_EQ(several.settings.compare_base.size(), 2u);
    EXPECT_EQ(several.settings.compare_against.size(), 2u);
    EXPECT_TRUE(several.settings.compare_force);
    EXPECT_TRUE(parse({"compare", "/proc/version"}).exit_status);
    EXPECT_TRUE(parse({"compare", "/proc/version", "/proc/no/such/file"}).exit_status);
    EXPECT_TRUE(parse({"compare", "/proc/version", "--against", "/proc/no/such"}).exit_status);
    EXPECT_TRUE(parse({"compare", "/proc/version", "/proc/stat", "/proc/mounts"}).exit_status);
}

TEST(Settings, TeamsAndPoints) {
    const auto parsed =
        parse({"--steps", "ctx-only", "--ctx-points", "btree_leaf,record", "--team-max", "9",
               "--team-policy", "largest", "--team-gate", "c-gated", "--team-window", "100"});
    ASSERT_FALSE(parsed.exit_status);
    const StepsOptions steps = parsed.settings.store_options(1).steps;
    EXPECT_EQ(steps.mode, StepsMode::ctx_only);
    EXPECT_EQ(steps.points, *ctx_points_from("record btree_leaf"));
    EXPECT_EQ(steps.team_max, 9u);
    EXPECT_EQ(steps.window_records, 100u);
    EXPECT_EQ(steps.policy, TeamPolicy::largest);
    EXPECT_EQ(steps.gate, TeamGate::c_gated);
    EXPECT_EQ(parse({"--ctx-points", "none"}).settings.steps.points, 0u);
    EXPECT_TRUE(parse({"--ctx-points", "nowhere"}).exit_status);
    EXPECT_TRUE(parse({"--ctx-points", "auto:/proc/no/such/file"}).exit_status);

    const std::string file = testing::TempDir() + "/points." + std::to_string(getpid());
    std::ofstream(file) << "# proposed\nbtree_leaf\n  lock_bucket # two\n";
    const auto from_file = parse({"--ctx-points", ("auto:" + file).c_str()});
    std::remove(file.c_str());
    ASSERT_FALSE(from_file.exit_status);
    EXPECT_EQ(from_file.settings.steps.points, *ctx_points_from("btree_leaf,lock_bucket"));
}

TEST(Settings, NamesHaveHyphensOrUnderscores) {
    const auto hyphens = parse({"--steps", "ctx-only", "--team-policy", "last-leaver",
                                "--team-gate", "t-gated", "--lock-policy", "short-first"}),
               underscores = parse({"--steps", "ctx_only", "--team-policy", "last_leaver",
                                    "--team-gate", "t_gated", "--lock-policy", "short_first"});
    ASSERT_FALSE(hyphens.exit_status || underscores.exit_status);
    EXPECT_EQ(underscores.settings.steps.mode, StepsMode::ctx_only);
    EXPECT_EQ(underscores.settings.lock_policy, LockPolicy::short_first);
    // A report names them in one way, so that two reports can be compared.
    for (const Settings* s : {&hyphens.settings, &underscores.settings}) {
        EXPECT_EQ(s->steps_name, "ctx-only");
        EXPECT_EQ(s->team_policy_name, "last-leaver");
        EXPECT_EQ(s->team_gate_name, "t-gated");
        EXPECT_EQ(s->lock_policy_name, "short-first");
    }
}

TEST(Settings, LockPolicies) {
    const auto parsed = parse({"--lock-policy", "short-first", "--lock-bypass", "3"});
    ASSERT_FALSE(parsed.exit_status);
    const LockStageOptions stage = parsed.settings.store_options(1).lock_stage;
    EXPECT_EQ(stage.policy, LockPolicy::short_first);
    EXPECT_EQ(stage.bypass_max, 3u);
    EXPECT_EQ(parse({"--lock-policy", "local-first"}).settings.store_options(1).lock_stage.policy,
              LockPolicy::local_first);
    EXPECT_EQ(parse({}).settings.store_options(1).lock_stage.policy, LockPolicy::fifo);
    EXPECT_TRUE(parse({"--lock-policy", "shortest"}).exit_status);
    EXPECT_TRUE(parse({"--lock-bypass", "-1"}).exit_status);
}

TEST(Settings, TerminalsArePacketsUnlessTheyAreThreads) {
    const auto packets = parse({"--terminals", "50000"}),
               threads = parse({"--terminals", "50", "--terminals-as-threads"});
    ASSERT_FALSE(packets.exit_status || threads.exit_status);
    EXPECT_FALSE(packets.settings.run.terminals_as_threads);
    EXPECT_EQ(packets.settings.store_options(4).executors, Options{}.executors);
    EXPECT_TRUE(threads.settings.run.terminals_as_threads);
    EXPECT_GE(threads.settings.store_options(4).executors, 200u);
}

TEST(Settings, EverythingIsTaken) {
    const auto parsed = parse({"--path",         "/x",
                               "--warehouses",   "7",
                               "--workers",      "2",
                               "--pool",         "512M",
                               "--log-size",     "256M",
                               "--durability",   "durable",
                               "--isolation",    "read-committed",
                               "--seed",         "9",
                               "--io",           "pool",
                               "--txn",          "mix4",
                               "--calls",        "single",
                               "--transactions", "1000",
                               "--ack-fd",       "5",
                               "--terminals",    "3",
                               "--think",        "0.5",
                               "--json",         "j",
                               "--metrics",      "0.0.0.0:9464",
                               "--control",      "--picture",
                               "p.svg"});
    ASSERT_FALSE(parsed.exit_status);
    const Settings& s = parsed.settings;
    EXPECT_EQ(*s.warehouses, 7u);
    EXPECT_EQ(s.run.transactions, 1000u);
    EXPECT_EQ(s.run.warmup, 0u);
    EXPECT_EQ(s.run.mix, Mix::without_delivery);
    EXPECT_EQ(s.run.calls, Calls::single);
    EXPECT_EQ(s.run.executor.ack_fd, 5);
    EXPECT_EQ(s.run.executor.isolation, Isolation::read_committed);
    const Options o = s.store_options(7);
    EXPECT_EQ(o.pool_bytes, 512ull << 20);
    EXPECT_EQ(o.log_bytes, 256ull << 20);
    EXPECT_EQ(o.workers, 2u);
    EXPECT_EQ(o.io, IoMethod::pool);
    EXPECT_TRUE(o.control);
    EXPECT_EQ(s.metrics->host, "0.0.0.0");
    EXPECT_EQ(s.metrics->port, 9464);
    EXPECT_EQ(parse_metrics_address("1")->host, "127.0.0.1");
    EXPECT_TRUE(check_options(o));
}

TEST(Settings, OfferedLoad) {
    const Settings s = parse({"--rate", "2500", "--arrivals", "constant", "--weights", "1,0,2,0,30",
                              "--interval", "0.5", "--html", "h", "--csv", "c"})
                           .settings;
    EXPECT_EQ(s.run.rate.per_second, 2500);
    EXPECT_EQ(s.run.rate.kind, ArrivalKind::constant);
    EXPECT_EQ(s.run.weights, (MixWeights{1, 0, 2, 0, 30}));
    EXPECT_EQ(s.mix_name, "1,0,2,0,30");
    EXPECT_EQ(s.run.interval, kSecond / 2);
    EXPECT_EQ(s.html_file, "h");
    EXPECT_EQ(s.csv_directory, "c");
    EXPECT_EQ(s.command_line.substr(0, 26), "lockstep-tpcc --rate 2500 ");
    EXPECT_FALSE(parse({}).settings.run.weights);
    EXPECT_FALSE(parse({}).settings.seed);
    EXPECT_EQ(parse({"--seed", "3"}).settings.seed, 3u);
}

// With think times, terminals begin by keying and thinking: each has two turns before it counts.
TEST(Settings, WarmUpDependsOnThinkTimes) {
    const auto warmup = [](std::vector<const char*> arguments) {
        return parse(std::move(arguments)).settings.run.warmup;
    };
    EXPECT_EQ(warmup({}), 3 * kSecond);
    EXPECT_EQ(warmup({"--think", "1"}), 60 * kSecond);
    EXPECT_EQ(warmup({"--think", "0.01"}), 3 * kSecond);
    EXPECT_EQ(warmup({"--think", "1", "--warmup", "7"}), 7 * kSecond);
    EXPECT_EQ(warmup({"--transactions", "9"}), 0u);
    EXPECT_EQ(warmup({"--transactions", "9", "--warmup", "2"}), 2 * kSecond);
}

// The other programs call it --seconds; help names the driver's own.
TEST(Settings, SecondsAreTheDuration) {
    EXPECT_EQ(parse({"--seconds", "2.5"}).settings.run.duration, 5 * kSecond / 2);
    EXPECT_TRUE(parse({"--seconds", "1", "--transactions", "5"}).exit_status);
    testing::internal::CaptureStdout();
    EXPECT_EQ(parse({"--help"}).exit_status, 0);
    const std::string help = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(help.contains("  --duration FLOAT") && !help.contains("--seconds")) << help;
    EXPECT_TRUE(help.contains("  -w,--warehouses UINT")) << help;
}

TEST(Settings, ALoadNeedsSpaceOnTheDisk) {
    EXPECT_EQ(load_space(10, 1ull << 40).sum(), 1500ull << 20);
    EXPECT_EQ(load_space(10, 64 << 20).sum(), 864ull << 20);
    EXPECT_TRUE(require_load_space("/", 1, 64 << 20));
    EXPECT_TRUE(require_load_space("/proc/no/such/directory", 1000, 64 << 20));
    // More than any disk has.
    const auto refused = require_load_space("/", 4'000'000'000u, 64 << 20);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::no_space);
    const std::string text = refused.error().text();
    for (const char* part :
         {"4000000000 warehouses take about 312500000.1 GB", "GB free", "--warehouses", "--path"})
        EXPECT_TRUE(text.contains(part)) << text;
}

TEST(Settings, NonsenseIsRefused) {
    const std::vector<std::vector<const char*>> refused = {
        {"--warehouses", "0"},
        {"--warehouses", "x"},
        {"--pool", "12Q"},
        {"--txn", "all"},
        {"--calls", "both"},
        {"--durability", "no"},
        {"--nonsense"},
        {"--workers", "65"},
        {"--duration", "1", "--transactions", "5"},
        {"--ack-fd", "3"},
        {"--check-only"},
        {"--dump", "d"},
        {"--picture", "x.gif"},
        {"--check-acks", "f"},
        {"--path", "p", "--check-only", "--dump", "d"},
        {"--metrics", "localhost:1"},
        {"--metrics", "65536"},
        {"--isolation", "snapshot"},
        {"--rate", "-1"},
        {"--rate", "5", "--think", "1"},
        {"--arrivals", "constant"},
        {"--rate", "5", "--arrivals", "daily"},
        {"--weights", "1,2,3,4"},
        {"--weights", "0,0,0,0,0"},
        {"--weights", "1,2,3,4,5,"},
        {"--weights", "1,2,3,4,5", "--txn", "mix4"},
        {"--interval", "0"},
        {"--path", "p", "--check-only", "--csv", "d"}};
    for (const auto& arguments : refused) {
        testing::internal::CaptureStderr();
        const auto parsed = parse(arguments);
        const std::string text = testing::internal::GetCapturedStderr();
        ASSERT_TRUE(parsed.exit_status) << arguments[0];
        EXPECT_NE(*parsed.exit_status, 0);
        EXPECT_FALSE(text.empty());
    }
}

// The message names the option and its range, not the field of the store's options.
TEST(Settings, SizesOutsideTheirRangeAreRefused) {
    for (const char* option : {"--pool", "--log-size"}) {
        for (const char* size : {"3", "4095K", "1T"}) {
            testing::internal::CaptureStderr();
            const auto parsed = parse({option, size});
            const std::string text = testing::internal::GetCapturedStderr();
            ASSERT_TRUE(parsed.exit_status) << option << ' ' << size;
            EXPECT_NE(text.find(std::string(option) + ": is not in the range 4M to 1023G: " + size),
                      std::string::npos)
                << text;
        }
        for (const char* size : {"4M", "1023G"}) {
            const auto parsed = parse({option, size});
            ASSERT_FALSE(parsed.exit_status) << option << ' ' << size;
            EXPECT_TRUE(check_options(parsed.settings.store_options(1))) << option << ' ' << size;
        }
    }
}

TEST(Settings, Sizes) {
    EXPECT_EQ(parse_size("512M"), 512ull << 20);
    EXPECT_EQ(parse_size("2g"), 2ull << 30);
    EXPECT_EQ(parse_size("4096"), 4096u);
    for (const char* bad :
         {"", "M", "-1", "1.5G", "1MB", "0", "99999999999999999999", "99999999999999T"})
        EXPECT_FALSE(parse_size(bad)) << bad;
}

}  // namespace lockstep::tpcc::settings_test
