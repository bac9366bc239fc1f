// tournament.cc - loads, copies and measures, in rounds.
#include "tools/peers/tournament.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "threads/base/check.h"
#include "tpcc/driver.h"

namespace lockstep::peers {

namespace fs = std::filesystem;

namespace {

Result<void> empty_directory(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    fs::create_directories(path, error);
    if (error) return fail_os(ErrorCode::bad_path, error.value(), "scratch directory");
    return {};
}

// What was written before must not be written back while the next slice is measured.
void flush_files(const std::string& directory) {
    const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)syncfs(fd);
    close(fd);
}

Result<void> copy_directory(const std::string& from, const std::string& to) {
    TRY(empty_directory(to));
    std::error_code error;
    fs::copy(from, to, fs::copy_options::recursive, error);
    if (error) return fail_os(ErrorCode::io_error, error.value(), "copy of the loaded tables");
    flush_files(to);
    return {};
}

}  // namespace

std::string plan_text(const Plan& plan) {
    return fmt::format("{}, {}, {} worker{}", plan.workload->title, plan.sync ? "sync" : "no sync",
                       plan.workers, plan.workers == 1 ? "" : "s");
}

Tournament::Tournament(const Selection& selection, const Conditions& conditions)
    : selection_(selection), conditions_(conditions) {
    if (selection_.own_driver) {
        contestants_.push_back(driver_contestant(tpcc::RunSettings{}.terminals));
        contestants_.push_back(driver_contestant(0));
    }
    for (const Product* product : selection_.engines)
        contestants_.push_back(engine_contestant(*product));
}

Result<void> Tournament::run(const std::atomic<bool>& stop) {
    CHECK(selection_.rounds > 0);
    for (const WorkloadKind* workload : selection_.workloads) {
        if (stop) return {};
        const Result<void> done = run_workload(*workload, stop);
        std::error_code ignored;
        for (const auto& contestant : contestants_)
            fs::remove_all(loaded_directory(*contestant), ignored);
        fs::remove_all(conditions_.directory + "/slice", ignored);
        if (!done) return done;
    }
    return {};
}

Result<void> Tournament::run_workload(const WorkloadKind& workload, const std::atomic<bool>& stop) {
    for (const auto& contestant : contestants_) {
        if (stop) return {};
        if (!contestant->runs(workload)) continue;
        fmt::print(stderr, "{}: loading {}\n", workload.title, contestant->title());
        TRY(empty_directory(loaded_directory(*contestant)));
        TRY(contestant->load(workload, conditions_, loaded_directory(*contestant)));
    }
    for (const Plan& plan : plans_of(workload)) TRY(run_plan(plan, stop));
    return {};
}

Result<void> Tournament::run_plan(const Plan& plan, const std::atomic<bool>& stop) {
    const std::string directory = conditions_.directory + "/slice";
    for (unsigned round = 1; round <= selection_.rounds; ++round)
        for (const auto& contestant : contestants_) {
            if (stop) return {};
            if (!contestant->runs(*plan.workload)) continue;
            TRY(copy_directory(loaded_directory(*contestant), directory));
            const Measured measured = TRY(
                contestant->measure(plan, conditions_, conditions_.sizes.seed + round, directory));
            fmt::print(stderr, "{}, round {} of {}: {} {:.0f} a second{}\n", plan_text(plan), round,
                       selection_.rounds, contestant->title(), measured.per_second(),
                       measured.faults.empty() ? "" : ", INCONSISTENT");
            entries_.push_back({plan, contestant->name(), contestant->title(), round, measured});
        }
    return {};
}

std::vector<Plan> Tournament::plans_of(const WorkloadKind& workload) const {
    std::vector<Plan> plans;
    const bool tpcc = std::string_view(workload.name) == "tpcc";
    const std::vector<bool> without = {false};
    for (const bool sync : tpcc ? selection_.sync : without)
        for (const unsigned workers : selection_.workers)
            plans.push_back({&workload, sync, workers});
    return plans;
}

std::string Tournament::loaded_directory(const Contestant& contestant) const {
    // Both variants of the driver take the same tables, each its own copy.
    return conditions_.directory + "/loaded-" + contestant.name();
}

}  // namespace lockstep::peers
