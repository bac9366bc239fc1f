// steps_fetch.cc - index fetch and update with STEPS on and off: the variants in turn on one store,
// and what each part contributes.
#include <fmt/core.h>

#include <algorithm>

#include "threads/thread/thread.h"
#include "tools/bench/paired.h"

namespace lockstep::bench {
namespace {

// One round: all variants for `slice` each.
class FetchContest {
public:
    FetchContest(Store& store, Index index, uint64_t rows, bool update, uint32_t threads,
                 const StepsOptions& options)
        : store_(store),
          index_(index),
          rows_(rows),
          update_(update),
          threads_(threads),
          options_(options) {
        // Teams of one size: what they give is what is asked here.
        options_.window_records = 0;
    }

    Result<void> run(double seconds, uint32_t rounds) {
        const Nanos slice = static_cast<Nanos>(seconds * 1e9 / rounds / std::size(kStepsVariants));
        std::vector<Handle<void>> members;
        for (uint32_t t = 0; t < threads_; ++t)
            members.push_back(store_.start([this, t] { return member(t); }, 0));
        auto control = store_.start(
            [&]() -> Result<void> {
                // The first round warms up.
                for (uint32_t round = 0; round < rounds + 1; ++round)
                    for (size_t v = 0; v < std::size(kStepsVariants); ++v)
                        measure(v, slice, round > 0);
                stop_ = true;
                options_.mode = StepsMode::off;
                threads::set_steps(options_);
                return {};
            },
            0);
        TRY(control.join());
        for (auto& member : members) TRY(member.join());
        return {};
    }

    void print(const std::string& name, Report& report, const std::string& goal) {
        for (size_t v = 0; v < std::size(kStepsVariants); ++v)
            paired_.print(report, v, fmt::format("{}, {}", name, kStepsVariants[v].name), "ns",
                          true, kStepsVariants[v].mode == StepsMode::on ? goal : "");
    }

private:
    void measure(size_t variant, Nanos slice, bool keep) {
        options_.mode = kStepsVariants[variant].mode;
        threads::set_steps(options_);
        threads::sleep_until(clock_now() + slice / 4);  // the new mode settles
        const double probe = probe_core();
        const uint64_t before = operations_;
        const Nanos begin = cpu_time();
        threads::sleep_until(clock_now() + slice * 3 / 4);
        const double rate = static_cast<double>(operations_ - before) /
                            static_cast<double>(cpu_time() - begin) * 1e9;
        if (keep) paired_.add(variant, rate, std::max(probe, probe_core()));
    }

    Result<void> member(uint32_t number) {
        Rng rng(number + 1);
        std::byte buffer[kRowBytes];
        const std::string part(8, static_cast<char>('a' + number % 26));
        while (!stop_) {
            Txn txn = TRY(store_.begin({.durability = Durability::lazy}));
            for (int k = 0; k < 10; ++k) {
                // Each thread keeps to rows of its own, so that nobody waits for a lock.
                const Key key = Key().u64(rng.below(rows_ / threads_) * threads_ + number);
                TRY(index_.get(txn, key, buffer, update_ ? Access::update : Access::read));
                if (update_) TRY(index_.patch(txn, key, 8 * rng.below(8), part));
                ++operations_;
            }
            TRY(txn.commit());
        }
        return {};
    }

    Store& store_;
    Index index_;
    uint64_t rows_;
    bool update_;
    uint32_t threads_;
    uint64_t operations_ = 0;  // one worker: no race
    bool stop_ = false;
    StepsOptions options_;
    Paired paired_{std::size(kStepsVariants)};
};

Result<void> contest(const Settings& settings, Report& report, uint64_t bytes,
                     const std::string& name, const std::string& goal_fetch,
                     const std::string& goal_update) {
    Store store = TRY(Store::open(settings.directory + "/steps" + std::to_string(bytes),
                                  {.pool_bytes = bytes + bytes / 3 + (64ull << 20),
                                   .executors = 1u << 20,
                                   .log_bytes = 16ull << 30}));
    const uint64_t rows = rows_for(bytes);
    const Index index = TRY(load_rows(store, rows));
    const uint32_t threads = settings.threads != 0 ? settings.threads : 16;
    for (const bool update : {false, true}) {
        FetchContest c(store, index, rows, update, threads, settings.steps);
        TRY(c.run(settings.seconds * static_cast<double>(std::size(kStepsVariants)), 12));
        c.print(fmt::format("{}, {}, {} threads", update ? "update" : "fetch", name, threads),
                report, update ? goal_update : goal_fetch);
    }
    return store.close();
}

}  // namespace

Result<void> bench_steps(const Settings& settings, Report& report) {
    if (settings.bytes != 0)
        return contest(settings, report, settings.bytes, fmt::format("{} MB", settings.bytes >> 20),
                       "", "");
    TRY(contest(settings, report, 16ull << 20, "16 MB tree", ">= 2.0", ">= 1.5"));
    return contest(settings, report, 2560ull << 20, "2.5 GB tree", ">= 3.0", ">= 2.0");
}

}  // namespace lockstep::bench
