// backup.cc - a backup against `cp`, one that is kept current, TPC-C beside backups, and a restore
// with the log archive against a plain restart.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <lockstep/backup.h>
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

constexpr int kPairs = 5;

double seconds_since(Nanos begin) {
    return static_cast<double>(MonotonicClock().now() - begin) / 1e9;
}

// The bytes of the data file by `cp` and `sync`. Seconds.
Result<double> copy_file(const std::string& from, const std::string& to) {
    const Nanos begin = MonotonicClock().now();
    const auto command = fmt::format("cp --sparse=never '{0}' '{1}' && sync '{1}'", from, to);
    if (std::system(command.c_str()) != 0) return fail(ErrorCode::io_error, "cp of the data file");
    const double seconds = seconds_since(begin);
    std::filesystem::remove(to);
    return seconds;
}

// Bytes a second of a backup, over those of `cp`; the latter are returned.
Result<double> against_cp(const Settings& settings, Report& report, Store& store) {
    const std::string data = settings.directory + "/tpcc/data", to = settings.directory + "/copy";
    const auto bytes = static_cast<double>(std::filesystem::file_size(data));
    std::vector<double> copies, backups, ratios;
    for (int pair = 0; pair <= kPairs; ++pair) {
        const double copied = TRY(copy_file(data, to));
        const Nanos begin = MonotonicClock().now();
        const BackupInfo info = TRY(store.backup(to));
        const double saved = seconds_since(begin);
        std::filesystem::remove_all(to);
        if (pair == 0) continue;  // the first gives the files of both their blocks
        copies.push_back(bytes / copied);
        backups.push_back(static_cast<double>(info.bytes) / saved);
        ratios.push_back(backups.back() / copies.back());
    }
    report.note(fmt::format("a data file of {:.0f} MB", bytes / 1e6));
    report.measurement("cp --sparse=never and sync", median(copies) / 1e6, "MB/s");
    report.measurement("backup", median(backups) / 1e6, "MB/s");
    report.measurement("  backup / cp, median of pairs", median(ratios), "times", ">= 0.7");
    return median(copies);
}

// Transactions a second of one interval, with backups one after another if `rate` is given: bytes a
// second, 0 = as fast as they can.
Result<double> interval(const Settings& settings, Store& store, tpcc::Database& db,
                        tpcc::RunSettings& run, std::optional<uint64_t> rate) {
    std::atomic<bool> stop{false};
    Result<void> failure;
    std::thread backups;
    if (rate)
        backups = std::thread([&] {
            const std::string to = settings.directory + "/beside";
            while (failure && !stop.load()) {
                const auto made = store.backup(to, {.bytes_per_second = *rate});
                if (!made) failure = std::unexpected(made.error());
                std::filesystem::remove_all(to);
            }
        });
    const auto done = tpcc::run_terminals(db, run, {});
    ++run.seed;
    stop.store(true);
    if (backups.joinable()) backups.join();
    TRY(failure);
    if (!done) return std::unexpected(done.error());
    return (*done)->tx_per_s();
}

Result<void> beside_the_mix(const Settings& settings, Report& report, Store& store,
                            tpcc::Database& db, double device) {
    tpcc::RunSettings run;
    run.warmup = kSecond / 4;
    run.duration = static_cast<Nanos>(settings.seconds * 1e9);
    const auto quarter = static_cast<uint64_t>(device / 4);
    // The mix slows down as the database grows, so an interval is compared with those around it.
    std::vector<double> alone{TRY(interval(settings, store, db, run, {}))}, full, limited;
    const auto compare = [&](uint64_t rate, std::vector<double>& ratios) -> Result<void> {
        const double beside = TRY(interval(settings, store, db, run, rate));
        alone.push_back(TRY(interval(settings, store, db, run, {})));
        ratios.push_back(2 * beside / (alone.end()[-2] + alone.end()[-1]));
        return {};
    };
    for (int round = 0; round < kPairs; ++round) {
        TRY(compare(0, full));
        TRY(compare(quarter, limited));
    }
    report.measurement("TPC-C mix alone", median(alone), "transactions/s");
    report.measurement("  beside backups at full speed", median(full), "times", ">= 0.8");
    report.measurement(fmt::format("  beside backups at {:.0f} MB/s", device / 4e6),
                       median(limited), "times", ">= 0.95");
    return {};
}

// A full backup that is brought up to date with what a fifth of a second of the mix has changed.
Result<void> keep_current(const Settings& settings, Report& report, Store& store,
                          tpcc::Database& db) {
    const std::string full = settings.directory + "/full", next = settings.directory + "/next";
    tpcc::RunSettings run;
    run.warmup = 0;
    run.duration = kSecond / 5;
    TRY(store.checkpoint());
    Nanos begin = MonotonicClock().now();
    BackupInfo last = TRY(store.backup(full));
    const double whole = seconds_since(begin);
    std::vector<double> copies, updates, pages;
    for (int round = 0; round < kPairs; ++round) {
        TRY(interval(settings, store, db, run, {}));
        TRY(store.checkpoint());
        const BackupInfo since = last;
        begin = MonotonicClock().now();
        last = TRY(store.backup(next, {.since = &since}));
        copies.push_back(seconds_since(begin));
        pages.push_back(static_cast<double>(last.pages_copied) / static_cast<double>(last.pages));
        begin = MonotonicClock().now();
        TRY(update_backup(full, next));
        updates.push_back(seconds_since(begin));
        std::filesystem::remove_all(next);
    }
    std::filesystem::remove_all(full);
    report.measurement("full backup", whole, "s");
    report.measurement("  share of pages that 0.2 s of the mix change", median(pages), "times");
    report.measurement("  incremental backup of them", median(copies), "s");
    report.measurement("  update_backup() with it", median(updates), "s");
    return {};
}

Options restart_options(const std::string& archive, uint64_t bytes) {
    return {.workers = 2,
            .pool_bytes = 2ull << 30,
            .log_bytes = 8 * bytes,
            .checkpoint_log_bytes = 3 * bytes,
            .archive = archive};
}

// In a child: rows, a backup, `bytes` of log in the archive, and then a death without farewell.
Result<void> write_archive(const std::string& root, uint64_t bytes) {
    Options options = restart_options(root + "/archive", bytes);
    options.archive_interval = 100 * kMillisecond;
    Store store = TRY(Store::open(root + "/store", options));
    constexpr uint64_t kRows = 1'000'000;
    const Index index = TRY(load_rows(store, kRows));
    TRY(store.checkpoint());
    TRY(store.backup(root + "/backup"));
    const uint64_t goal = store.stats().log_bytes + bytes;
    Rng rng(1);
    std::string value(kRowBytes, 'r');
    while (store.stats().log_bytes < goal)
        TRY(store.run([&](Txn& txn) -> Result<void> {
            for (int k = 0; k < 1000; ++k) {
                value[rng.below(kRowBytes)] = static_cast<char>('a' + rng.below(26));
                for (size_t i = 0; i < kRowBytes; i += 8)
                    value[i] = static_cast<char>('a' + rng.below(26));
                TRY(index.update(txn, Key().u64(rng.below(kRows)), value));
            }
            return {};
        }));
    while (store.stats().archive_backlog_bytes != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    _exit(0);
}

Result<void> restore_against_restart(const Settings& settings, Report& report) {
    const uint64_t bytes = settings.bytes != 0 ? settings.bytes : 1ull << 30;
    const std::string root = settings.directory + "/restore";
    std::filesystem::create_directories(root);
    const pid_t child = fork();
    if (child == 0) {
        const auto failed = write_archive(root, bytes);
        fmt::print(stderr, "{}\n", failed.error().text());
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail(ErrorCode::io_error, "the writing child failed", static_cast<uint64_t>(status));

    Nanos begin = MonotonicClock().now();
    const std::string from[] = {root + "/backup"};
    const BackupInfo info =
        TRY(restore_backup(from, root + "/restored", {.archive = root + "/archive"}));
    const double copied = seconds_since(begin);
    Store restored = TRY(Store::open(root + "/restored", restart_options("", bytes)));
    const double restore = seconds_since(begin);
    TRY(restored.close());
    begin = MonotonicClock().now();
    Store store = TRY(Store::open(root + "/store", restart_options("", bytes)));
    const double restart = seconds_since(begin);
    report.note(fmt::format("{:.0f} MB in the restored store's files, {:.0f} MB of them log",
                            static_cast<double>(info.bytes) / 1e6,
                            static_cast<double>(info.log_bytes) / 1e6));
    report.measurement("plain restart", restart, "s");
    report.measurement("restore with the archive, and open", restore, "s");
    report.measurement("  of it until the open", copied, "s");
    report.measurement("  ratio", restore / restart, "times", "<= 1.3");
    return store.close();
}

}  // namespace

Result<void> bench_backup(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 4;
    {
        Store store = TRY(Store::open(settings.directory + "/tpcc",
                                      {.pool_bytes = (warehouses * 160ull + 512) << 20}));
        tpcc::LoadProgress progress;
        tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
        TRY(store.checkpoint());
        const double device = TRY(against_cp(settings, report, store));
        TRY(keep_current(settings, report, store, db));
        TRY(beside_the_mix(settings, report, store, db, device));
        TRY(store.close());
    }
    return restore_against_restart(settings, report);
}

}  // namespace lockstep::bench
