// log_grow.cc - the last segment of a young log grows in steps, so that an empty store is small.
//
// Concepts   A new log begins with a file of first_bytes. The keeper doubles it, up to a whole
//            segment. All later segments are made whole. So a log that has filled its first segment
//            once makes no more steps.
//            One step is: allocate blocks, fill them with zeros, sync the file, then promise
//            (LI-5). A crash in between leaves a file that is longer than what was promised. open()
//            takes the length that it finds, and syncs it.
//            The flusher may reach the end of the file before the keeper has moved it. Zeros of the
//            keeper must never cover records. So the flusher does not write beyond the end while a
//            step is in progress. The keeper then ends the step early.
#include <algorithm>

#include "threads/thread/thread.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

namespace {
constexpr uint64_t kStepLeast = 64 * 1024;  // smaller ones when the device is nearly full
static_assert(kStepLeast % kLogBlock == 0);
}  // namespace

// What the files up to `end` keep for records without a promise, and for races between promises.
// It is `slack` once the log is large.
uint64_t Log::Impl::slack_below(uint64_t end) const {
    return ring_margin + std::min(slack - ring_margin, end / 4);
}

// Up to which LSN space can be promised if the log starts at `from` and its files end at `end`. The
// reserve of a short first file is a sixteenth of it. While the device has space, all may use it.
uint64_t Log::Impl::limit_of(uint64_t from, uint64_t end, LogNeed need) const {
    const bool reserved_for_others = need == LogNeed::grows && device_was_full();
    const uint64_t kept =
        slack_below(end) + (reserved_for_others ? std::min(reserve, end / 16) : 0);
    return std::min(from + options.capacity_bytes - slack, end - std::min(end, kept));
}

// Where the files must end so that space up to `promised` can be promised to any change, and none
// waits.
uint64_t Log::Impl::end_for(uint64_t promised) const {
    const uint64_t to = promised + reserve + warned;
    const uint64_t end = std::min(to + slack, block_ceil((to + ring_margin) / 3 * 4 + kLogBlock));
    DCHECK(end - slack_below(end) >= to);
    return end;
}

// The device is full, and what is used or promised, up to `taken_to`, nearly fills the files. A
// checkpoint makes room if the log begins in an older file.
bool Log::Impl::files_end_soon(uint64_t taken_to) const {
    if (!keeper_stuck.load(std::memory_order_relaxed) || !device_was_full()) return false;
    const uint64_t from = start.load();
    return files.number_of(from) < files.number_of(tail.load()) &&
           taken_to + warned > limit_of(from, prepared_end.load(), LogNeed::grows);
}

// One step of the keeper. False if there is no space, or the store has failed.
bool Log::Impl::grow_last() {
    assert_segments();
    const uint64_t from = prepared_end.load(), number = files.number_of(from);
    const Result<threads::FileId> file = files.open(number, threads::Disk::kDirect);
    if (!file) return note_refusal(file.error()), false;
    DCHECK(!growing && !last_is_whole());
    growing = true;
    const Result<uint64_t> to = allocate_step(*file, from);
    bool done = to.has_value();
    if (done) {
        const uint64_t begin = number * files.segment_bytes();
        fill_with_zeros(*file, from - begin, *to - begin);
        done = !keeper_stop.load() && sync_segment(*file, LogFiles::segment_name(number));
    } else {
        note_refusal(to.error());
    }
    files.disk().close(*file);
    growing = false;
    DCHECK(!done || prepared_end.load() == from);
    if (done) space_added(*to);
    if (flusher_waits) threads::wake(flusher.load());
    return done;
}

// The file doubles, or reaches what is wanted if that is more. When the device is nearly full, it
// grows by what is wanted, or less.
Result<uint64_t> Log::Impl::allocate_step(threads::FileId file, uint64_t from) {
    const uint64_t begin = from - from % files.segment_bytes(), most = files.segment_end(from);
    const uint64_t wanted = std::min(most, block_ceil(wanted_end()));
    const uint64_t twice = std::min(most, 2 * from);
    if (twice > wanted && !device_was_full() && files.disk().allocate(file, twice - begin))
        return twice;
    for (uint64_t step = wanted - from;; step = block_floor(step / 2)) {
        const Result<void> done = files.disk().allocate(file, from + step - begin);
        if (done) return from + step;
        if (done.error().code != ErrorCode::no_space || step / 2 < kStepLeast)
            return std::unexpected(done.error());
    }
}

// The flusher has records up to `end`, which is beyond the files. This happens to records without a
// promise.
[[gnu::cold]] Result<void> Log::Impl::make_space_now(uint64_t end) {
    DCHECK(threads::current() == flusher.load());
    while (growing) {
        flusher_waits = true;
        threads::park(threads::ParkReason::log);
    }
    flusher_waits = false;
    if (failed.load()) return refused();
    if (end <= prepared_end.load()) return {};
    return last_is_whole() ? place_segment_now() : grow_last_now(end);
}

// Without zeros, and never parks: what follows in the ring cannot wait for the keeper.
[[gnu::cold]] Result<void> Log::Impl::grow_last_now(uint64_t end) {
    const uint64_t from = prepared_end.load(), number = files.number_of(from),
                   begin = number * files.segment_bytes();
    DCHECK(end > from && end <= files.segment_end(from));
    uint64_t to = std::min(files.segment_end(from), std::max(2 * from, block_ceil(end)));
    Result<void> grown = files.extend_now(number, to - begin, options.sync);
    if (!grown && grown.error().code == ErrorCode::no_space) {
        to = block_ceil(end);
        grown = files.extend_now(number, to - begin, options.sync);
    }
    if (!grown) return fail("allocate of log segment", files.segment_path(number), grown.error());
    space_added(to);
    return {};
}

}  // namespace lockstep::txn
