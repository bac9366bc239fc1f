// packet_api.cc - packets of the application enter the admission stage: Store::submit(), and the
// functions of start() and spawn().
#include <lockstep/packet.h>
#include <lockstep/store.h>

#include <algorithm>

#include "sm/engine/engine.h"

namespace lockstep {

namespace {

[[gnu::cold]] std::unexpected<Error> no_such_worker(int worker, uint32_t workers) {
    if (worker < 0)
        return fail(ErrorCode::bad_argument,
                    "negative worker; allowed are kAnyWorker, and numbers below", workers);
    return fail(ErrorCode::bad_argument,
                "worker; allowed are kAnyWorker, and numbers below the second",
                static_cast<uint64_t>(worker), workers);
}

}  // namespace

Result<void> sm::Engine::submit(int worker, threads::Packet& packet) {
    DCHECK(runtime != nullptr && worker >= Store::kAnyWorker);
    if (forked()) [[unlikely]]
        return refuse_child();
    if (closing_.load(std::memory_order_relaxed)) return fail(ErrorCode::store_closed, "store");
    const uint32_t home = worker >= 0 ? static_cast<uint32_t>(worker)
                                      : next_worker_.fetch_add(1, std::memory_order_relaxed);
    return runtime->submit(home, packet);
}

Result<void> Store::submit(Packet& packet, const PacketOptions& options) {
    const sm::Call call(engine_.get());
    if (!call) [[unlikely]]
        return sm::Call::closed();
    if (options.worker < kAnyWorker)
        return no_such_worker(options.worker, engine_->options.workers);
    if (options.priority >= threads::Packet::kPriorities)
        return fail(ErrorCode::bad_argument, "priority of a packet; allowed are numbers below",
                    threads::Packet::kPriorities);
    threads::Packet& inner = packet;
    inner.priority = options.priority;
    inner.pinned = options.pinned;
    inner.not_before = std::min(options.not_before, kNever - 1);
    return engine_->submit(options.worker, inner);
}

bool Store::withdraw(Packet& packet) {
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return false;
    return engine_->runtime->withdraw(packet);
}

Result<void> Store::start_thread(detail::Owned<detail::Job> job, int worker) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    DCHECK(job && !job->task.done());
    const uint32_t workers = engine_->options.workers;
    if (worker != kAnyWorker && (worker < 0 || static_cast<uint32_t>(worker) >= workers))
        return no_such_worker(worker, workers);
    job->engine = engine_.get();
    threads::Packet& packet = *job;
    packet.pinned = worker != kAnyWorker;
    const Result<void> submitted = engine_->submit(worker, packet);
    if (submitted) (void)job.release();  // the packet owns itself
    return submitted;
}

int current_worker() {
    return threads::current() != nullptr ? static_cast<int>(threads::worker_index()) : -1;
}

}  // namespace lockstep
