// stages.cc - the queues of one kernel thread, and the leader that serves them.
//
// Concepts   A request that must wait parks its thread, unless it is the first one: then its thread
//            becomes the leader. The leader yields, so that whoever is ready arrives or goes on.
//            Then it serves the next request of the batch, by waking its thread, and so on until
//            its own turn comes. Before it runs, it makes another waiting thread the leader. So
//            there is no thread that only schedules, and no request waits for one.
//            A thread that the leader has woken runs before the leader does: the ready queue is
//            first in, first out. If it has moved to another stage since, or waits for something
//            else, the leader serves the next request. If it has called pause(), it is at work, and
//            the leader waits.
#include <lockstep/stages.h>

#include "threads/sync/stage.h"
#include "threads/thread/between_calls.h"
#include "threads/thread/thread.h"
#include "threads/thread/worker_local.h"

namespace lockstep {

using threads::StagedPacket;
using LineStage = threads::Stage<StagedPacket, false>;

// The stages of one worker. All calls come from its user threads, so nothing needs protection.
struct Stages::Line {
    struct Place {
        explicit Place(const threads::StageOptions<StagedPacket>& options) : stage(options) {}
        LineStage stage;
        LineStage::Line queue;
    };

    void add(uint64_t capacity, const StagesOptions& options);
    void enter(StagedPacket& request, size_t to);
    void pause(StagedPacket& request);
    void leave(StagedPacket& request);
    std::string verify() const;

private:
    friend class Stages;

    bool batches() const { return places_[0]->stage.gate().batches; }
    void wait_for_turn(StagedPacket& request, bool goes_on);
    void lead(StagedPacket& request);
    void serve_next();
    StagedPacket& last_waiting() const;
    void assert_state() const {
        DCHECK((leader_ == nullptr) == (queued_ == 0));  // STS-2
        DCHECK(leader_ == nullptr || !leader_->served);
        DCHECK(serving_ == nullptr || serving_->served);
    }

    std::unique_ptr<Place> places_[kStagesMax];
    size_t count_ = 0;
    size_t at_ = 0;                    // the stage whose batch is open
    LineStage::Batch batch_{};         // of that stage
    uint64_t queued_ = 0;              // in all queues
    uint64_t pauses_ = 0;              // of requests in service
    StagedPacket* serving_ = nullptr;  // was served last, and has not moved on
    StagedPacket* leader_ = nullptr;
};

Stages::Stages(std::span<const uint64_t> capacities, const StagesOptions& options)
    : stages_(capacities.size()), options_(options), lines_(new Line[options.workers]) {
    CHECK(!capacities.empty() && capacities.size() <= kStagesMax);
    for (uint32_t worker = 0; worker < options.workers; ++worker)
        for (const uint64_t capacity : capacities) lines_[worker].add(capacity, options);
}

Stages::~Stages() {
    for (uint32_t worker = 0; worker < options_.workers; ++worker)
        DCHECK(lines_[worker].verify().empty());
}

void Stages::enter(StagedRequest& request, size_t stage) {
    CHECK(stage < stages_);
    line().enter(request, stage);
}

void Stages::pause(StagedRequest& request) { line().pause(request); }

void Stages::leave(StagedRequest& request) {
    if (request.stage != StagedPacket::kOutside) line().leave(request);
}

Stages::Line& Stages::line() const {
    CHECK(threads::current() != nullptr);  // a user thread
    const uint32_t worker = threads::worker_index();
    CHECK(worker < options_.workers);
    return lines_[worker];
}

StageStats Stages::stats(size_t stage) const {
    CHECK(stage < stages_);
    StageStats sum;
    for (uint32_t worker = 0; worker < options_.workers; ++worker)
        sum.add(lines_[worker].places_[stage]->stage.stats());
    return sum;
}

std::string Stages::verify() const {
    for (uint32_t worker = 0; worker < options_.workers; ++worker)
        if (std::string fault = lines_[worker].verify(); !fault.empty()) return fault;
    return {};
}

// The entrances' gate forms the batches, which pass the others as a whole. The cutoff holds in all
// of them.
void Stages::Line::add(uint64_t capacity, const StagesOptions& options) {
    const bool entrance = count_ < options.entrances;
    const bool same = entrance || threads::policy_of(options.gate).cuts;
    places_[count_++] = std::make_unique<Place>(threads::StageOptions<StagedPacket>{
        .gate = same ? options.gate : StageGate::d_gated,
        .batch_max = entrance ? options.batch_max : 0,
        .cutoff = options.cutoff,
        .capacity = capacity,
    });
    batch_ = {&places_[0]->queue, 0};
}

void Stages::Line::enter(StagedPacket& request, size_t to) {
    const bool outside = request.stage == StagedPacket::kOutside;
    CHECK(outside || to > request.stage);  // STS-1
    Place& place = *places_[to];
    place.stage.admit(kNever, threads::ParkReason::event);
    if (serving_ == &request) serving_ = nullptr;
    const bool goes_on = !outside && serving_ == nullptr && leader_ == nullptr;
    const Nanos now = goes_on || !batches() ? 0 : threads::now();
    if (outside) place.stage.enqueue(place.queue, request, now);
    else places_[request.stage]->stage.forward(request, place.stage, place.queue, now);
    request.visited = (outside ? 0 : request.visited << 4) | (to + 1);
    request.stage = static_cast<uint8_t>(to);
    if (batches()) return wait_for_turn(request, goes_on);
    place.stage.take(place.queue, request, 0);
    place.stage.served_together(1);
}

void Stages::Line::pause(StagedPacket& request) {
    const threads::BetweenCalls waits;
    if (request.stage == StagedPacket::kOutside || !batches()) return threads::yield();
    Place& place = *places_[request.stage];
    if (serving_ == &request) ++pauses_;
    const Nanos now = place.stage.gate().cuts ? threads::now() : 0;
    if (request.begun == 0) request.begun = now;
    if (!place.stage.stays_behind(now - request.begun)) return threads::yield();
    if (serving_ == &request) serving_ = nullptr;
    place.stage.requeue(place.queue, request, now);
    wait_for_turn(request, false);
}

void Stages::Line::leave(StagedPacket& request) {
    DCHECK(request.served || !batches());
    places_[request.stage]->stage.finish();
    request.stage = StagedPacket::kOutside;
    if (serving_ == &request) serving_ = nullptr;
    assert_state();
}

// The request is in its stage's queue. `goes_on`: nothing else waits or is in service, and it comes
// from another stage. Then it is served at once. One that comes from outside always looks whether
// others come with it.
void Stages::Line::wait_for_turn(StagedPacket& request, bool goes_on) {
    request.served = false;
    request.thread = threads::current();
    ++queued_;
    if (leader_ == nullptr) leader_ = &request;
    if (goes_on) serve_next();
    assert_state();
    while (!request.served)
        if (leader_ == &request) lead(request);
        else threads::park(threads::ParkReason::event);
    request.begun = 0;
}

void Stages::Line::lead(StagedPacket& request) {
    while (!request.served) {
        const uint64_t before = pauses_;
        threads::yield();
        const bool at_work = serving_ != nullptr && pauses_ != before;
        if (!at_work) serve_next();
    }
}

// Takes the next request of the open batch, or of the next stage that has one.
void Stages::Line::serve_next() {
    DCHECK(queued_ > 0 && leader_ != nullptr);
    const auto now_of = [](const StagedPacket* first) {
        return first == nullptr || first->entered == 0 ? 0 : threads::now();
    };
    StagedPacket* next = places_[at_]->stage.dequeue(batch_, now_of(batch_.line->first));
    for (size_t tries = 0; next == nullptr; ++tries) {
        DCHECK(tries < count_);
        at_ = (at_ + 1) % count_;
        batch_ = places_[at_]->stage.open(places_[at_]->queue);
        next = places_[at_]->stage.dequeue(batch_, now_of(batch_.line->first));
    }
    --queued_;
    next->served = true;
    serving_ = next;
    if (next != leader_) {
        threads::wake(next->thread);
    } else {
        leader_ = queued_ == 0 ? nullptr : &last_waiting();
        if (leader_ != nullptr) threads::wake(leader_->thread);
    }
    assert_state();
}

// The one whose turn comes latest, so that it leads for long.
StagedPacket& Stages::Line::last_waiting() const {
    for (size_t i = count_ - 1;; --i) {
        DCHECK(i < count_);  // one waits
        const auto& queue = places_[(at_ + i) % count_]->queue;
        if (!queue.empty()) return *queue.last;
    }
}

std::string Stages::Line::verify() const {
    uint64_t waiting = 0;
    for (size_t i = 0; i < count_; ++i) {
        waiting += places_[i]->queue.length;
        if (std::string fault = places_[i]->stage.verify(0, 0); !fault.empty()) return fault;
    }
    return waiting == queued_ && leader_ == nullptr ? "" : "STS-2: requests are queued";
}

}  // namespace lockstep
