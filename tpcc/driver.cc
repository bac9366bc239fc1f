// driver.cc - starts the terminals, waits for them, merges their statistics.
#include "tpcc/driver.h"

#include "threads/base/try.h"
#include "tpcc/terminal.h"

namespace lockstep::tpcc {

namespace {

constexpr Nanos kProgressInterval = kSecond / 2;

class Controller {
public:
    Controller(Database& db, const RunSettings& settings, ProgressFn progress)
        : settings_(settings), control_(db, settings), progress_(std::move(progress)) {
        for (uint32_t i = 0; i < db.store->options().workers; ++i) {
            stats_.push_back(std::make_unique<WorkerStats>());
            executors_.push_back(std::make_unique<Executor>(db, settings.executor, *stats_.back()));
        }
        for (uint32_t w = 0; w < db.scale.warehouses; ++w)
            control_.queues.push_back(std::make_unique<DeliveryQueue>());
    }

    // On a user thread.
    Result<void> run() {
        set_times();
        place_terminals();
        start_terminals();
        watch();
        if (control_.error.code != ErrorCode::none) return std::unexpected(control_.error);
        return {};
    }

    std::unique_ptr<RunReport> report() {
        auto report = std::make_unique<RunReport>();
        for (const auto& stats : stats_) report->stats.merge(*stats);
        report->measured = ended_ > control_.measure_begin ? ended_ - control_.measure_begin : 1;
        for (const auto& queue : control_.queues)
            report->deliveries.insert(report->deliveries.end(), queue->results.begin(),
                                      queue->results.end());
        return report;
    }

private:
    void set_times() {
        control_.started = now();
        control_.measure_begin = control_.started + settings_.warmup;
        if (settings_.transactions == 0)
            control_.measure_end = control_.measure_begin + settings_.duration;
    }

    void place_terminals() {
        const auto workers = static_cast<uint32_t>(executors_.size());
        const uint32_t warehouses = control_.db.scale.warehouses;
        const uint32_t count = warehouses * settings_.terminals;
        for (uint32_t n = 0; n < count; ++n) {
            const uint32_t w = n % warehouses + 1;
            const uint32_t worker = (warehouses >= workers ? w - 1 : n) % workers;
            const uint64_t quota =
                settings_.transactions / count + (n < settings_.transactions % count);
            const TerminalPlace place{n, w, n / warehouses % control_.db.scale.districts + 1,
                                      static_cast<int>(worker), quota};
            terminals_.push_back(std::make_unique<Terminal>(control_, executors_, place));
            workers_.push_back(static_cast<int>(worker));
        }
    }

    void start_terminals() {
        control_.terminals_live.store(static_cast<uint32_t>(terminals_.size()));
        if (!settings_.terminals_as_threads) {
            for (const auto& terminal : terminals_) terminal->start();
            return;
        }
        for (size_t n = 0; n < terminals_.size(); ++n) {
            auto ticket = std::make_unique<Ticket>(control_, control_.terminals_live);
            handles_.push_back(control_.db.store->start(
                [terminal = terminals_[n].get(), ticket = std::move(ticket)]() -> Result<void> {
                    ticket->begin();
                    terminal->run_as_thread();
                    return {};
                },
                workers_[n]));
        }
    }

    // Of a run with a duration.
    Nanos until_end() const {
        const Nanos t = now();
        return t < control_.measure_end ? control_.measure_end - t : kMillisecond;
    }

    uint64_t completed() const {
        uint64_t sum = 0;
        for (const auto& stats : stats_) sum += stats->completed.load(std::memory_order_relaxed);
        return sum;
    }

    // At the end of the run, packets wait for the end of their think times. Those that run submit
    // themselves no more, so a later pass finds the last ones.
    void withdraw_terminals() {
        if (!control_.stop.load(std::memory_order_relaxed) && now() < control_.measure_end) return;
        for (const auto& terminal : terminals_)
            if (control_.db.store->withdraw(*terminal)) terminal->end();
    }

    // Shows progress until all terminals have ended, then waits for the deliveries still queued.
    void watch() {
        auto sleep = kMillisecond;
        while (control_.terminals_live.load(std::memory_order_acquire) > 0) {
            sleep_for(std::min(sleep, until_end()));
            sleep = std::min(2 * sleep, kProgressInterval);
            withdraw_terminals();
            if (sleep < kProgressInterval || !progress_) continue;
            if (!progress_({now() - control_.started, completed()}))
                control_.stop.store(true, std::memory_order_relaxed);
        }
        if (settings_.transactions == 0) ended_ = std::min(now(), control_.measure_end);
        while (control_.servers_live.load(std::memory_order_acquire) > 0) sleep_for(kMillisecond);
        if (settings_.transactions != 0) ended_ = now();
        for (auto& handle : handles_) {
            const Result<void> joined = handle.join();
            if (!joined) control_.fail_run(joined.error());
        }
    }

    const RunSettings& settings_;
    RunControl control_;
    ProgressFn progress_;
    std::vector<std::unique_ptr<WorkerStats>> stats_;  // per worker
    Terminal::Executors executors_;                    // per worker
    std::vector<std::unique_ptr<Terminal>> terminals_;
    std::vector<int> workers_;  // of each terminal
    std::vector<Handle<void>> handles_;
    Nanos ended_ = 0;
};

}  // namespace

double RunReport::tx_per_s() const {
    uint64_t count = 0;
    for (const TypeStats& type : stats.types) count += type.latency.count();
    return static_cast<double>(count) /
           (static_cast<double>(measured) / static_cast<double>(kSecond));
}

double RunReport::tpm_c() const {
    const auto count =
        static_cast<double>(stats.types[static_cast<size_t>(TxnType::new_order)].latency.count());
    return count * 60 / (static_cast<double>(measured) / static_cast<double>(kSecond));
}

Result<std::unique_ptr<RunReport>> run_terminals(Database& db, const RunSettings& settings,
                                                 ProgressFn progress) {
    db.calls = settings.calls;
    Controller controller(db, settings, std::move(progress));
    TRY(db.store->start([&]() -> Result<void> { return controller.run(); }, 0).join());
    return controller.report();
}

}  // namespace lockstep::tpcc
