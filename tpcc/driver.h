// driver.h - runs the terminals for a time or a number of transactions, and reports the results.
//
// Concepts   A terminal is a packet (terminal.h) with a home warehouse and a home district for
//            Stock-Level. It is submitted to one worker: warehouse w to worker (w - 1) mod workers.
//            With fewer warehouses than workers, terminals are dealt to the workers in turn. A
//            controller thread starts the terminals, shows progress, and waits for them and for the
//            deliveries that are still queued.
#pragma once

#include <functional>

#include "tpcc/cpu_use.h"
#include "tpcc/deck.h"
#include "tpcc/delivery_queue.h"
#include "tpcc/executor.h"
#include "tpcc/rate.h"

namespace lockstep::tpcc {

// Called about twice a second with the deliveries that have finished since the last call, and once
// at the end. An error ends the run.
using DeliveriesFn = std::function<Result<void>(std::span<const DeliveryResult>)>;

struct RunSettings {
    ExecutorSettings executor;
    Mix mix = Mix::full;
    std::optional<MixWeights> weights;  // instead of `mix`
    OfferedRate rate;
    Calls calls = Calls::many;
    uint32_t terminals = 10;  // per warehouse
    // Each terminal is a user thread, as in the thesis. Needs Options::executors to match.
    bool terminals_as_threads = false;
    uint64_t transactions = 0;  // in total; 0: run for `duration`
    Nanos duration = 30 * kSecond;
    Nanos warmup = 3 * kSecond;  // before the measured interval
    // Multiplies the specification's keying and think times; 0: none.
    double think = 0;
    uint64_t seed = 1;
    Nanos interval = 0;  // length of the points of the series; 0: no series
    DeliveriesFn on_deliveries;
};

struct RunProgress {
    // Since the terminals were started, warm-up included.
    Nanos elapsed;
    uint64_t completed;
    const SeriesPoint* newest;  // null: no point yet
    bool newest_is_new;         // it was not in an earlier call
};

// Each transaction that is due is started or not by the end, so both add up to `due`.
struct Offered {
    uint64_t due = 0;      // in the measured interval
    uint64_t backlog = 0;  // of these, not started by its end
    // The same of the warm-up. A run that is too slow already there starts the measured interval
    // with transactions that are late.
    uint64_t due_in_warmup = 0, backlog_of_warmup = 0;
};

enum class Ending : uint8_t { complete, interrupted, failed };

struct RunReport {
    Ending ending = Ending::complete;
    Error failure;               // if `ending` is failed: the first error that stopped a terminal
    Nanos ran = 0;               // from the first terminal's start to the end, warm-up included
    Nanos measured = 0;          // length of the measured interval; 0: it ended in the warm-up
    WorkerStats stats;           // of all workers
    Series series;               // if RunSettings::interval is set
    StoreStats before, after;    // at the ends of the measured interval; equal if there was none
    StepsStats steps;            // of the measured interval
    Offered offered;             // with an offered rate
    CpuUse cpu;                  // of the measured interval
    uint64_t completed() const;  // in the measured interval
    // Both say little of a short run.
    bool enough() const;
    double tx_per_s() const;
    double new_orders_per_minute() const;
};

// Called about twice a second on a user thread, and at each new point; returning false ends the run
// early.
using ProgressFn = std::move_only_function<bool(const RunProgress&)>;

// Blocks the calling kernel thread. What was measured before a failure is in the report.
std::unique_ptr<RunReport> measure_terminals(Database& db, const RunSettings& settings,
                                             ProgressFn progress);
// The same. Error: the first that repeating did not cure at a terminal.
Result<std::unique_ptr<RunReport>> run_terminals(Database& db, const RunSettings& settings,
                                                 ProgressFn progress);

}  // namespace lockstep::tpcc
