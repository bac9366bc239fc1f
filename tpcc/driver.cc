// driver.cc - starts the terminals, waits for them, merges their statistics.
#include "tpcc/driver.h"

#include "threads/base/check.h"
#include "tpcc/least_run.h"
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
            control_.inputs.push_back(std::make_unique<AnnouncedInputs>());
        }
        for (uint32_t w = 0; w < db.scale.warehouses; ++w)
            control_.queues.push_back(std::make_unique<DeliveryQueue>());
    }

    // On a user thread.
    void run() {
        set_times();
        place_terminals();
        begin_measuring();
        start_terminals();
        watch();
        drain();
    }

    std::unique_ptr<RunReport> report() {
        auto report = std::make_unique<RunReport>();
        for (const auto& stats : stats_) report->stats.merge(*stats);
        report->ran = ended_ - control_.started;
        const Nanos end = std::min(ended_, control_.measure_end);
        if (end > control_.measure_begin) report->measured = end - control_.measure_begin;
        report->series = std::move(series_);
        report->before = std::move(before_);
        report->after = std::move(after_);
        report->steps = std::move(steps_);
        report->cpu = cpu_;
        if (!control_.arrivals.empty()) count_offered(*report, end);
        const bool failed = control_.error.code != ErrorCode::none;
        if (interrupted_) report->ending = Ending::interrupted;
        if (failed) report->ending = Ending::failed;
        report->failure = control_.error;
        return report;
    }

private:
    void set_times() {
        control_.started = now();
        control_.measure_begin = control_.started + settings_.warmup;
        if (settings_.transactions == 0)
            control_.measure_end = control_.measure_begin + settings_.duration;
        for (const auto& stats : stats_) {
            stats->measure_begin = control_.measure_begin;
            stats->measure_end.store(control_.measure_end, std::memory_order_relaxed);
            stats->keeps_window = settings_.interval != 0;
        }
        const uint32_t warehouses = control_.db.scale.warehouses;
        for (uint32_t w = 0; settings_.rate.per_second > 0 && w < warehouses; ++w)
            control_.arrivals.push_back(std::make_unique<Arrivals>(
                settings_.rate, w, warehouses, control_.started, row_rng(settings_.seed, 202, w)));
        if (settings_.interval == 0) return;
        series_.start(*control_.db.store, control_.started);
        point_due_ = first_point_after(control_.started);
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

    // The store's counters, where the measured interval begins.
    void begin_measuring() {
        if (measuring_) return;
        if (now() < control_.measure_begin) return;
        measuring_ = true;
        before_ = control_.db.store->stats();
        steps_ = control_.db.store->steps_stats();
        cpu_ = cpu_use();
    }

    // Where it ends.
    void take_counters() {
        after_ = control_.db.store->stats();
        if (!measuring_) before_ = after_;
        const StepsStats steps = control_.db.store->steps_stats();
        steps_ = steps - (measuring_ ? steps_ : steps);
        cpu_ = measuring_ ? cpu_use() - cpu_ : CpuUse{};
    }

    // The next border of the measured interval, where a point ends, so that none has a part of
    // what is before and after it.
    Nanos border_after(Nanos time) const {
        return time < control_.measure_begin ? control_.measure_begin
               : time < control_.measure_end ? control_.measure_end
                                             : kNever;
    }
    Nanos first_point_after(Nanos time) const {
        return std::min(time + settings_.interval, border_after(time));
    }

    // When the open point of the series began.
    Nanos point_began() const {
        return control_.started + (series_.points().empty() ? 0 : series_.points().back().end);
    }

    enum class Close : uint8_t { if_due, always, if_counted };

    // Ends the point of the series at `t`, or at the border that is before it. True: there is a new
    // one.
    bool close_point(Close when, Nanos t) {
        if (settings_.interval == 0 || (t < point_due_ && when == Close::if_due)) return false;
        const Nanos began = point_began();
        t = std::min(std::max(t, began), border_after(began));
        const bool measured = began >= control_.measure_begin && began < control_.measure_end;
        counts_->clear();
        for (const auto& stats : stats_) stats->window.take(*counts_, measured);
        if (when == Close::if_counted && counts_->empty()) return false;
        series_.close(*control_.db.store, t, *counts_, measured);
        point_due_ = first_point_after(t);
        return true;
    }

    void hand_over_deliveries() {
        if (!settings_.on_deliveries) return;
        std::vector<DeliveryResult> results;
        for (const auto& queue : control_.queues) queue->take_results(results);
        if (results.empty()) return;
        const Result<void> taken = settings_.on_deliveries(results);
        if (!taken) control_.fail_run(taken.error());
    }

    void count_offered(RunReport& report, Nanos end) const {
        Offered& offered = report.offered;
        const Nanos begin = std::min(control_.measure_begin, end);
        for (const auto& arrivals : control_.arrivals) {
            offered.due += arrivals->due_between(begin, end);
            offered.due_in_warmup += arrivals->due_between(control_.started, begin);
        }
        // One that was started while the run was stopped may have been due after its end.
        const auto left = [](uint64_t due, uint64_t started) {
            return due > started ? due - started : 0;
        };
        const uint64_t late = report.stats.started_of_warmup;
        offered.backlog = left(offered.due, report.stats.started - late);
        offered.backlog_of_warmup = left(offered.due_in_warmup, late);
    }

    Nanos sleep_time(Nanos wanted) const {
        const Nanos t = now();
        const Nanos begin = measuring_ ? kNever : control_.measure_begin;
        for (const Nanos due : {begin, control_.measure_end, point_due_})
            wanted = std::min(wanted, t < due ? due - t : kMillisecond);
        return wanted;
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

    // Shows progress until all terminals have ended.
    void watch() {
        auto sleep = kMillisecond;
        Nanos shown = now();
        while (control_.terminals_live.load(std::memory_order_acquire) > 0) {
            sleep_for(sleep_time(sleep));
            sleep = std::min(2 * sleep, kProgressInterval);
            begin_measuring();
            withdraw_terminals();
            if (control_.terminals_live.load(std::memory_order_acquire) == 0) return;
            // The last one of the measured interval is closed when all has been recorded.
            const Nanos t = now();
            const bool new_point = t < control_.measure_end &&
                                   !control_.stop.load(std::memory_order_relaxed) &&
                                   close_point(Close::if_due, t);
            if (!new_point && now() - shown < kProgressInterval) continue;
            shown = now();
            hand_over_deliveries();
            if (show(new_point)) continue;
            if (control_.stop_run()) interrupted_ = true;
            sleep = kMillisecond;
        }
    }

    // False: the run is to end.
    bool show(bool new_point) {
        if (!progress_) return true;
        const SeriesPoint* newest = series_.points().empty() ? nullptr : &series_.points().back();
        return progress_({now() - control_.started, completed(), newest, new_point});
    }

    // When the run ended, which the controller learns later.
    Nanos end_of_run() const {
        if (settings_.transactions == 0 && !control_.stop.load()) return control_.measure_end;
        return std::min(control_.ended.load(), control_.measure_end);
    }

    // Of a run for a time. The terminals have ended, so only Deliveries follow.
    void end_measuring() {
        DCHECK(control_.terminals_live.load() == 0);
        ended_ = end_of_run();
        take_counters();
        for (const auto& stats : stats_)
            stats->measure_end.store(ended_, std::memory_order_relaxed);
        control_.measure_end = ended_;
    }

    // Waits for the deliveries that are still queued.
    void drain() {
        if (settings_.transactions == 0) end_measuring();
        while (control_.servers_live.load(std::memory_order_acquire) > 0) sleep_for(kMillisecond);
        if (settings_.transactions != 0) {
            ended_ = end_of_run();
            take_counters();
        }
        for (auto& handle : handles_) {
            const Result<void> joined = handle.join();
            if (!joined) control_.fail_run(joined.error());
        }
        // A point ends there, and what follows is another's.
        while (settings_.interval != 0 && point_began() < ended_)
            if (close_point(Close::always, ended_)) show(true);
        if (close_point(Close::if_counted, settings_.transactions != 0 ? ended_ : now()))
            show(true);
        hand_over_deliveries();
    }

    const RunSettings& settings_;
    RunControl control_;
    ProgressFn progress_;
    std::vector<std::unique_ptr<WorkerStats>> stats_;  // per worker
    Terminal::Executors executors_;                    // per worker
    std::vector<std::unique_ptr<Terminal>> terminals_;
    std::vector<int> workers_;  // of each terminal
    std::vector<Handle<void>> handles_;
    Series series_;
    const std::unique_ptr<WindowCounts> counts_ = std::make_unique<WindowCounts>();
    Nanos point_due_ = kNever;
    bool measuring_ = false;
    StoreStats before_, after_;
    // Where the measured interval begins; then of the interval.
    StepsStats steps_;
    CpuUse cpu_;
    Nanos ended_ = 0;
    bool interrupted_ = false;
};

}  // namespace

uint64_t RunReport::completed() const {
    uint64_t count = 0;
    for (const TypeStats& type : stats.types) count += type.latency.count();
    return count;
}

bool RunReport::enough() const {
    return enough_for_throughput(static_cast<double>(measured) / static_cast<double>(kSecond),
                                 static_cast<double>(completed()));
}

double RunReport::tx_per_s() const {
    if (measured == 0) return 0;
    return static_cast<double>(completed()) * static_cast<double>(kSecond) /
           static_cast<double>(measured);
}

double RunReport::new_orders_per_minute() const {
    if (measured == 0) return 0;
    const auto count =
        static_cast<double>(stats.types[static_cast<size_t>(TxnType::new_order)].latency.count());
    return count * 60 * static_cast<double>(kSecond) / static_cast<double>(measured);
}

std::unique_ptr<RunReport> measure_terminals(Database& db, const RunSettings& settings,
                                             ProgressFn progress) {
    db.calls = settings.calls;
    Controller controller(db, settings, std::move(progress));
    const auto ran = db.store
                         ->start(
                             [&]() -> Result<void> {
                                 controller.run();
                                 return {};
                             },
                             0)
                         .join();
    auto report = controller.report();
    if (!ran && report->ending != Ending::failed) {
        report->ending = Ending::failed;
        report->failure = ran.error();
    }
    return report;
}

Result<std::unique_ptr<RunReport>> run_terminals(Database& db, const RunSettings& settings,
                                                 ProgressFn progress) {
    auto report = measure_terminals(db, settings, std::move(progress));
    if (report->ending == Ending::failed) return std::unexpected(report->failure);
    return report;
}

}  // namespace lockstep::tpcc
