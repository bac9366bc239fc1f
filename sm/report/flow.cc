// flow.cc - the threads of the stages: they serve packets, move batches, and end what has ended.
#include "sm/report/flow.h"

#include <algorithm>

#include "sm/report/deadlock.h"
#include "sm/report/flow_impl.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::report {

Operators::Operators(Place place) : place_(std::move(place)) {
    DCHECK(place_.workers > 0);
    for (auto& stage : stages_) stage = std::make_unique<AtStage>();
}
Operators::~Operators() { DCHECK(packets_.empty() && runs_ == 0); }

uint64_t Operators::Packet::left() const {
    if (kind == StageKind::scan) {
        const double read = std::max(progress, 0.01);
        return 1 + static_cast<uint64_t>(static_cast<double>(made) * (1 - read) / read);
    }
    uint64_t most = 0;
    for (const auto& buffer : in)
        if (buffer->from != nullptr) most = std::max(most, buffer->from->left());
    return 1 + most * (made + 1) / (taken + 1);
}

void Operators::serve_stage(AtStage& at) {
    scan::Pacer pacer = place_.make_pacer();
    std::unique_lock lock(mutex_);
    for (;;) {
        at.assert_state(place_.workers);
        auto batch = at.stage.open(at.line);
        while (Packet* const next = at.stage.dequeue(batch, lockstep::now())) {
            auto packet = next->shared_from_this();
            serve(packet, lock);
            drop_ended(lock);
            lock.unlock();
            packet = nullptr;
            pacer.rest();
            lock.lock();
        }
        if (!at.line.empty()) continue;
        if (runs_ == 0) break;
        pacer.waits();
        at.wake.wait(mutex_, [&] { return !at.line.empty() || runs_ == 0; });
        pacer.waited();
    }
    DCHECK(at.threads > 0);
    if (--at.threads == 0) at.used = false;
}

// Destroys what has ended. A source locks its service, and packets are many.
void Operators::drop_ended(std::unique_lock<Mutex>& lock) {
    if (dropped_.empty()) return;
    auto dropped = std::exchange(dropped_, {});
    lock.unlock();
    dropped.clear();
    lock.lock();
}

// One step of a packet that its stage has taken.
void Operators::serve(const std::shared_ptr<Packet>& packet, std::unique_lock<Mutex>& lock) {
    Packet& p = *packet;
    auto& stage = at(p.kind).stage;
    DCHECK(p.state == Packet::State::queued && p.work != nullptr);
    p.assert_state();
    p.state = Packet::State::serving;
    p.poked = p.blocked = false;
    p.starved = Operator::kNone;
    BatchRef batch;
    if ((!p.schema && !bind(p, lock)) || !may_step(p) || !take(p, batch)) {
        stage.finish();
        return p.ended() ? void() : rest(p);
    }
    lock.unlock();
    const Result<Step> step = p.work->step(batch);
    batch = nullptr;
    const double progress = p.kind == StageKind::scan ? p.work->progress() : 0;
    lock.lock();
    p.progress = progress;
    p.assert_state();
    if (!p.ended() && step.has_value()) give(p, step->made);
    if (!p.ended() && step.has_value() && step->then == Step::Then::again) {
        p.state = Packet::State::queued;
        return stage.requeue(at(p.kind).line, p, lockstep::now());
    }
    stage.finish();
    if (p.ended()) return;
    if (!step.has_value()) return end(p, step.error());
    step->then == Step::Then::ended ? end(p, {}) : rest(p);
}

// False: an input has no schema yet, or the packet has ended.
bool Operators::bind(Packet& p, std::unique_lock<Mutex>& lock) {
    std::vector<const Schema*> schemas;
    std::vector<std::shared_ptr<const Schema>> held;
    for (size_t i = 0; i < p.in.size(); ++i) {
        if (!p.in[i]->schema) {
            if (p.in[i]->ended) end(p, p.in[i]->error);
            else p.starved = i;
            return false;
        }
        held.push_back(p.in[i]->schema);
        schemas.push_back(held.back().get());
    }
    lock.unlock();
    const Result<Schema> schema = p.work->bind(schemas);
    lock.lock();
    if (p.ended()) return false;
    if (!schema.has_value()) return end(p, schema.error()), false;
    p.schema = std::make_shared<const Schema>(*schema);
    for (const auto& buffer : p.out) {
        buffer->schema = p.schema;
        DCHECK(buffer->from == &p && buffer->batches.empty());
        wake(*buffer->to);
    }
    return true;
}

// Notes what it must rest for, if it must.
bool Operators::may_step(Packet& p) {
    p.blocked = std::ranges::any_of(p.out, [](const auto& buffer) { return buffer->full(); });
    if (p.blocked) return false;
    const size_t input = p.work->wants();
    if (input == Operator::kNone) return true;
    DCHECK(input < p.in.size());
    if (p.in[input]->batches.empty() && !p.in[input]->ended) p.starved = input;
    return p.starved == Operator::kNone;
}

// Sets `batch` to what the next step needs. False: the input has failed, and the packet with it.
bool Operators::take(Packet& p, BatchRef& batch) {
    const size_t input = p.work->wants();
    if (input == Operator::kNone) return true;
    Buffer& buffer = *p.in[input];
    buffer.assert_state();
    DCHECK(buffer.to == &p);
    if (buffer.batches.empty()) {
        DCHECK(buffer.ended);
        if (buffer.error.code != ErrorCode::none) return end(p, buffer.error), false;
        return true;
    }
    const bool was_full = buffer.full();
    batch = std::move(buffer.batches.front());
    buffer.batches.pop_front();
    ++p.taken;
    if (was_full && buffer.from != nullptr) wake(*buffer.from);
    return true;
}

void Operators::give(Packet& p, const std::vector<BatchRef>& made) {
    for (const BatchRef& batch : made) {
        batch->assert_state();
        ++p.made;
        if (p.window_open && p.made > kWindowBatches) {
            p.window_open = false;
            p.window.clear();
        }
        if (p.window_open) p.window.push_back(batch);
        for (const auto& buffer : p.out) {
            buffer->batches.push_back(batch);
            buffer->assert_state();  // OF-1
            wake(*buffer->to);
        }
    }
}

// A packet that was served, and cannot go on.
void Operators::rest(Packet& p) {
    DCHECK(p.state == Packet::State::serving);
    p.state = Packet::State::resting;
    p.assert_state();
    if (p.poked) return ready(p);
    if (p.waits()) resolve(p);
}

// A neighbour has changed something that the packet may wait for.
void Operators::wake(Packet& p) {
    if (p.state == Packet::State::serving) p.poked = true;
    if (p.state == Packet::State::resting && p.work != nullptr) ready(p);
}

void Operators::ready(Packet& p) {
    DCHECK(p.state == Packet::State::resting);
    p.state = Packet::State::queued;
    p.blocked = false;
    p.starved = Operator::kNone;
    at(p.kind).stage.enqueue(at(p.kind).line, p, lockstep::now());
    at(p.kind).wake.notify_one();
}

// With an empty error: by its last row. A copy of it, because buffers are destroyed meanwhile.
void Operators::end(Packet& p, Error error) {
    if (p.ended()) return;
    p.assert_state();
    if (p.state == Packet::State::queued) at(p.kind).stage.cancel(at(p.kind).line, p);
    p.state = Packet::State::ended;
    p.window.clear();
    for (const auto& buffer : std::exchange(p.out, {})) {
        buffer->ended = true;
        buffer->error = error;
        buffer->from = nullptr;
        if (buffer->to != nullptr) wake(*buffer->to);
    }
    for (const auto& buffer : std::exchange(p.in, {})) leave(*buffer);
    if (!p.signature.empty()) {
        const auto host = hosts_.find(p.signature);
        if (host != hosts_.end() && host->second == &p) hosts_.erase(host);
        ended_[p.signature] = lockstep::now();
    }
    if (Run* const run = std::exchange(p.run, nullptr)) {
        run->error = error;
        run->done = true;
        run->finished.notify_all();
    }
    DCHECK(p.place->get() == &p);
    const auto place = p.place;
    dropped_.push_back(std::move(*place));
    packets_.erase(place);
}

// Nobody takes from the buffer any more. A packet from which nobody takes ends.
void Operators::leave(Buffer& buffer) {
    buffer.assert_state();
    buffer.to = nullptr;
    buffer.batches.clear();
    Packet* const from = buffer.from;
    if (from == nullptr) return;
    std::erase_if(from->out, [&](const auto& one) { return one.get() == &buffer; });
    buffer.from = nullptr;
    if (from->out.empty()) end(*from, fail(ErrorCode::cancelled, "operator").error());
    else wake(*from);
}

// The packet waits. If it waits for itself, the cheapest packets of the cycle are kept.
void Operators::resolve(Packet& p) {
    std::vector<Packet*> all = {&p};
    std::vector<Waiter> waiters;
    const auto number_of = [&](Packet* packet) {
        const auto at = std::ranges::find(all, packet);
        if (at == all.end()) return all.push_back(packet), static_cast<uint32_t>(all.size() - 1);
        return static_cast<uint32_t>(at - all.begin());
    };
    for (size_t i = 0; i < all.size(); ++i) {
        Packet& at = *all[i];
        at.assert_state();
        Waiter waiter{.cost = at.blocked && at.waits() ? at.left() : kCannotKeep};
        if (at.waits() && at.blocked) {
            for (const auto& buffer : at.out)
                if (buffer->full()) waiter.waits_for.push_back(number_of(buffer->to));
        } else if (at.waits() && at.in[at.starved]->from != nullptr) {
            waiter.waits_for.push_back(number_of(at.in[at.starved]->from));
        }
        waiters.push_back(std::move(waiter));
    }
    DCHECK(waiters.size() == all.size());
    if (!waits_for_itself(waiters, 0) || !place_.resolve_deadlocks) return;
    ++stats_.deadlocks;
    for (const uint32_t w : cheapest_to_keep(waiters, 0)) {
        DCHECK(all[w]->blocked && !all[w]->kept);
        all[w]->kept = true;
        ++stats_.kept;
        for (const auto& buffer : all[w]->out) buffer->bounded = false;
        wake(*all[w]);
    }
}

void Operators::stop() {
    std::unique_lock lock(mutex_);
    const Error closed = fail(ErrorCode::store_closed, "report").error();
    // What takes from a packet ends with it, or before.
    while (!packets_.empty()) end(*packets_.front(), closed);
    drop_ended(lock);
}

AnswerStats Operators::stats() {
    const std::lock_guard lock(mutex_);
    AnswerStats out = stats_;
    for (const auto& at : stages_) out.threads += at->threads;
    return out;
}

StageStats Operators::stage_stats(StageKind kind) { return at(kind).stage.stats(); }

}  // namespace lockstep::sm::report
