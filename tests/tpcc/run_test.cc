// labels: unit
// run_test.cc - terminals on one and two workers, every mix, contention, durable
// commits, acknowledgements, the CSV dump; all conditions hold after each.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include <lockstep/sync.h>
#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/ack.h"
#include "tpcc/consistency.h"
#include "tpcc/delivery_log.h"
#include "tpcc/driver.h"
#include "tpcc/dump.h"
#include "tpcc/run_record.h"

namespace lockstep::tpcc::run_test {

RunSettings small_run(uint64_t transactions) {
    RunSettings settings;
    settings.transactions = transactions;
    settings.warmup = 0;
    settings.terminals = 4;
    settings.seed = seed_of_run(42);
    return settings;
}

uint64_t count(const RunReport& report, TxnType type) {
    return report.stats.types[static_cast<size_t>(type)].latency.count();
}

std::unique_ptr<RunReport> run_and_check(Database& db, const RunSettings& settings) {
    auto report = run_terminals(db, settings, nullptr);
    EXPECT_TRUE(report) << report.error().text();
    const auto consistency = check_consistency(db);
    EXPECT_TRUE(consistency) << consistency.error().text();
    for (const Condition& c : consistency->conditions)
        EXPECT_TRUE(c.ok()) << c.id << ": " << (c.faults.empty() ? "" : c.faults[0]);
    for (const std::string& fault : consistency->index_faults) ADD_FAILURE() << fault;
    return std::move(*report);
}

struct RunOnWorkers : testing::TestWithParam<uint32_t> {};

TEST_P(RunOnWorkers, FullMix) {
    TestStore store(GetParam());
    Database db = load_small(*store);
    RunSettings settings = small_run(2300);
    uint64_t deliveries = 0;
    settings.on_deliveries = [&](std::span<const DeliveryResult> results) -> Result<void> {
        deliveries += results.size();
        return {};
    };
    const auto report = run_and_check(db, settings);
    uint64_t sum = 0;
    for (size_t t = 0; t < kTxnTypes; ++t) sum += count(*report, static_cast<TxnType>(t));
    EXPECT_EQ(sum, 2300u);
    EXPECT_GT(count(*report, TxnType::new_order), 900u);
    EXPECT_GT(count(*report, TxnType::delivery), 60u);
    EXPECT_EQ(deliveries, count(*report, TxnType::delivery));
    EXPECT_EQ(deliveries, report->stats.delivery_interactive.count());
    const InputCounts& inputs = report->stats.inputs;
    const uint64_t orders = count(*report, TxnType::new_order);
    EXPECT_GE(inputs.order_lines, 9 * orders);
    EXPECT_LE(inputs.order_lines, 11 * orders);
    EXPECT_GT(inputs.order_lines_remote, 0u);
    EXPECT_LE(inputs.order_lines_remote, inputs.order_lines / 20);
    const uint64_t payments = count(*report, TxnType::payment);
    EXPECT_NEAR(static_cast<double>(inputs.payments_remote) / static_cast<double>(payments), 0.15,
                0.06);
    EXPECT_NEAR(static_cast<double>(inputs.payments_by_name) / static_cast<double>(payments), 0.6,
                0.08);
    EXPECT_GT(inputs.order_status_by_name, 0u);
    EXPECT_GT(report->tx_per_s(), 0);
    EXPECT_NEAR(report->new_orders_per_minute() / 60 / report->tx_per_s(), 10.0 / 23, 0.03);
}

// More terminals than the queue of a warehouse has places: some wait, and the interactive part of
// their Deliveries has that wait.
TEST_P(RunOnWorkers, DeliveriesMeetAFullQueue) {
    TestStore store(GetParam());
    Database db = load_small(*store, small_scale(1));
    RunSettings settings = small_run(2400);
    settings.terminals = 800;
    settings.weights = MixWeights{0, 0, 0, 1, 0};
    const auto report = run_and_check(db, settings);
    EXPECT_EQ(count(*report, TxnType::delivery), 2400u);
    const auto& queued = report->stats.delivery_interactive;
    EXPECT_EQ(queued.count(), 2400u);
    EXPECT_GE(queued.max(), kMillisecond);
}

// One warehouse whose terminals are spread over the workers: every transaction meets the others at
// the same rows.
TEST_P(RunOnWorkers, Contention) {
    TestStore store(GetParam());
    Database db = load_small(*store, small_scale(1));
    RunSettings settings = small_run(2000);
    settings.terminals = 12;
    const auto report = run_and_check(db, settings);
    EXPECT_GT(count(*report, TxnType::payment), 700u);
}

TEST_P(RunOnWorkers, DurableMixWithAcknowledgements) {
    TestStore store(GetParam());
    Database db = load_small(*store);
    RunSettings settings = small_run(600);
    settings.executor.durability = Durability::durable;
    const std::string acks = store.path() + "/acks";
    settings.executor.ack_fd = ::open(acks.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    const auto report = run_and_check(db, settings);
    ::close(settings.executor.ack_fd);
    auto checked = check_acks(db, acks);
    ASSERT_TRUE(checked) << checked.error().text();
    const auto& orders = report->stats.types[static_cast<size_t>(TxnType::new_order)];
    EXPECT_EQ(checked->new_orders, orders.latency.count() - orders.rolled_back);
    EXPECT_EQ(checked->payments, count(*report, TxnType::payment));
    EXPECT_EQ(checked->deliveries, count(*report, TxnType::delivery));
    EXPECT_TRUE(checked->faults.empty()) << checked->faults[0];

    // What was never done must be missed.
    std::ofstream(acks, std::ios::app)
        << "N 1 1 1 999999 5\nP 1 1 1 1 1 1 12345 678\nD 1 1 3 1:999999\nN 1 1";
    checked = check_acks(db, acks);
    ASSERT_TRUE(checked) << checked.error().text();
    EXPECT_EQ(checked->faults.size(), 3u);
    std::ofstream(acks, std::ios::app) << "\nnonsense\n";
    checked = check_acks(db, acks);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::bad_argument);
}

INSTANTIATE_TEST_SUITE_P(Workers, RunOnWorkers, testing::Values(1u, 2u));

TEST(Run, EveryMixAndIsolation) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(400);
    settings.mix = Mix::payment;
    auto report = run_and_check(db, settings);
    EXPECT_EQ(count(*report, TxnType::payment), 400u);
    settings.mix = Mix::new_order;
    report = run_and_check(db, settings);
    EXPECT_EQ(count(*report, TxnType::new_order), 400u);
    EXPECT_GT(report->stats.types[0].rolled_back, 0u);
    settings.mix = Mix::without_delivery;
    settings.executor.isolation = Isolation::repeatable_read;
    report = run_and_check(db, settings);
    EXPECT_EQ(count(*report, TxnType::delivery), 0u);
    settings.executor.isolation = Isolation::read_committed;
    run_and_check(db, settings);
}

TEST(Run, TerminalsAsThreads) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(1000);
    settings.terminals_as_threads = true;
    settings.terminals = 20;
    const auto report = run_and_check(db, settings);
    EXPECT_GT(count(*report, TxnType::new_order), 300u);
}

// They wait without stacks, and the run ends on time although their think times last minutes.
TEST(Run, ManyTerminalsThink) {
    TestStore store;
    Database db = load_small(*store);
    const uint64_t before = store->stats().threads_max;
    RunSettings settings = small_run(0);
    settings.terminals = 10'000;
    settings.think = 1;
    settings.duration = kSecond / 2;
    const Nanos start = now();
    const auto report = run_terminals(db, settings, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_LT(now() - start, 30 * kSecond);
    EXPECT_EQ(store->stats().packets_timed, 0u);
    EXPECT_LT(store->stats().threads_max, before + 40);
}

// One record a call does the same work, in more log records. One terminal: the order of the
// transactions is that of its input. Rows without times are compared.
TEST(Run, OneRecordACall) {
    TestStore many_store, single_store;
    Database many = load_small(*many_store, small_scale(1)),
             single = load_small(*single_store, small_scale(1));
    RunSettings settings = small_run(3000);
    settings.terminals = 1;
    const auto log_records = [&](Database& db, Calls calls) {
        settings.calls = calls;
        const uint64_t before = db.store->stats().log_records;
        const auto report = run_and_check(db, settings);
        EXPECT_GT(report->stats.types[0].rolled_back, 0u);  // an item that does not exist
        return db.store->stats().log_records - before;
    };
    const uint64_t of_many = log_records(many, Calls::many);
    EXPECT_GT(log_records(single, Calls::single), of_many + 400);
    for (const auto table : {&Database::warehouse, &Database::district, &Database::stock})
        EXPECT_EQ(rows_of(many, many.*table), rows_of(single, single.*table));
}

TEST(Run, DurationAndWarmupAreKept) {
    TestStore store;
    Database db = load_small(*store);
    // On a busy machine a short phase may have no transaction: then the next one is longer.
    for (Nanos length = 50 * kMillisecond;; length *= 2) {
        ASSERT_LT(length, 60 * kSecond) << "no transaction ended in the half of that";
        RunSettings settings = small_run(0);
        settings.warmup = length;
        settings.duration = 4 * length;
        settings.interval = 10 * length;
        const auto report = run_and_check(db, settings);
        EXPECT_EQ(report->measured, settings.duration);
        const uint64_t measured = report->completed(),
                       warmup = report->series.points().front().all.count;
        if (measured == 0 || warmup == 0) continue;
        // Those of the warm-up are not counted.
        EXPECT_LE(measured, report->stats.completed.load() - warmup);
        return;
    }
}

TEST(Run, ThinkTimesSlowTerminalsDown) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(0);
    settings.warmup = 0;
    settings.duration = 300 * kMillisecond;
    settings.think = 0.01;  // New-Order: 180 ms of keying
    const auto report = run_and_check(db, settings);
    EXPECT_LT(report->stats.completed.load(), 8u * 15);
}

TEST(Run, FailsWithTheErrorOfADamagedDatabase) {
    TestStore store;
    Database db = load_small(*store);
    ASSERT_TRUE(store->run([&](Txn& txn) -> Result<void> {
        TRY(db.warehouse.erase(txn, warehouse_key(1)));
        return {};
    }));
    const auto report = run_terminals(db, small_run(100), nullptr);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::no_such_record);
    EXPECT_STREQ(report.error().what, "warehouse");
}

// What was measured until then is not lost.
TEST(Run, AFailureKeepsWhatWasMeasured) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(0);
    settings.duration = 100 * kSecond;
    settings.interval = 20 * kMillisecond;
    uint64_t delivered = 0;
    settings.on_deliveries = [&](std::span<const DeliveryResult> results) -> Result<void> {
        delivered += results.size();
        if (delivered < 100) return {};
        return fail(ErrorCode::no_space, "file of deliveries");
    };
    const auto report = measure_terminals(db, settings, nullptr);
    EXPECT_EQ(report->ending, Ending::failed);
    EXPECT_EQ(report->failure.code, ErrorCode::no_space);
    EXPECT_GT(report->completed(), 1000u);
    EXPECT_GT(report->measured, 0u);
    EXPECT_LT(report->measured, 50 * kSecond);
    // The points of the series cover all that was counted.
    uint64_t in_series = 0;
    for (const SeriesPoint& point : report->series.points()) in_series += point.all.count;
    EXPECT_EQ(in_series, report->stats.completed.load());
    EXPECT_FALSE(run_terminals(db, settings, nullptr));
}

// Also if the controller is late, as on a busy machine: then there are fewer points, but none has a
// part of two phases, and those of the measured interval have exactly its transactions.
TEST(Run, SeriesHasTheWholeRun) {
    for (const Nanos late : {Nanos{0}, 170 * kMillisecond, 600 * kMillisecond}) {
        TestStore store(2);
        Database db = load_small(*store);
        RunSettings settings = small_run(0);
        settings.warmup = 100 * kMillisecond;
        settings.duration = 300 * kMillisecond;
        settings.interval = 50 * kMillisecond;
        const auto report = run_terminals(db, settings, [late](const RunProgress&) {
            sleep_for(late);
            return true;
        });
        ASSERT_TRUE(report) << report.error().text();
        const Nanos begin = settings.warmup, finish = settings.warmup + settings.duration;
        Nanos end = 0, length = 0;
        uint64_t measured = 0, all = 0;
        for (const SeriesPoint& point : (*report)->series.points()) {
            EXPECT_EQ(point.begin, end);
            end = point.end;
            for (const Nanos border : {begin, finish})
                EXPECT_TRUE(point.end <= border || point.begin >= border);
            EXPECT_EQ(point.measured, point.begin >= begin && point.begin < finish);
            uint64_t sum = 0;
            for (const PointLatency& type : point.types) sum += type.count;
            EXPECT_EQ(sum, point.all.count);
            EXPECT_LE(point.all.p50, point.all.p90);
            EXPECT_LE(point.all.p99, point.all.p999);
            all += sum;
            if (!point.measured) continue;
            measured += sum;
            length += point.end - point.begin;
        }
        EXPECT_EQ(length, (*report)->measured);
        EXPECT_EQ(measured, (*report)->completed());
        EXPECT_EQ(all, (*report)->stats.completed.load());
    }
}

TEST(Run, FreeWeights) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(4000);
    settings.weights = MixWeights{3, 0, 1, 0, 0};
    const auto report = run_and_check(db, settings);
    EXPECT_NEAR(static_cast<double>(count(*report, TxnType::new_order)), 3000, 150);
    EXPECT_NEAR(static_cast<double>(count(*report, TxnType::order_status)), 1000, 150);
    EXPECT_EQ(count(*report, TxnType::payment) + count(*report, TxnType::delivery) +
                  count(*report, TxnType::stock_level),
              0u);
}

TEST(Run, EachRunOfADatabaseHasASeedOfItsOwn) {
    TestStore store;
    load_small(*store);
    std::set<uint64_t> seeds;
    for (uint32_t number = 1; number <= 4; ++number) {
        store.reopen();
        auto db = open_database(*store);
        ASSERT_TRUE(db) << db.error().text();
        const bool given = number == 3;
        const auto run = begin_run(*db, given ? std::optional<uint64_t>(77) : std::nullopt, 5);
        ASSERT_TRUE(run) << run.error().text();
        EXPECT_EQ(run->number, number);
        EXPECT_EQ(run->seed == 77, given);
        seeds.insert(run->seed);
    }
    EXPECT_EQ(seeds.size(), 4u);
    // The same for each copy of the database, so that a series of runs can be repeated.
    TestStore other;
    Database same = load_small(*other);
    EXPECT_TRUE(seeds.contains(begin_run(same, {}, 6)->seed));
}

TEST(Run, ProgressMayEndIt) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings settings = small_run(0);
    settings.duration = 100 * kSecond;
    const auto report =
        run_terminals(db, settings, [](const RunProgress& p) { return p.completed == 0; });
    ASSERT_TRUE(report);
    EXPECT_LT((*report)->measured, 20 * kSecond);
    EXPECT_EQ((*report)->ending, Ending::interrupted);
}

// Deliveries that are still queued at an early end are carried out, but not measured. A transaction
// that locks a new order holds them all up until the terminals have ended.
TEST(Run, DeliveriesBehindAnEarlyEndDoNotCount) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    Event locked, ends;
    auto holder = store->start([&] {
        return store->run([&](Txn& txn) -> Result<void> {
            Cursor orders = db.new_order.scan(txn, {}, {}, Access::update);
            EXPECT_TRUE(LOCKSTEP_TRY(orders.next()));
            locked.set();
            LOCKSTEP_TRY(ends.wait());
            sleep_for(300 * kMillisecond);  // a terminal ends within the run of one transaction
            return {};
        });
    });
    ASSERT_TRUE(locked.wait());
    RunSettings settings = small_run(0);
    settings.duration = 100 * kSecond;
    settings.interval = 20 * kMillisecond;
    settings.terminals = 800;
    settings.weights = MixWeights{0, 0, 0, 1, 0};
    size_t drained = 0;
    settings.on_deliveries = [&](std::span<const DeliveryResult> results) -> Result<void> {
        drained += results.size();
        return {};
    };
    const auto report = run_terminals(db, settings, [&](const RunProgress&) {
        ends.set();
        return false;
    });
    ASSERT_TRUE(report);
    ASSERT_TRUE(holder.join());
    EXPECT_EQ((*report)->ending, Ending::interrupted);
    EXPECT_GT(drained, 100u);
    EXPECT_EQ(count(**report, TxnType::delivery), 0u);
    for (const SeriesPoint& point : (*report)->series.points())
        EXPECT_TRUE(!point.measured || point.types[3].count == 0);
}

// A full disk ends the run with an error. It must not throw: the log is written on a user thread.
TEST(DeliveryLog, AFileThatTakesNoMoreIsAnError) {
    (void)signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    auto log = DeliveryLog::create("/proc/self/fd/" + std::to_string(ends[1]), 0);
    ASSERT_TRUE(log);
    close(ends[0]);
    const std::vector<DeliveryResult> many(1000);  // more than a buffer of stdio
    const auto written = log->write(many);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::io_error);
    close(ends[1]);
}

TEST(Dump, WritesEveryTable) {
    TestStore store;
    Database db = load_small(*store);
    const std::string directory = store.path() + "/csv";
    const auto done = dump_tables(db, directory);
    ASSERT_TRUE(done) << done.error().text();
    const std::map<std::string, size_t> expected = {
        {"warehouse", 2}, {"district", 6}, {"customer", 360},
        {"history", 360}, {"orders", 360}, {"new_order", 120},
        {"item", 300},    {"stock", 600},  {"order_line", rows_of(db, db.order_line).size()}};
    for (const auto& [table, rows] : expected) {
        std::ifstream file(directory + "/" + table + ".csv");
        std::string line, header;
        std::getline(file, header);
        size_t lines = 0;
        while (std::getline(file, line)) {
            ++lines;
            ASSERT_EQ(std::count(line.begin(), line.end(), ','),
                      std::count(header.begin(), header.end(), ','))
                << table << ": " << line;
        }
        EXPECT_EQ(lines, rows) << table;
    }
    std::ifstream warehouse(directory + "/warehouse.csv");
    std::string line;
    std::getline(warehouse, line);
    std::getline(warehouse, line);
    EXPECT_TRUE(line.starts_with("1,"));
    // 3 districts of 60 customers who paid 10.00.
    EXPECT_TRUE(line.ends_with(",1800.00")) << line;
    EXPECT_FALSE(dump_tables(db, "/proc/no/such/place"));
}

}  // namespace lockstep::tpcc::run_test
