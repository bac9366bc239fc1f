// log_keep.cc - the keeper: makes segments ahead of need, and recycles old ones.
//
// Concepts   A segment counts (prepared_end) only when its blocks are allocated, its name is in
//            place, and the directory is synced. Space is promised only up to there. New segments
//            are filled with zeros once: without that, a first write into reserved but unwritten
//            extents makes each sync commit file-system metadata. If a thread already waits for
//            space, the zeros are left out. Then the file is synced. The last segment of a young
//            log grows in steps (log_grow.cc).
// Blocking   Parks for I/O. Renames and directory syncs block the worker: once per segment.
#include <algorithm>

#include "threads/io/aligned_buffer.h"
#include "threads/thread/thread.h"
#include "threads/worker/io_wait.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

void Log::Impl::kick_keeper() {
    if (keeper_wanted.exchange(true)) return;
    if (threads::Thread* thread = keeper.load(std::memory_order_acquire)) threads::wake(thread);
}

void Log::Impl::run_keeper() {
    DCHECK(keeper.load() == nullptr && threads::current() != nullptr);
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

// LSN up to which files are wanted now: the promised space, and as much more as the log has ever
// held, at most a segment; once the device has been full, only little more, because data needs
// space too. Before the first promise of a run no slack is wanted.
uint64_t Log::Impl::wanted_end() const {
    const uint64_t bound = files_max();
    const uint64_t used = tail.load(std::memory_order_relaxed),
                   promised = reserved.load(std::memory_order_relaxed);
    const uint64_t least = options.first_bytes / 8;
    const uint64_t ahead =
        device_was_full() ? least : std::min(std::max(used, least), options.segment_bytes);
    const uint64_t wish = promised > 0 ? end_for(used + promised + ahead) : used + ahead;
    return std::min(std::max(wish, room_wanted.load(std::memory_order_relaxed)), bound);
}

// Why a segment could not be made, or made larger.
[[gnu::cold]] void Log::Impl::note_refusal(const Error& why) {
    DCHECK(threads::current() == keeper.load() && why.code != ErrorCode::none);
    keeper_refusal.store({.code = why.code, .os = why.os});
    update_promise_limit();
}

// Does one necessary step. False if none is necessary or possible. While an old segment cannot be
// recycled, new ones are made in its stead: threads may wait for their space.
bool Log::Impl::keep_step() {
    if (failed.load()) return false;
    assert_segments();
    if (first_segment < files.number_of(start.load())) {
        if (recycle_old()) return true;
        if (failed.load()) return false;
    }
    if (prepared_end.load() >= wanted_end()) return false;
    if (last_is_whole() ? make_segment() : grow_last()) return true;
    keeper_stuck.store(true);  // tried again when a thread asks for space
    return false;
}

// An error of unlink or rename leaves everything as it was. A failed directory sync stops the
// store.
Result<void> Log::Impl::recycle_old() {
    DCHECK(first_segment < files.number_of(start.load()));  // of no record that is kept
    const uint64_t end = prepared_end.load();
    // Only a whole segment has a successor. After a crash the last one may be shorter.
    if (end >= files_max() || !last_is_whole()) {
        TRY(files.disk().unlink(files.segment(first_segment)));
        ++first_segment;
        return {};
    }
    // Its records are below start. None of them validates at its new place, because the checksum is
    // seeded with the LSN.
    TRY(files.recycle(first_segment, files.number_of(end)));
    ++first_segment;
    // The name may be lost, so no space beyond here can be promised any more.
    TRY(sync_names());
    space_added(end + files.segment_bytes());
    return {};
}

Result<void> Log::Impl::sync_names() {
    const Result<void> synced = files.sync_directory();
    if (!synced) return fail("sync of directory", files.directory().path(), synced.error());
    return {};
}

bool Log::Impl::make_segment() {
    const Result<threads::FileId> file = files.start_new(files.segment_bytes());
    if (!file) return note_refusal(file.error()), false;
    fill_with_zeros(*file, 0, files.segment_bytes());
    const bool synced = keeper_stop.load() || sync_segment(*file, LogFiles::kNewName);
    files.disk().close(*file);
    if (!synced) return false;
    // The flusher may have placed a segment meanwhile; this one then becomes the next.
    const uint64_t begin = prepared_end.load();
    CHECK(begin % files.segment_bytes() == 0);  // else the new name would be a segment in use
    const Result<void> placed =
        keeper_stop.load() ? Result<void>() : files.place_new(files.number_of(begin));
    if (!placed) note_refusal(placed.error());
    if (keeper_stop.load() || !placed) {
        (void)files.disk().unlink(files.new_segment());
        return false;
    }
    if (!sync_names()) return false;
    keeper_refusal.store({});  // the device has room for a whole segment
    space_added(begin + files.segment_bytes());
    return true;
}

// Best effort: unwritten blocks read as zeros as well. Ends early if a thread waits for space, and
// does nothing after a failed attempt, which is repeated as often as a thread asks for space.
// The buffer is never touched, so the system may read its one huge page of zeros: no memory, and
// one piece for the device. A 1 MB request is cheap for the kernel and keeps the log's own writes
// waiting for a millisecond at most on a device that writes 1 GB/s.
void Log::Impl::fill_with_zeros(threads::FileId file, uint64_t from, uint64_t to) {
    constexpr uint64_t kChunk = 1 << 20, kHugePage = 2 << 20;
    const auto zeros = threads::make_aligned_buffer(kHugePage, threads::PageSize::huge);
    if (!zeros || keeper_stuck.load()) return;
    for (uint64_t at = from; at < to && !keeper_stop.load() && !flusher_waits; at += kChunk) {
        {
            SpinGuard guard(room_lock);
            if (!room_waiters.empty()) return;
        }
        const uint64_t bytes = std::min(kChunk, to - at);
        if (!threads::io_write(file, at, zeros->get(), bytes, threads::IoClass::write_back,
                               "log segment"))
            return;
    }
}

// LI-5. False after an error, which stops the store: a failed sync is never asked twice.
bool Log::Impl::sync_segment(threads::FileId file, const std::string& name) {
    if (!options.sync) return true;
    const Result<void> synced = threads::io_sync(file, "log segment");
    if (!synced) (void)fail("sync of log segment", files.directory().path(name), synced.error());
    return synced.has_value();
}

// For the flusher, when records without a promise have passed the last segment. Parking for the
// keeper would be too late.
[[gnu::cold]] Result<void> Log::Impl::place_segment_now() {
    if (first_segment < files.number_of(start.load())) {
        // After an error all is as it was, and a new segment does.
        if (recycle_old()) return {};
        if (failed.load()) return refused();
    }
    DCHECK(last_is_whole());
    const uint64_t end = prepared_end.load() + files.segment_bytes();
    const uint64_t number = files.number_of(prepared_end.load());
    const Result<void> made = files.extend_now(number, files.segment_bytes(), options.sync);
    if (!made) return fail("allocate of log segment", files.segment_path(number), made.error());
    TRY(sync_names());
    space_added(end);
    return {};
}

void Log::Impl::space_added(uint64_t end) {
    assert_segments();
    DCHECK(end > prepared_end.load() && end <= files.segment_end(prepared_end.load()));
    prepared_end.store(end);
    keeper_stuck.store(false);
    update_promise_limit();
    wake_all(room_lock, room_waiters);
}

// LI-4. Under the lock, because truncation (any worker) and new segments (worker 0) both call it.
void Log::Impl::update_promise_limit() {
    SpinGuard guard(room_lock);
    uint64_t now = limit_of(start.load(), prepared_end.load(), LogNeed::grows);
    if (device_was_full()) now -= std::min(now, warned);
    DCHECK(promise_limit.load() <= now || device_was_full());  // both ends only grow
    const bool refuses = writers_stopped.load() || failed.load();
    promise_limit.store(refuses ? 0 : std::min(now, start.load() + scarce_bytes));
    find_plenty_locked();
}

}  // namespace lockstep::txn
