// flow.h - the stages of a store's operators: packets, bounded buffers, threads, and what plans
// share.
//
// Concepts   A *packet* is one operator at work. Each kind of operator has a stage with at most
//            Place::workers user threads, which serve its packets step by step, whatever the number
//            of reports. A *buffer* leads from a packet to one that takes its rows. It has at most
//            kBufferBatches batches. A packet whose buffer is full, or whose input is empty, rests
//            until its neighbour has changed that; nobody else waits (back-pressure).
//            A plan whose operator has the signature of a running packet of the same state takes a
//            buffer of that packet, its *host*, instead of a packet of its own and those below it.
//            The window of opportunity (operator.h) is open while the host still has all that it
//            has made: kWindowBatches are kept for that.
//            A host adapts to the slowest that takes from it. Where branches meet again, that can
//            be a deadlock (deadlock.h); the host is then *kept*: its buffers have no bound.
// States     packet: queued -> serving (serve) -> queued | resting (rest) | ended (end);
//            resting -> queued (wake); queued, resting -> ended (end).
// Invariants OF-1 A buffer has at most kBufferBatches, unless its packet is kept. [checked: give()]
//            OF-2 Who takes from a packet gets all its batches, in their order, once.
//                 [checked: attach()]
//            OF-3 The number of threads depends on workers and kinds of operators only.
//                 [checked: start_threads()]
//            OF-4 No report waits longer than one cycle (flow_answer.cc). [checked: begin_cycle()]
// Blocking   answer() suspends a user thread, blocks any other. mutex_ is held briefly, and below
//            Service::mutex_; neither an operator nor a source is called with it.
// Source     Harizopoulos, "Staged Database Systems", sections 4.2 to 4.4.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <lockstep/stage_stats.h>
#include <lockstep/sync.h>
#include "sm/report/operator.h"
#include "sm/scan/pacer.h"

namespace lockstep::sm::report {

inline constexpr size_t kBufferBatches = 4, kWindowBatches = 4;
inline constexpr size_t kTogetherMax = 4096;

// What operators need of a store.
struct Place {
    // Starts a user thread that serves a stage. close() of the store waits for it.
    std::function<Result<void>(std::function<void()> serve)> start = nullptr;
    // The pacer of the calling thread, which `start` has started.
    std::function<scan::Pacer()> make_pacer = nullptr;
    size_t workers = 1;
    bool resolve_deadlocks = true;
};

// What a report reads: its state, and its scans. Equal states mean equal rows.
struct Reads {
    std::shared_ptr<const void> state;
    // Begins the scan of a node with these columns and conditions.
    std::function<Result<std::shared_ptr<Source>>(
        const ScanOptions& options, const std::string& table, const std::shared_ptr<Texts>& texts)>
        scan;
};

class Operators : public std::enable_shared_from_this<Operators> {
public:
    explicit Operators(Place place);
    ~Operators();

    // As Report::answer().
    Result<std::vector<Rows>> answer(std::span<const Plan> plans, const Reads& reads,
                                     const AnswerOptions& options);
    // Ends all plans with store_closed. Later ones get that from their scans.
    void stop();
    AnswerStats stats();
    // Of one kind of operator.
    StageStats stage_stats(StageKind kind);

private:
    struct Packet;
    struct Buffer;
    struct Run;
    struct Cycle;
    struct Ticket;
    struct AtStage;
    using Roots = std::vector<std::shared_ptr<const PlanNode>>;

    // flow_answer.cc
    Result<std::vector<Rows>> in_cycle(const Roots& plan, const Reads& reads,
                                       const AnswerOptions& options);
    std::vector<Ticket*> begin_cycle(Cycle& cycle);
    bool run_cycle(std::vector<Ticket*>& tickets, const Reads& reads, const AnswerOptions& options);
    void end_cycle(const std::string& type, Cycle& cycle);
    Result<std::vector<Rows>> compute(const Roots& plans, const Reads& reads,
                                      const AnswerOptions& options);
    Result<std::vector<Rows>> one_by_one(const Roots& plans, const Reads& reads,
                                         const AnswerOptions& options);
    Result<std::vector<Rows>> as_one(const Roots& plans, const Reads& reads,
                                     const AnswerOptions& options);
    // flow_build.cc
    void begin(Run& run, const Roots& plans, const Reads& reads, const AnswerOptions& options);
    void wait(Run& run);
    void build(Run& run, const Nodes& nodes, const std::shared_ptr<Packet>& packet);
    void take_from(Run& run, const Nodes& nodes, StageKind kind, Packet& to);
    bool attach(Run& run, const std::string& signature, Packet& to);
    void connect(Packet& from, Packet& to);
    void begin_scans(Run& run, const Reads& reads);
    Result<void> start_threads();
    // flow.cc; all but the first under mutex_
    void serve_stage(AtStage& at);
    void serve(const std::shared_ptr<Packet>& packet, std::unique_lock<Mutex>& lock);
    bool bind(Packet& packet, std::unique_lock<Mutex>& lock);
    bool may_step(Packet& packet);
    bool take(Packet& packet, BatchRef& batch);
    void give(Packet& packet, const std::vector<BatchRef>& made);
    void rest(Packet& packet);
    void wake(Packet& packet);
    void ready(Packet& packet);
    void end(Packet& packet, Error error);
    void leave(Buffer& buffer);
    void drop_ended(std::unique_lock<Mutex>& lock);
    void resolve(Packet& packet);
    AtStage& at(StageKind kind) { return *stages_[static_cast<size_t>(kind)]; }

    const Place place_;
    Mutex mutex_;
    std::unique_ptr<AtStage> stages_[kStages];
    // All under mutex_.
    std::list<std::shared_ptr<Packet>> packets_;
    std::vector<std::shared_ptr<Packet>> dropped_;  // destroyed without mutex_
    std::unordered_map<std::string, Packet*> hosts_;
    std::unordered_map<std::string, Nanos> ended_;  // when a signature's packet ended last
    std::map<std::string, std::shared_ptr<Cycle>> cycles_;
    size_t runs_ = 0;
    std::shared_ptr<Texts> texts_;  // of all runs; new when none is left
    AnswerStats stats_;
};

}  // namespace lockstep::sm::report
