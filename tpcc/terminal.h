// terminal.h - one emulated user: choose, key in, execute, count, think, again (clause 5.2).
#pragma once

#include "tpcc/driver.h"

namespace lockstep::tpcc {

// State that all terminals of a run share.
struct RunControl {
    Database& db;
    const RunSettings& settings;
    // Fixed before the first terminal starts.
    Nanos started = 0, measure_begin = 0, measure_end = kNever;
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> terminals_live{0}, servers_live{0};
    std::vector<std::unique_ptr<DeliveryQueue>> queues;  // per warehouse, [w - 1]
    SpinLock error_lock;
    // First failure; under error_lock.
    Error error;

    RunControl(Database& db, const RunSettings& settings) : db(db), settings(settings) {}
    void fail_run(const Error& e);
};

// Belongs to a started user thread. Decrements the count of live threads when the thread ends, or
// when it could not be started.
class Ticket {
public:
    Ticket(RunControl& control, std::atomic<uint32_t>& live) : control_(control), live_(live) {}
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket();
    void begin() { began_ = true; }

private:
    RunControl& control_;
    std::atomic<uint32_t>& live_;
    bool began_ = false;
};

// One finished transaction; counted if it ended in the measured interval.
struct Finished {
    TxnType type;
    Outcome outcome;
    Nanos start, end;
    ThreadWaits waits;  // between start and end
};
void count_finished(RunControl& control, WorkerStats& stats, const Finished& txn);

struct TerminalPlace {
    uint32_t number;  // 0-based, among all terminals
    uint32_t w, d;    // home warehouse and Stock-Level district
    int worker;
    uint64_t quota;  // transactions to run; 0 with --duration
};

class Terminal {
public:
    Terminal(RunControl& control, Executor& executor, const TerminalPlace& place);
    // The body of the user thread.
    void run();

private:
    bool finished() const;
    Input make_input(TxnType type);
    Result<void> execute(const Input& input);
    Result<void> queue_delivery(const DeliveryInput& input);
    static void serve_deliveries(RunControl& control, Executor& executor, DeliveryQueue& queue);
    void pause(double seconds);

    RunControl& control_;
    Executor& executor_;
    const TerminalPlace place_;
    const InputRules rules_;
    Rng rng_;
    Deck deck_;
    uint64_t done_ = 0;
};

}  // namespace lockstep::tpcc
