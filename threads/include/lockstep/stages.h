// stages.h - the stages of a server: where its requests queue, and which of them runs next.
//
// Concepts   The work on a request has parts, such as parse, execute and reply. Each part is a
//            *stage*, with a queue, a capacity and statistics. The *gate* decides which requests
//            form a batch where they enter. A batch passes stage by stage: while its requests are
//            parsed one after the other, the parser's code and tables stay in the caches. Then they
//            are executed, and so on. A request brings its user thread: a stage has no threads of
//            its own. Each kernel thread of a store has queues of its own.
//            One request of a kernel thread is in service at a time. If it waits for a lock, a
//            page, the log or a socket, the next one is served. It goes on when its wait has ended.
//            Back-pressure: enter() suspends the thread that would exceed the capacity of the next
//            stage. Its request keeps its place in the stage before. No other request waits for it,
//            unless that stage fills up, too.
// Invariants STS-1 A request visits stages in ascending order. So full stages never wait for each
//                  other in a circle. [checked: Stages::enter()]
//            STS-2 While requests are queued on a kernel thread, the thread of one of them, the
//                  leader, serves them. [checked: Line::assert_state()]
// Blocking   enter() and pause() suspend the user thread. The other calls never wait.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, sections 3.2, 3.3 and 3.5.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/stage_gate.h>
#include <lockstep/stage_stats.h>
#include <lockstep/types.h>

namespace lockstep {

class Stages;

namespace threads {

struct Thread;

// A request as a stage sees it. Applications derive from StagedRequest.
struct StagedPacket {
    static constexpr uint8_t kOutside = UINT8_MAX;

    // Links of the queue, and what stage.h counts. Of the request's kernel thread, as all below.
    StagedPacket* next = nullptr;
    StagedPacket* prev = nullptr;
    Nanos entered = 0;
    uint32_t bypassed = 0;
    uint8_t stage = kOutside;
    bool served = false;       // it has left the queue and may run
    Nanos begun = 0;           // first pause() of its present service; 0: there was none
    uint64_t visited = 0;      // see StagedRequest::visited()
    Thread* thread = nullptr;  // that waits in the queue
};

}  // namespace threads

// A request on its way through the stages of one Stages object. It must not move meanwhile.
class StagedRequest : threads::StagedPacket {
public:
    StagedRequest() = default;
    StagedRequest(const StagedRequest&) = delete;
    StagedRequest& operator=(const StagedRequest&) = delete;
    // The stages that it has entered since it came from outside: four bits each, the last one in
    // the lowest bits, and the number of a stage plus 1. So 0x124 is stage 0, 1, 3.
    uint64_t visited() const { return StagedPacket::visited; }

private:
    friend class Stages;
};

// What the stages have in common.
struct StagesOptions {
    // Of the first so many stages, at which requests come from outside. The others take what has
    // come. batch_max: t_gated needs at least 1.
    StageGate gate = StageGate::d_gated;
    size_t entrances = 1;
    uint32_t batch_max = 0;
    // c_gated: a request stays behind at the pause() that comes so many nanoseconds, waits
    // included, after its first one in this batch.
    Nanos cutoff = kMillisecond;
    uint32_t workers = 1;  // as Options::workers of the store
};

// The stages of a server. It must live longer than the requests inside.
class Stages {
public:
    static constexpr size_t kStagesMax = 8;

    // Stage i holds at most capacities[i] requests on each kernel thread, waiting or in service; 0:
    // no limit. Needs 1 to kStagesMax stages. Takes about 15 KB for each stage and worker.
    Stages(std::span<const uint64_t> capacities, const StagesOptions& options);
    // No request may be inside.
    ~Stages();
    Stages(const Stages&) = delete;
    Stages& operator=(const Stages&) = delete;

    // On a user thread of the store: the request leaves the stage that it is in, if any, and queues
    // at the later stage `stage`. Returns when that serves it.
    void enter(StagedRequest& request, size_t stage);
    // For long work in a stage, about each 100 microseconds: lets other threads run, and with
    // c_gated other requests. A transaction may be open, and its locks stay held.
    void pause(StagedRequest& request);
    // The request is outside again. Does nothing if it is outside already.
    void leave(StagedRequest& request);

    // Counters of one stage, summed over the kernel threads. Any kernel thread.
    StageStats stats(size_t stage) const;
    // While nothing runs, with no request inside: text of a fault in the books, or empty.
    std::string verify() const;

private:
    struct Line;
    Line& line() const;

    const size_t stages_;
    const StagesOptions options_;
    const std::unique_ptr<Line[]> lines_;  // one for each worker
};

}  // namespace lockstep
