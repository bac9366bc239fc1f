// driver.h - runs the terminals for a time or a number of transactions, and reports the results.
//
// Concepts   A terminal is a packet (terminal.h) with a home warehouse and a home district for
//            Stock-Level. It is submitted to one worker: warehouse w to worker (w - 1) mod workers.
//            With fewer warehouses than workers, terminals are dealt to the workers in turn. A
//            controller thread starts the terminals, shows progress, and waits for them and for the
//            deliveries that are still queued.
#pragma once

#include <functional>

#include "tpcc/deck.h"
#include "tpcc/delivery_queue.h"
#include "tpcc/executor.h"

namespace lockstep::tpcc {

struct RunSettings {
    ExecutorSettings executor;
    Mix mix = Mix::full;
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
    bool keep_delivery_results = false;
};

struct RunProgress {
    // Since the terminals were started, warm-up included.
    Nanos elapsed;
    uint64_t completed;
};

struct RunReport {
    Nanos measured = 0;                      // length of the measured interval
    WorkerStats stats;                       // of all workers
    std::vector<DeliveryResult> deliveries;  // if keep_delivery_results is set
    double tx_per_s() const;
    double tpm_c() const;  // New-Orders a minute
};

// Called about twice a second on a user thread; returning false ends the run early.
using ProgressFn = std::move_only_function<bool(const RunProgress&)>;

// Blocks the calling kernel thread. Error: the first that repeating did not cure at a terminal.
Result<std::unique_ptr<RunReport>> run_terminals(Database& db, const RunSettings& settings,
                                                 ProgressFn progress);

}  // namespace lockstep::tpcc
