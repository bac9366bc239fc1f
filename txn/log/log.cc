// log.cc - construction, start and stop, plain questions. Opening an existing log stands in
// log_open.cc.
#include "txn/log/log.h"

#include <algorithm>
#include <bit>

#include "threads/base/limits.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

namespace {

uint64_t margin_for(uint32_t workers) { return uint64_t{workers} * kLogRecordMax; }

}  // namespace

Log::Impl::Impl(threads::Runtime& rt, const LogOptions& given, LogRing&& memory)
    : runtime(rt),
      options(given),
      files(*rt.disk(), given.directory, given.segment_bytes),
      ring(std::move(memory)),
      workers(rt.workers()),
      ring_margin(margin_for(rt.workers())),
      slack(margin_for(rt.workers()) + std::min<uint64_t>(given.capacity_bytes / 16, 16ull << 20)),
      undo_chunk(
          std::min<uint64_t>(limits::undo_chunk(), given.capacity_bytes / 64 / rt.workers())),
      scarce_bytes((given.capacity_bytes - slack) / 4 * 3),
      slots(std::make_unique<LogWorkerSlot[]>(rt.workers())),
      buffers(std::make_unique<LogIoBuffers>()) {
    DCHECK(ring.bytes() >= 4 * ring_margin && undo_chunk > 0);
    DCHECK(slack < given.capacity_bytes);
    std::fill_n(holds, kHoldsMax, kNothingOpen);
}

Log::Impl::~Impl() {
    if (write_file.value >= 0) files.disk().close(write_file);
    if (mark_file.value >= 0) files.disk().close(mark_file);
    ring.clear(block_floor(first_tail), std::max(first_tail, tail.load()));
}

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)), failed_(&impl_->failed) {}

// stop_flusher() came first, or a simulation has abandoned the runtime with all its threads.
Log::~Log() = default;

uint64_t Log::ring_bytes_for(const LogOptions& options, uint32_t workers) {
    return std::max(options.ring_bytes, std::bit_ceil(4 * margin_for(workers)));
}

Result<void> Log::start_flusher() {
    Impl& log = *impl_;
    CHECK(!log.running.load());
    log.stopping = false;
    log.keeper_stop.store(false);
    log.reasons.store(0);
    log.flusher_done = std::make_unique<threads::Completion>();
    log.keeper_done = std::make_unique<threads::Completion>();
    TRY(log.runtime.spawn(0, "log flusher", [&log] { log.run_flusher(); }));
    log.running.store(true);
    const auto keeper = log.runtime.spawn(0, "log keeper", [&log] { log.run_keeper(); });
    if (keeper) return {};
    log.keeper_done->set();
    stop_flusher();
    return std::unexpected(keeper.error());
}

void Log::stop_flusher() {
    Impl& log = *impl_;
    if (!log.running.load()) return;
    log.keeper_stop.store(true);
    log.keeper_wanted.store(false);
    log.kick_keeper();
    log.keeper_done->wait();
    log.kick(kFlushStop);
    log.flusher_done->wait();
    DCHECK(log.flusher.load() == nullptr && log.keeper.load() == nullptr);
    DCHECK(log.failed.load() || log.durable.load() == log.tail.load());
    log.running.store(false);
}

Lsn Log::tail() const { return Lsn{impl_->tail.load()}; }
Lsn Log::durable() const { return Lsn{impl_->durable.load(std::memory_order_acquire)}; }
Lsn Log::start() const { return Lsn{impl_->start.load()}; }
threads::Runtime& Log::runtime() const { return impl_->runtime; }

std::string Log::verify(uint64_t credits) const {
    Impl& log = *impl_;
    if (log.failed.load()) return {};
    DCHECK(log.durable.load() <= log.tail.load());
    DCHECK(log.start.load() <= log.durable.load());
    if (log.filled() != log.tail.load()) return "a reservation is left open";
    if (log.appends && undo_reserved_bytes() != credits)
        return "LI-4: " + std::to_string(undo_reserved_bytes()) + " bytes are promised, and " +
               std::to_string(credits) + " owned";
    const auto sleeps = [&log] { return log.idle.load() || !log.running.load(); };
    {
        const SpinGuard guard(log.durable_lock);
        for (const threads::Waiter* w = log.durable_waiters.first(); w != nullptr; w = w->next)
            if (w->tag <= log.durable.load() || sleeps()) return "a thread waits for durable log";
    }
    const SpinGuard guard(log.ring_lock);
    if (!log.ring_waiters.empty() && sleeps()) return "a thread waits for a place in the ring";
    return {};
}

Log::Stats Log::stats() const {
    const Impl& log = *impl_;
    Stats s;
    for (uint32_t i = 0; i < log.workers; ++i)
        s.records += log.slots[i].records.load(std::memory_order_relaxed);
    s.bytes = log.tail.load() - log.first_tail;
    s.flushes = log.flushes.load();
    s.syncs = log.syncs.load();
    s.flush_bytes = log.flush_bytes.load();
    s.ring_full_waits = log.ring_full_waits.load();
    s.durable_waits = log.durable_waits.load();
    s.flush_nanos = log.flush_nanos.load();
    return s;
}

}  // namespace lockstep::txn
