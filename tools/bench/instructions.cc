// instructions.cc - exact instruction counts of TPC-C transactions and of single operations, with
// their code footprint in cache lines.
//
// Concepts   The benchmark starts itself under valgrind's callgrind, which counts nothing until the
//            child says so: the load and a warm-up run at almost full speed, and the counted region
//            holds nothing but the work. Counts of one binary and seed repeat within 0.2%, whatever
//            else the machine does.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <lockstep/sync.h>
#include "tools/bench/bench.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kCounted = 10'000;
constexpr uint64_t kOperations = 500;
constexpr uint64_t kReads = 10;  // in a transaction that reads
constexpr uint64_t kLongScan = 100;

enum class Reads : uint8_t { gets, group, scan, long_scan };
struct Reading {
    const char* name;
    Reads how;
    Isolation isolation;
};
constexpr Reading kReadings[] = {
    {"10 gets, serializable", Reads::gets, Isolation::serializable},
    {"10 gets, read_committed", Reads::gets, Isolation::read_committed},
    {"10 gets, snapshot", Reads::gets, Isolation::snapshot},
    {"get_many of 10, serializable", Reads::group, Isolation::serializable},
    {"get_many of 10, read_committed", Reads::group, Isolation::read_committed},
    {"get_many of 10, snapshot", Reads::group, Isolation::snapshot},
    {"scan of 10, serializable", Reads::scan, Isolation::serializable},
    {"scan of 10, read_committed", Reads::scan, Isolation::read_committed},
    {"scan of 10, snapshot", Reads::scan, Isolation::snapshot},
    {"scan of 100, serializable", Reads::long_scan, Isolation::serializable},
    {"scan of 100, read_committed", Reads::long_scan, Isolation::read_committed},
    {"scan of 100, snapshot", Reads::long_scan, Isolation::snapshot}};

// Parts of a transaction that reads one record, and the read that needs no transaction.
constexpr const char* kReaderParts[] = {"begin of a reader", "fetch of a reader",
                                        "commit of a reader", "get without a transaction"};

// Transactions of TPC-C, as `--what` names them; with an ending they run in teams, or beside an
// idle snapshot.
struct Work {
    std::string name;
    tpcc::Mix mix;
    const char* goal;
};
const Work kWorks[] = {{"payment", tpcc::Mix::payment, "<= 11000"},
                       {"neworder", tpcc::Mix::new_order, "<= 45000"},
                       {"mix", tpcc::Mix::full, "<= 48000"}};
constexpr const char* kWithSteps = " steps";
constexpr const char* kBesideSnapshot = " snapshot";

// --- the child

// Valgrind makes slices so long that they would be reported, and the report's instructions would be
// counted: it looks up the names of a stack.
constexpr std::nullopt_t kUnwatched = std::nullopt;

// A snapshot transaction that stays open and reads nothing.
class IdleSnapshot {
public:
    explicit IdleSnapshot(Store& store)
        : held_(store.start([this, &store]() -> Result<void> {
              Txn txn = TRY(store.begin({.isolation = Isolation::snapshot}));
              open_.set();
              TRY(end_.wait());
              TRY(txn.commit());
              return {};
          })) {
        CHECK(open_.wait());
    }
    Result<void> end() {
        end_.set();
        return held_.join();
    }

private:
    Event open_, end_;
    Handle<void> held_;
};

Result<void> count_tpcc(const Settings& settings, tpcc::Mix mix, StepsMode mode, bool snapshot) {
    const uint32_t warehouses = std::max(settings.warehouses, 1u);
    StepsOptions steps = settings.steps;
    steps.mode = mode;
    // The time of instructions that are counted says nothing.
    steps.window_records = 0;
    Store store =
        TRY(Store::open(settings.directory, {.pool_bytes = (warehouses * 160ull + 352) << 20,
                                             .executors = settings.executors(),
                                             .log_bytes = 8ull << 30,
                                             .io = IoMethod::pool,
                                             .slice_warning = kUnwatched,
                                             .steps = steps}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    tpcc::RunSettings run;
    run.mix = mix;
    run.terminals_as_threads = !settings.packets;
    run.warmup = 0;
    std::optional<IdleSnapshot> idle;
    if (snapshot) idle.emplace(store);
    run.transactions = 2 * kCounted;  // every page has its image in the log by then
    TRY(tpcc::run_terminals(db, run, {}));
    run.transactions = kCounted;
    run.seed = 2;
    CALLGRIND_START_INSTRUMENTATION;
    const auto done = tpcc::run_terminals(db, run, {});
    CALLGRIND_STOP_INSTRUMENTATION;
    if (!done) return std::unexpected(done.error());
    if (idle) TRY(idle->end());
    return store.close();
}

Result<Store> open_rows(const Settings& settings) {
    return Store::open(settings.directory, {.pool_bytes = 512ull << 20,
                                            .log_bytes = 8ull << 30,
                                            .io = IoMethod::pool,
                                            .slice_warning = kUnwatched});
}
constexpr uint64_t kRows = 200'000;

// Counts the calls of one kind. Toggles cost nothing outside of valgrind; inside they bracket the
// call alone.
class CountedCalls {
public:
    explicit CountedCalls(const std::string& name) : name_(name) {}
    void start() {
        counting_ = true;
        CALLGRIND_START_INSTRUMENTATION;
    }
    auto operator()(const char* operation, auto&& body) const {
        const bool mine = counting_ && name_ == operation;
        if (mine) CALLGRIND_TOGGLE_COLLECT;
        auto result = body();
        if (mine) CALLGRIND_TOGGLE_COLLECT;
        CHECK(result.has_value());  // so that callers may drop it
        return result;
    }

private:
    const std::string& name_;
    bool counting_ = false;
};

// The parts of kReaderParts: nothing is changed meanwhile.
Result<void> count_reader(const Settings& settings, const std::string& name) {
    Store store = TRY(open_rows(settings));
    const Index index = TRY(load_rows(store, kRows));
    TRY(on_user_thread(store, [&]() -> Result<void> {
        Rng rng(3);
        std::byte buffer[kRowBytes];
        CountedCalls counted(name);
        for (uint64_t i = 0; i < 3 * kOperations; ++i) {
            if (i == 2 * kOperations) counted.start();
            const Key key = Key().u64(rng.below(kRows)), other = Key().u64(rng.below(kRows));
            auto txn = counted(kReaderParts[0], [&] { return store.begin(); });
            (void)counted(kReaderParts[1], [&] { return index.get(*txn, key, buffer); });
            (void)counted(kReaderParts[2], [&] { return txn->commit(); });
            (void)counted(kReaderParts[3], [&] { return index.get(other, buffer); });
        }
        CALLGRIND_STOP_INSTRUMENTATION;
        return {};
    }));
    return store.close();
}

Result<void> count_operation(const Settings& settings, const std::string& name) {
    Store store = TRY(open_rows(settings));
    const Index index = TRY(load_rows(store, kRows));
    TRY(on_user_thread(store, [&]() -> Result<void> {
        Rng rng(3);
        std::byte buffer[kRowBytes];
        std::string value(kRowBytes, 'x');
        CountedCalls counted(name);
        for (uint64_t i = 0; i < 3 * kOperations; ++i) {
            if (i == 2 * kOperations) counted.start();
            auto txn =
                counted("begin", [&] { return store.begin({.durability = Durability::lazy}); });
            const Key key = Key().u64(rng.below(kRows / 2));
            (void)counted("fetch", [&] { return index.get(*txn, key, buffer, Access::update); });
            value[i % kRowBytes] ^= 1;
            (void)counted("update", [&] { return index.update(*txn, key, value); });
            (void)counted("insert", [&] {
                return index.insert(*txn, Key().u64(rng.below(kRows / 2)).u64(i), value);
            });
            // What was deleted wakes the ghost cleaner, and begin() gives it its turn: work that is
            // not begin's.
            if (name != "begin")
                (void)counted("delete",
                              [&] { return index.erase(*txn, Key().u64(kRows / 2 + i)); });
            Cursor cursor = index.scan(*txn, Key().u64(rng.below(kRows / 2)));
            CHECK(cursor.next().has_value());
            (void)counted("scan step", [&] { return cursor.next(); });
            (void)counted("commit", [&] { return txn->commit(); });
        }
        CALLGRIND_STOP_INSTRUMENTATION;
        return {};
    }));
    return store.close();
}

Result<void> read_some(const Index& index, Txn& txn, Reads how, uint64_t first) {
    std::byte buffers[kReads][kRowBytes];
    Key keys[kReads];
    for (uint64_t i = 0; i < kReads; ++i)
        keys[i] = Key().u64(how == Reads::gets || how == Reads::group ? first * (i + 1) : first);
    if (how == Reads::group) {
        Lookup rows[kReads];
        for (uint64_t i = 0; i < kReads; ++i) rows[i] = {.key = keys[i], .buffer = buffers[i]};
        TRY(index.get_many(txn, rows));
        return {};
    }
    if (how == Reads::gets) {
        for (uint64_t i = 0; i < kReads; ++i) TRY(index.get(txn, keys[i], buffers[i]));
        return {};
    }
    Cursor cursor = index.scan(txn, keys[0]);
    const uint64_t steps = how == Reads::scan ? kReads : kLongScan;
    for (uint64_t i = 0; i < steps; ++i) TRY(cursor.next());
    return {};
}

// Transactions that read some records, from begin to commit.
Result<void> count_reads(const Settings& settings, const Reading& reading) {
    Store store = TRY(open_rows(settings));
    const Index index = TRY(load_rows(store, kRows));
    TRY(on_user_thread(store, [&]() -> Result<void> {
        Rng rng(3);
        for (uint64_t i = 0; i < 3 * kOperations; ++i) {
            if (i == 2 * kOperations) CALLGRIND_START_INSTRUMENTATION;
            const uint64_t first = rng.below(kRows / kReads - 1);
            const bool counted = i >= 2 * kOperations;
            if (counted) CALLGRIND_TOGGLE_COLLECT;
            Txn txn =
                TRY(store.begin({.isolation = reading.isolation, .durability = Durability::lazy}));
            TRY(read_some(index, txn, reading.how, first));
            TRY(txn.commit());
            if (counted) CALLGRIND_TOGGLE_COLLECT;
        }
        CALLGRIND_STOP_INSTRUMENTATION;
        return {};
    }));
    return store.close();
}

// --- the parent

struct Counted {
    uint64_t instructions = 0;
    size_t lines = 0;  // distinct 64-byte lines of code
};

// Reads callgrind's output made with --dump-instr=yes --compress-pos=no: cost lines are "0xADDRESS
// line cost", inclusive costs of calls follow a "calls=" line and are not the line's own.
Result<Counted> read_counts(const std::string& file) {
    std::ifstream in(file);
    Counted counted;
    std::set<uint64_t> lines;
    bool skip = false;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("calls=")) {
            skip = true;
        } else if (line.starts_with("0x")) {
            char* rest = nullptr;
            const uint64_t address = std::strtoull(line.c_str(), &rest, 16);
            std::strtoull(rest, &rest, 10);
            const uint64_t cost = std::strtoull(rest, &rest, 10);
            if (!std::exchange(skip, false) && cost > 0) {
                counted.instructions += cost;
                lines.insert(address / kCacheLineBytes);
            }
        }
    }
    if (counted.instructions == 0)
        return fail(ErrorCode::io_error, "callgrind counted nothing: is valgrind installed?");
    counted.lines = lines.size();
    return counted;
}

Result<Counted> count_child(const Settings& settings, const std::string& what,
                            bool collect_at_start) {
    const std::string out = settings.directory + "/callgrind.out",
                      path = settings.directory + "/child";
    std::vector<std::string> words = {
        "valgrind",
        "-q",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--dump-instr=yes",
        "--compress-pos=no",
        "--compress-strings=no",
        "--callgrind-out-file=" + out,
        collect_at_start ? "--collect-atstart=yes" : "--collect-atstart=no",
        settings.self,
        "count",
        "--what",
        what,
        "--path",
        path,
        "--warehouses",
        std::to_string(settings.warehouses)};
    if (settings.packets) words.emplace_back("--packets");
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        execvp("valgrind", argv.data());
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail(ErrorCode::unsupported, "valgrind's callgrind could not run the child",
                    static_cast<uint64_t>(status));
    return read_counts(out);
}

}  // namespace

// The child's side of `instructions`; not meant for people.
Result<void> bench_count(const Settings& settings, Report&) {
    for (const Work& work : kWorks) {
        if (settings.what == work.name)
            return count_tpcc(settings, work.mix, StepsMode::off, false);
        if (settings.what == work.name + kWithSteps)
            return count_tpcc(settings, work.mix, StepsMode::on, false);
        if (settings.what == work.name + kBesideSnapshot)
            return count_tpcc(settings, work.mix, StepsMode::off, true);
    }
    for (const Reading& reading : kReadings)
        if (settings.what == reading.name) return count_reads(settings, reading);
    if (std::ranges::find(kReaderParts, settings.what) != std::end(kReaderParts))
        return count_reader(settings, settings.what);
    return count_operation(settings, settings.what);
}

Result<void> bench_instructions(const Settings& settings, Report& report) {
    const auto per = [](const Counted& c, uint64_t n) {
        return static_cast<double>(c.instructions) / static_cast<double>(n);
    };
    for (const Work& work : kWorks) {
        const Counted base = TRY(count_child(settings, work.name, true));
        report.measurement("instructions per transaction, " + work.name, per(base, kCounted), "",
                           work.goal);
        report.measurement("  distinct lines of code", static_cast<double>(base.lines), "x 64 B");
        const Counted steps = TRY(count_child(settings, work.name + kWithSteps, true));
        report.measurement("  with STEPS on", per(steps, kCounted), "", "<= 1.05 times");
        const Counted beside = TRY(count_child(settings, work.name + kBesideSnapshot, true));
        report.measurement("  beside an idle snapshot", per(beside, kCounted), "", "<= 1.12 times");
    }
    for (const char* name : {"begin", "fetch", "update", "insert", "delete", "scan step", "commit",
                             kReaderParts[0], kReaderParts[1], kReaderParts[2], kReaderParts[3]}) {
        const Counted c = TRY(count_child(settings, name, false));
        report.measurement(fmt::format("instructions per operation, {}", name), per(c, kOperations),
                           "");
        report.measurement("  distinct lines of code", static_cast<double>(c.lines), "x 64 B");
    }
    for (const Reading& reading : kReadings)
        report.measurement(fmt::format("instructions per transaction, {}", reading.name),
                           per(TRY(count_child(settings, reading.name, false)), kOperations), "");
    return {};
}

}  // namespace lockstep::bench
