// main.cc - `lockstep-faultfs`: stores on a file system that fails, many injections one after the
// other.
//
// Exit status: 0; 1 if a store lost or kept what it must not; 2 after a wrong command line; 77 if
// this machine cannot mount a FUSE file system.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "threads/base/rng.h"
#include "tools/faultfs/injection.h"

namespace {

using namespace lockstep;
using namespace lockstep::faultfs;

constexpr int kExitFault = 1, kExitUsage = 2, kExitSkipped = 77;

struct Pair {
    Operation operation;
    Fault fault;
};
constexpr Pair kPairs[] = {
    {Operation::write, Fault::io_error},       {Operation::write, Fault::no_space},
    {Operation::write, Fault::short_transfer}, {Operation::write, Fault::lost_write},
    {Operation::read, Fault::io_error},        {Operation::read, Fault::short_transfer},
    {Operation::sync, Fault::io_error},        {Operation::size, Fault::no_space},
    {Operation::size, Fault::io_error},        {Operation::name, Fault::no_space},
    {Operation::name, Fault::io_error},
};

struct Totals {
    uint64_t injections = 0, failed = 0, stopped = 0, acknowledged = 0;
};

std::string text_of(const Injection& injection) {
    const FaultPlan& plan = injection.plan;
    return fmt::format("{} store, {} {} number {}{}",
                       kBeginNames[static_cast<size_t>(injection.begin)],
                       kFaultNames[static_cast<size_t>(plan.fault)],
                       kOperationNames[static_cast<size_t>(plan.operation)], plan.nth,
                       plan.lasts ? " and all after it" : "");
}

// Counts operations of work without a fault, so that the number of a failing one can be drawn.
class Runs {
public:
    explicit Runs(uint64_t seed) : seed_(seed) {}

    // Empty, or why there can be no runs.
    std::string measure() {
        for (size_t i = 0; i < kBegins; ++i) {
            const Outcome out = inject({seed_, static_cast<Begin>(i), {}});
            if (!out.why_not.empty()) return out.why_not;
            counts_[i] = out.counts;
            report({seed_, static_cast<Begin>(i), {}}, out);
        }
        return {};
    }

    // The injection of this number: it depends on the seed alone, and on the counts above.
    void run(uint64_t number) {
        Rng rng = Rng(seed_).fork(number + 1);
        Injection one;
        one.seed = rng.below(1u << 30);
        one.begin = static_cast<Begin>(rng.below(kBegins));
        const Pair& pair = kPairs[number % std::size(kPairs)];
        const uint64_t count =
            counts_[static_cast<size_t>(one.begin)][static_cast<size_t>(pair.operation)];
        one.plan = {pair.fault, pair.operation, 1 + rng.below(count + 1), rng.below(3) == 0};
        const Outcome out = inject(one);
        Totals& totals = totals_[{pair.operation, pair.fault}];
        ++totals.injections;
        totals.failed += out.failed > 0;
        totals.stopped += out.stopped;
        totals.acknowledged += out.acknowledged;
        report(one, out, number);
    }

    // The table; whether all is well.
    bool finish() const {
        fmt::print("{:8} {:8} {:>10} {:>10} {:>10} {:>12}\n", "fault", "of", "injections", "failed",
                   "stopped", "acknowledged");
        uint64_t failed = 0;
        for (const auto& [key, t] : totals_) {
            fmt::print("{:8} {:8} {:10} {:10} {:10} {:12}\n",
                       kFaultNames[static_cast<size_t>(key.second)],
                       kOperationNames[static_cast<size_t>(key.first)], t.injections, t.failed,
                       t.stopped, t.acknowledged);
            failed += t.failed;
        }
        if (failed == 0) fmt::print("no operation has failed: the runs show nothing\n");
        fmt::print("{} stores with faults\n", broken_);
        return broken_ == 0 && failed > 0;
    }

private:
    void report(const Injection& one, const Outcome& out, uint64_t number = 0) {
        if (out.faults.empty()) return;
        ++broken_;
        fmt::print("FAULT: --seed {} --first {} --injections 1: {}\n", seed_, number, text_of(one));
        for (const std::string& fault : out.faults) fmt::print("  {}\n", fault);
        std::fflush(stdout);
    }

    uint64_t seed_, broken_ = 0;
    std::array<std::array<uint64_t, kOperations>, kBegins> counts_{};
    std::map<std::pair<Operation, Fault>, Totals> totals_;
};

}  // namespace

int main(int argc, char** argv) {
    CLI::App app(
        "Runs transactions on a file system whose Nth operation fails, and checks what was "
        "acknowledged");
    uint64_t seed = 1, first = 0, injections = 440;
    app.add_option("--injections", injections, "Number of failing operations")
        ->capture_default_str();
    app.add_option("--seed", seed, "Seed of all injections")->capture_default_str();
    app.add_option("--first", first, "Number of the first injection")->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    Runs runs(seed);
    if (const std::string why_not = runs.measure(); !why_not.empty()) {
        fmt::print("skipped: this machine mounts no FUSE file system: {}\n", why_not);
        return kExitSkipped;
    }
    for (uint64_t i = first; i < first + injections; ++i) runs.run(i);
    return runs.finish() ? 0 : kExitFault;
}
