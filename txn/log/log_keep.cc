// log_keep.cc - the keeper: makes segments ahead of need, recycles old ones, and forgets what is no
// longer wanted.
//
// Concepts   A segment counts (prepared_end) only when it has its blocks, its name, and the
//            directory is synced; space is promised only up to there. New segments are written once
//            with zeros, because a first write into reserved but unwritten extents makes each sync
//            commit file-system metadata; when somebody waits for room already, the zeros are left
//            out.
// Blocking   Parks for I/O. Renames and directory syncs block the worker: once per segment.
#include <algorithm>
#include <cstring>

#include "threads/base/mutants.h"
#include "threads/thread/thread.h"
#include "threads/worker/io_wait.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

void Log::Impl::kick_keeper() {
    if (keeper_wanted.exchange(true)) return;
    if (threads::Thread* thread = keeper.load(std::memory_order_acquire)) threads::wake(thread);
}

void Log::Impl::run_keeper() {
    keeper.store(threads::current());
    while (!keeper_stop.load()) {
        keeper_wanted.store(false);
        if (keep_step()) continue;
        wake_all(room_lock, room_waiters);
        if (!keeper_wanted.load() && !keeper_stop.load()) threads::park(threads::ParkReason::log);
    }
    wake_all(room_lock, room_waiters);
    keeper.store(nullptr);
    keeper_done->set();
}

// LSN up to which segments are wanted now: room for what is promised, and one segment ahead.
uint64_t Log::Impl::wanted_end() const {
    const uint64_t bound = start.load(std::memory_order_relaxed) + options.capacity_bytes;
    const uint64_t wish = tail.load(std::memory_order_relaxed) +
                          reserved.load(std::memory_order_relaxed) + slack + options.segment_bytes;
    return std::min(std::max(wish, room_wanted.load(std::memory_order_relaxed)), bound);
}

// One thing that needs doing; false if nothing does, or nothing can be done.
bool Log::Impl::keep_step() {
    if (failed.load()) return false;
    if (first_segment < files.number_of(start.load())) return recycle_old();
    if (prepared_end.load() >= wanted_end()) return false;
    if (make_segment()) return true;
    keeper_stuck.store(true);  // tried again when somebody asks for room
    return false;
}

bool Log::Impl::recycle_old() {
    const uint64_t end = prepared_end.load();
    if (end >= start.load() + options.capacity_bytes) {
        if (!files.disk().unlink(files.segment_path(first_segment))) return false;
        ++first_segment;
        return true;
    }
    // Its records are below start, and none of them validates at its new place: the checksum is
    // seeded with the LSN.
    if (!files.recycle(first_segment, files.number_of(end))) return false;
    ++first_segment;
    // The name may be lost: nothing can be promised beyond here any more.
    if (!MUTANT(segment_name_unsynced) && !files.sync_directory()) {
        fail();
        return false;
    }
    segment_added();
    return true;
}

bool Log::Impl::make_segment() {
    const Result<threads::FileId> file = files.start_new();
    if (!file) return false;
    fill_with_zeros(*file);
    files.disk().close(*file);
    // The flusher may have placed a segment of its own meanwhile; ours then becomes the one after.
    if (keeper_stop.load() || !files.place_new(files.number_of(prepared_end.load()))) {
        (void)files.disk().unlink(files.new_path());
        return false;
    }
    if (!files.sync_directory()) {
        fail();
        return false;
    }
    segment_added();
    return true;
}

// Best effort: unwritten blocks read as zeros as well.
void Log::Impl::fill_with_zeros(threads::FileId file) {
    constexpr uint64_t kChunk = 256 * 1024;
    struct alignas(kLogBlock) Zeros {
        std::byte bytes[kChunk];
    };
    const auto zeros = std::make_unique<Zeros>();
    std::memset(zeros->bytes, 0, kChunk);
    for (uint64_t at = 0; at < files.segment_bytes() && !keeper_stop.load(); at += kChunk) {
        {
            SpinGuard guard(room_lock);
            if (!room_waiters.empty()) return;
        }
        const uint64_t bytes = std::min(kChunk, files.segment_bytes() - at);
        if (!threads::io_write(file, at, zeros->bytes, bytes, threads::IoClass::write_back,
                               "log segment"))
            return;
    }
    if (options.sync && !keeper_stop.load()) (void)threads::io_sync(file, "log segment");
}

// For the flusher when records that nobody promised have run past the last segment: parking for the
// keeper would be too late.
[[gnu::cold]] Result<void> Log::Impl::place_segment_now() {
    if (first_segment < files.number_of(start.load())) {
        if (!recycle_old()) return lockstep::fail(ErrorCode::io_error, "log segment");
        return {};
    }
    const uint64_t number = files.number_of(prepared_end.load());
    const threads::FileId file = TRY(files.disk().open(
        files.segment_path(number), threads::Disk::kCreate | threads::Disk::kDirect));
    const Result<void> allocated = files.disk().allocate(file, files.segment_bytes());
    files.disk().close(file);
    if (!allocated) return allocated;
    TRY(files.sync_directory());
    segment_added();
    return {};
}

void Log::Impl::segment_added() {
    prepared_end.fetch_add(files.segment_bytes());
    keeper_stuck.store(false);
    update_promise_limit();
    wake_all(room_lock, room_waiters);
}

// LI-4. Under the lock, because truncation (any worker) and new segments (worker 0) both get here.
void Log::Impl::update_promise_limit() {
    SpinGuard guard(room_lock);
    const uint64_t bound = std::min(start.load() + options.capacity_bytes, prepared_end.load());
    promise_limit.store(bound > slack ? bound - slack : 0);
}

void Log::truncate_before(Lsn lsn) {
    Impl& log = *impl_;
    const uint64_t to =
        MUTANT(truncate_too_far) ? log.durable.load() : std::min(lsn.value, log.durable.load());
    uint64_t from = log.start.load();
    while (from < to && !log.start.compare_exchange_weak(from, to)) {}
    log.update_promise_limit();
    log.wake_all(log.room_lock, log.room_waiters);
    log.kick(kFlushMark);
    log.kick_keeper();
}

}  // namespace lockstep::txn
