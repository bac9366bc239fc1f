// flow_impl.h - packets, buffers and runs.
#pragma once

#include <lockstep/store.h>

#include "sm/report/flow.h"
#include "threads/sync/stage.h"

namespace lockstep::sm::report {

// All under Operators::mutex_.
struct Operators::Buffer {
    Packet* from = nullptr;  // null: it has ended
    Packet* to = nullptr;
    std::deque<BatchRef> batches = {};
    std::shared_ptr<const Schema> schema = nullptr;
    bool ended = false;  // nothing comes behind `batches`
    Error error = {};    // why, if not by its last row
    bool bounded = true;
    bool full() const { return bounded && batches.size() >= kBufferBatches; }
    void assert_state() const {
        DCHECK(!bounded || batches.size() <= kBufferBatches);
        DCHECK(ended == (from == nullptr) || to == nullptr);
        DCHECK(error.code == ErrorCode::none || ended);
        DCHECK(batches.empty() || schema != nullptr);
    }
};

struct Operators::Packet : std::enable_shared_from_this<Packet> {
    // Of the stage.
    Packet *next = nullptr, *prev = nullptr;
    Nanos entered = 0;
    uint32_t bypassed = 0;

    explicit Packet(StageKind of) : kind(of) {}
    const StageKind kind;
    std::unique_ptr<Operator> work;        // null: a scan that has yet to begin
    std::shared_ptr<const Roots> plans;    // that the operator points into
    std::shared_ptr<const void> of_state;  // whose place in memory is a part of the signature
    std::string signature;                 // empty: nobody shares it
    std::vector<std::shared_ptr<Buffer>> in, out;
    std::shared_ptr<const Schema> schema;  // since it was bound
    enum class State : uint8_t { resting, queued, serving, ended } state = State::resting;
    bool poked = false;  // while it was served, a neighbour changed something
    bool kept = false;
    // What it rests for: an input, or room; Operator::kNone: neither.
    size_t starved = Operator::kNone;
    bool blocked = false;
    uint64_t taken = 0, made = 0;  // batches
    double progress = 0;           // of a scan
    std::vector<BatchRef> window;  // all that it has made, while that is in memory
    bool window_open = true;
    Run* run = nullptr;                                  // of a sink that has not ended
    std::list<std::shared_ptr<Packet>>::iterator place;  // in packets_

    bool ended() const { return state == State::ended; }
    bool waits() const {
        return state == State::resting && (blocked || starved != Operator::kNone);
    }
    // How many batches are still to come, roughly.
    uint64_t left() const;
    void assert_state() const {
        if (ended()) return;
        DCHECK(!window_open || (window.size() == made && made <= kWindowBatches));
        DCHECK(!blocked || starved == Operator::kNone);
        DCHECK(starved == Operator::kNone || starved < in.size());
        DCHECK(work != nullptr || (kind == StageKind::scan && made == 0));
        DCHECK(made == 0 || schema != nullptr);
        DCHECK(plans != nullptr && !plans->empty());
        DCHECK((of_state == nullptr) == signature.empty() || kind == StageKind::sink);
        DCHECK((kind == StageKind::sink) == (run != nullptr));
    }
};

struct Operators::AtStage {
    threads::Stage<Packet, true> stage;
    threads::StageLine<Packet> line;
    Condition wake;
    size_t threads = 0;
    bool used = false;  // by a run, which needs its threads
    void assert_state(size_t workers) const {
        line.assert_state();
        DCHECK(threads <= workers && (threads == 0 || used));
    }
};
// A plan, or several that run as one, from its begin to its end. Lives on the caller's stack.
struct Operators::Run {
    Shared shared = {};
    std::shared_ptr<const Roots> plans = nullptr;
    std::shared_ptr<const void> state = nullptr;  // null: it shares nothing
    std::shared_ptr<Packet> sink = nullptr;
    Nanos began = 0;
    ScanPolicy policy = ScanPolicy::automatic;
    std::vector<std::pair<std::shared_ptr<Packet>, Nodes>> scans = {};  // that have yet to begin
    std::vector<Rows> rows = {};
    bool done = false;  // under mutex_, as the error
    Error error = {};
    Condition finished = {};
    void assert_state() const {
        DCHECK(shared.texts != nullptr && shared.sets != nullptr && plans != nullptr);
        DCHECK(shared.sets->reports() == plans->size());
        DCHECK(state == nullptr || plans->size() == 1);
        DCHECK(error.code == ErrorCode::none || done);
    }
};

}  // namespace lockstep::sm::report
