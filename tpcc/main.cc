// main.cc - the driver program: open or load, run, check, report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "threads/base/try.h"
#include "tpcc/ack.h"
#include "tpcc/dump.h"
#include "tpcc/loader.h"
#include "tpcc/metrics_server.h"
#include "tpcc/progress.h"
#include "tpcc/report.h"

namespace lockstep::tpcc {
namespace {

constexpr int kExitBroken = 1, kExitError = 2, kExitInterrupted = 130;

// The directory of the database; a temporary one is removed at the end.
class Directory {
public:
    static Result<Directory> open(const std::string& path) {
        if (!path.empty()) return Directory(path, false);
        const char* base = std::getenv("TMPDIR");
        std::string name = std::string(base && *base ? base : "/tmp") + "/lockstep-tpcc-XXXXXX";
        if (!mkdtemp(name.data()))
            return fail_os(ErrorCode::bad_path, errno, "temporary directory");
        return Directory(name, true);
    }
    Directory(Directory&& o) noexcept
        : path_(std::exchange(o.path_, {})), temporary_(o.temporary_) {}
    Directory& operator=(Directory&&) = delete;
    ~Directory() {
        std::error_code ignored;
        if (temporary_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }
    std::string path_if_temporary() const { return temporary_ ? path_ : ""; }

private:
    Directory(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}
    std::string path_;
    bool temporary_;
};

// Dates in rows are nanoseconds since 1970; the store's clock has another origin.
Time clock_offset() {
    const auto day = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    return day.count() - static_cast<Time>(MonotonicClock().now());
}

Result<Database> load_database(Store& store, const Settings& settings, const Directory& directory,
                               Interrupt& interrupt, Nanos& took) {
    LoadSettings load_settings;
    load_settings.scale.warehouses = settings.warehouse_count();
    load_settings.seed = settings.run.seed;
    load_settings.load_time =
        settings.run.executor.clock_offset + static_cast<Time>(MonotonicClock().now());
    LoadProgress progress;
    const Nanos start = MonotonicClock().now();
    auto database = [&] {
        Watch watch(&progress, interrupt, directory.path_if_temporary());
        return load(store, load_settings, progress);
    }();
    took = MonotonicClock().now() - start;
    if (database)
        fmt::print("loaded {} warehouses, {} rows, in {:.2f} s\n", load_settings.scale.warehouses,
                   progress.rows.load(), static_cast<double>(took) / static_cast<double>(kSecond));
    return database;
}

// The database in an open store. It is loaded first if the store has no tables and the action is a
// run.
Result<Database> find_database(Store& store, const Settings& settings, const Directory& directory,
                               Interrupt& interrupt, Nanos& load_nanos) {
    if (!has_tables(store)) {
        if (settings.action == Action::run)
            return load_database(store, settings, directory, interrupt, load_nanos);
        return fail(ErrorCode::no_such_object, "the store holds no TPC-C tables");
    }
    Database db = TRY(open_database(store));
    if (settings.warehouses && *settings.warehouses != db.scale.warehouses)
        return fail(ErrorCode::bad_option,
                    "--warehouses: the existing database has another number of warehouses",
                    *settings.warehouses, db.scale.warehouses);
    fmt::print("reopened {}: {} warehouses\n", directory.path(), db.scale.warehouses);
    return db;
}

Result<void> run_and_print(Database& db, const Settings& settings, Interrupt& interrupt,
                           Results& results, bool& interrupted) {
    results.before = db.store->stats();
    const StepsStats loaded = db.store->steps_stats();
    uint64_t last = 0;
    Nanos last_time = 0;
    auto progress = [&](const RunProgress& p) {
        const double rate = static_cast<double>(p.completed - last) * static_cast<double>(kSecond) /
                            static_cast<double>(p.elapsed - last_time);
        last = p.completed;
        last_time = p.elapsed;
        show_line(fmt::format("{} {:.0f} s: {} transactions, {:.0f} a second now",
                              p.elapsed < settings.run.warmup ? "warming up" : "running",
                              static_cast<double>(p.elapsed) / static_cast<double>(kSecond),
                              p.completed, rate));
        if (interrupt.take()) interrupted = true;
        return !interrupted;
    };
    OnlineAudit audit(db, settings.audit_every, [](const OnlineCheck& check) {
        show_line("");
        print_online_check(check);
    });
    if (settings.audit_every != 0) audit.start();
    auto run = run_terminals(db, settings.run, progress);
    show_line("");
    const Result<void> audited = settings.audit_every != 0 ? audit.stop() : Result<void>();
    if (!run) return std::unexpected(run.error());
    TRY(audited);
    results.online_checks = audit.checks();
    results.run = std::move(*run);
    results.after = db.store->stats();
    results.steps = db.store->steps_stats() - loaded;
    print_run(results);
    return {};
}

// True: every condition holds, and every acknowledged transaction is there.
Result<bool> check_and_print(Database& db, const Settings& settings, const Directory& directory,
                             Interrupt& interrupt, Results& results) {
    Watch watch(nullptr, interrupt, directory.path_if_temporary());
    results.consistency = TRY(check_consistency(db));
    print_consistency(results.consistency);
    if (settings.ack_check_file.empty()) return results.consistency.ok();
    const AckReport acks = TRY(check_acks(db, settings.ack_check_file));
    for (const std::string& fault : acks.faults) fmt::print("LOST    {}\n", fault);
    fmt::print("acknowledged: {} New-Orders, {} Payments, {} Deliveries; lost: {}\n",
               acks.new_orders, acks.payments, acks.deliveries, acks.faults.size());
    return results.consistency.ok() && acks.faults.empty();
}

Result<int> write_outputs(const Settings& settings, const Results& results) {
    if (!settings.json_file.empty()) TRY(write_json(results, settings.json_file));
    if (!settings.delivery_file.empty() && results.run)
        TRY(write_delivery_log(*results.run, settings.delivery_file));
    if (!settings.picture_file.empty() && results.run &&
        !draw_picture(results, settings.picture_file))
        return kExitError;
    return 0;
}

// Checked before a long run, so that its results can be written at the end.
bool can_write_outputs(const Settings& settings) {
    for (const std::string* file :
         {&settings.json_file, &settings.delivery_file, &settings.picture_file}) {
        if (file->empty() || std::ofstream(*file, std::ios::app)) continue;
        fmt::print(stderr, "lockstep-tpcc: {} cannot be written: {}\n", *file,
                   std::strerror(errno));
        return false;
    }
    return true;
}

// Size of the largest file of an existing database, which is the volume.
uint64_t existing_bytes(const std::string& path) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
        const uint64_t size = entry.file_size(error);
        if (!error) bytes = std::max(bytes, size);
    }
    return bytes;
}

Result<int> work(Store& store, const Settings& settings, const Directory& directory,
                 Interrupt& interrupt) {
    Results results;
    results.settings = &settings;
    results.options = store.options();
    Database db = TRY(find_database(store, settings, directory, interrupt, results.load_nanos));
    results.scale = db.scale;
    results.load_seed = db.seed;
    results.after = results.before = store.stats();
    if (settings.action == Action::dump) {
        TRY(dump_tables(db, settings.dump_directory));
        fmt::print("tables written to {}\n", settings.dump_directory);
        return 0;
    }
    bool interrupted = false;
    if (settings.action == Action::run)
        TRY(run_and_print(db, settings, interrupt, results, interrupted));
    const bool sound = TRY(check_and_print(db, settings, directory, interrupt, results));
    const int written = TRY(write_outputs(settings, results));
    const bool sound_online = std::ranges::all_of(
        results.online_checks, [](const OnlineCheck& check) { return check.report.ok(); });
    if (!sound || !sound_online) return kExitBroken;
    return interrupted ? kExitInterrupted : written;
}

void print_error(const std::string& path, const Error& error) {
    fmt::print(stderr, "lockstep-tpcc: {}: {}\n", path, error.text());
}

int run_program(Settings settings) {
    Interrupt interrupt;
    settings.run.executor.clock_offset = clock_offset();
    if (!can_write_outputs(settings)) return kExitError;
    auto directory = Directory::open(settings.path);
    if (!directory) {
        print_error("temporary directory", directory.error());
        return kExitError;
    }
    Options options =
        settings.store_options(settings.warehouse_count(), existing_bytes(directory->path()));
    options.logger = [](int level, std::string_view text) {
        if (level <= 1) fmt::print(stderr, "lockstep-tpcc: {}\n", text);
    };
    auto store = [&] {
        Watch watch(nullptr, interrupt, directory->path_if_temporary());
        return Store::open(directory->path(), options);
    }();
    if (!store) {
        print_error(directory->path(), store.error());
        return kExitError;
    }
    std::optional<MetricsServer> metrics;
    if (settings.metrics) {
        auto started = MetricsServer::start(*store, *settings.metrics);
        if (!started) {
            print_error(directory->path(), started.error());
            return kExitError;
        }
        metrics = std::move(*started);
        fmt::print("metrics: http://{}:{}/metrics\n", settings.metrics->host, metrics->port());
        std::fflush(stdout);
    }
    const auto status = work(*store, settings, *directory, interrupt);
    metrics.reset();
    if (!status) print_error(directory->path(), status.error());
    const auto closed = store->close();
    if (!closed) print_error(directory->path(), closed.error());
    return status && closed ? *status : kExitError;
}

}  // namespace
}  // namespace lockstep::tpcc

int main(int argc, char** argv) {
    auto parsed = lockstep::tpcc::parse_command_line(argc, argv);
    if (parsed.exit_status) return *parsed.exit_status;
    return lockstep::tpcc::run_program(std::move(parsed.settings));
}
