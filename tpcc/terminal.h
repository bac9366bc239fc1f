// terminal.h - one emulated user: choose, key in, execute, count, think, again (clause 5.2).
//
// Concepts   A terminal is a packet: each of its transactions is one submission, and keying and
//            think times are times that the packet waits. It has no stack meanwhile. Its response
//            time counts from the moment at which the packet was due. With
//            RunSettings::terminals_as_threads it is a user thread instead, as in the thesis, and
//            the response time counts from the moment at which the thread runs.
//            With an offered rate a terminal claims the next arrival of its warehouse (rate.h)
//            instead of thinking, and the response time counts from that arrival.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "threads/base/check.h"
#include "tpcc/driver.h"
#include "tpcc/needs.h"

namespace lockstep::tpcc {

// What a packet has from announce() to the end of its transaction.
struct alignas(kCacheLineBytes) AnnouncedInput {
    Input input;
    CustomerOfName customer;
    AnnouncedInput* free = nullptr;  // list of AnnouncedInputs
};
// Of one worker. 100,000 terminals that wait have none.
class AnnouncedInputs {
public:
    AnnouncedInput& take() {
        if (free_ == nullptr) return *made_.emplace_back(std::make_unique<AnnouncedInput>());
        return *std::exchange(free_, std::exchange(free_->free, nullptr));
    }
    void give(AnnouncedInput& input) {
        DCHECK(input.free == nullptr && &input != free_);
        input.free = std::exchange(free_, &input);
    }

private:
    AnnouncedInput* free_ = nullptr;
    std::vector<std::unique_ptr<AnnouncedInput>> made_;
};

// State that all terminals of a run share.
struct RunControl {
    Database& db;
    const RunSettings& settings;
    const InputRules rules;
    // Fixed before the first terminal starts.
    Nanos started = 0, measure_begin = 0, measure_end = kNever;
    std::vector<std::unique_ptr<DeliveryQueue>> queues;  // per warehouse, [w - 1]
    // Per warehouse, [w - 1]; empty without an offered rate.
    std::vector<std::unique_ptr<Arrivals>> arrivals;
    std::vector<std::unique_ptr<AnnouncedInputs>> inputs;  // per worker
    std::atomic<bool> stop{false};
    // The latest of the ends of terminals' last transactions, of Deliveries, and of stop_run(). A
    // run that no time ends has ended there: the controller wakes up later.
    alignas(kCacheLineBytes) std::atomic<Nanos> ended{0};
    std::atomic<uint32_t> terminals_live{0}, servers_live{0};
    SpinLock error_lock;
    // First failure; under error_lock.
    Error error;

    RunControl(Database& db, const RunSettings& settings)
        : db(db), settings(settings), rules{db.scale, db.constants} {}
    void note_end(Nanos at);
    // Ends the run early. False: somebody else did.
    bool stop_run();
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

// One finished transaction; the totals count it if it ended in the measured interval.
struct Finished {
    TxnType type;
    Outcome outcome;
    Nanos start, end;
    ThreadWaits waits;  // between start and end
};
void count_finished(WorkerStats& stats, const Finished& txn);
// What was chosen, of a transaction that counts; a Delivery has no choices.
void count_input(InputCounts& counts, const Input& input);

struct TerminalPlace {
    uint32_t number;  // 0-based, among all terminals
    uint32_t w, d;    // home warehouse and Stock-Level district
    int worker;
    uint64_t quota;  // transactions to run; 0 with --duration
};

class alignas(kCacheLineBytes) Terminal final : public Packet {
public:
    // One executor for each worker.
    using Executors = std::vector<std::unique_ptr<Executor>>;
    Terminal(RunControl& control, const Executors& executors, const TerminalPlace& place);
    // As a packet: submits it for the first time. It counts as live until it ends.
    void start();
    // Makes the input of the next transaction and names its records.
    void announce(Announcement& to) override;
    // One transaction.
    void run() override;
    // It was withdrawn, or there is nothing more to do. The last act: it may be gone afterwards.
    void end();
    // The body of a user thread instead.
    void run_as_thread();

private:
    // At this time, which need not be the newest: a read of the clock takes longer than all else.
    bool finished(Nanos time) const;
    Input make_input(TxnType type);
    // `start`: of the response time. Returns its end.
    Result<Nanos> execute(const Input& input, Executor& executor, Nanos start,
                          bool announced = false);
    // Waits while the queue is full. Returns when it had the request, or when the run ended.
    Result<Nanos> queue_delivery(const DeliveryInput& input, Executor& executor, Nanos start);
    Result<void> start_server(Executor& executor, DeliveryQueue& queue);
    static void serve_deliveries(RunControl& control, Executor& executor, DeliveryQueue& queue);
    static void serve_delivery(RunControl& control, Executor& executor, DeliveryQueue& queue,
                               const DeliveryRequest& request);
    // `now`: the end of the last transaction.
    Nanos next_due(Nanos now, double pause_seconds);
    void pause_until(Nanos time);
    void submit(Nanos now, double pause_seconds);

    RunControl& control_;
    const Executors& executors_;
    const TerminalPlace place_;
    Rng rng_;
    Deck deck_;
    TxnType type_{};  // of the packet's next transaction
    // Its input, whose records were named; null while the packet waits.
    AnnouncedInput* next_ = nullptr;
    Nanos due_ = 0;  // when the packet may begin
    uint64_t done_ = 0;
};

}  // namespace lockstep::tpcc
