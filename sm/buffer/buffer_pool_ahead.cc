// buffer_pool_ahead.cc - read-ahead: pages that a scan will need are read before it fixes them.
//
// States     Of a page: absent -> exclusively latched by its request (read_ahead_one()) -> clean
//            and cold (end_read_ahead()), or absent again if the read failed. A thread that needs
//            the page meanwhile waits for the latch, as for any read. After a failure it reads the
//            page itself through read_page(), with retries and repair.
// Invariants BA-1 A read-ahead takes frames that are free already, and only while more than
//                 low_water are free. It evicts nothing. [checked: read_ahead_one()]
//            BA-2 It never replaces what is in memory: the word was absent when it was latched.
//                 [fault_begin()]
//            BA-3 No read-ahead begins once the cleaners are told to stop, and a cleaner ends after
//                 its worker's last one. [wait_for_read_ahead()]
// Blocking   Only wait_for_read_ahead() blocks.
#include "sm/buffer/buffer_pool_impl.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace latch = threads::latch;

void BufferPool::Impl::make_read_ahead() {
    ahead = std::make_unique<ReadAheadSlots[]>(runtime.workers());
    for (uint32_t w = 0; w < runtime.workers(); ++w) {
        ahead[w].slots = std::make_unique<ReadAhead[]>(kReadAheadMax);
        for (uint32_t i = 0; i < limits::read_ahead(); ++i) {
            ReadAhead& slot = ahead[w].slots[i];
            slot.pool = this;
            slot.worker = w;
            slot.next = std::exchange(ahead[w].free, &slot);
        }
        ahead[w].assert_state();
    }
}

size_t BufferPool::read_ahead(std::span<const PageId> ids) {
    size_t n = 0;
    while (n < ids.size() && impl_->read_ahead_one(ids[n])) ++n;
    return n;
}

bool BufferPool::Impl::read_ahead_one(PageId id) {
    if (id.value >= pool.pages_open() || stopping.load(std::memory_order_relaxed)) return false;
    threads::LatchWord& w = word(id.value);
    uint64_t seen = 0;
    w.compare_exchange_strong(seen, latch::kAbsent, std::memory_order_relaxed);
    if (latch::state(w.load(std::memory_order_relaxed)) != latch::kAbsent) return true;
    ReadAheadSlots& mine = ahead[threads::worker_index()];
    mine.assert_state();
    ReadAhead* slot = mine.free;
    if (slot == nullptr) return false;
    const bool scarce = free_frames.load(std::memory_order_relaxed) <= low_water ||
                        (backoff.failing() && starves());
    if (scarce) {  // BA-1
        kick_cleaner();
        return false;
    }
    if (!latch::fault_begin(w)) return true;  // BA-2
    const uint32_t frame = pop_free();
    if (frame == 0) {
        latch::unlatch_to_absent(w);
        return false;
    }
    if (cleaner_is_needed()) kick_cleaner();
    DCHECK(slot->pool == this && slot->worker == threads::worker_index());
    mine.free = slot->next;
    slot->page = id.value;
    slot->frame = frame;
    slot->request = {};
    slot->request.io_class = threads::IoClass::read_ahead;
    slot->request.file = data;
    slot->request.offset = uint64_t{id.value} * kPageBytes;
    slot->request.iov[0] = {&page_in(frame), kPageBytes};
    slot->request.iov_count = 1;
    slot->request.user = slot;
    slot->request.done = on_read_ahead;
    if (!threads::io_try_start(slot->request)) {
        push_free(frame);
        latch::unlatch_to_absent(w);
        slot->next = std::exchange(mine.free, slot);
        return false;
    }
    latch::disown();
    ++mine.busy;
    reads.fetch_add(1, std::memory_order_relaxed);
    reads_ahead.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void BufferPool::Impl::on_read_ahead(threads::IoRequest* request) {
    ReadAhead& slot = *static_cast<ReadAhead*>(request->user);
    slot.pool->end_read_ahead(slot);
}

// On the slot's worker, mostly in its scheduler. Nobody repairs or reports here: a page that is not
// as it should be stays absent.
void BufferPool::Impl::end_read_ahead(ReadAhead& slot) {
    threads::LatchWord& w = word(slot.page);
    DCHECK(latch::state(w.load()) == latch::kExclusive);  // by the request
    DCHECK(info(slot.frame).page.load() == kPageNone.value);
    const int64_t result = slot.request.result;
    const bool good = result >= 0 && check_read(PageId{slot.page}, page_in(slot.frame),
                                                static_cast<size_t>(result));
    latch::adopt();
    if (good) {
        DCHECK(info(slot.frame).flags.load() == 0);
        info(slot.frame).page.store(slot.page, std::memory_order_release);
        // cold: the first to look at it makes it warm.
        latch::set_payload(w, slot.frame);
        latch::unlatch_exclusive(w);
    } else {
        push_free(slot.frame);
        latch::unlatch_to_absent(w);
    }
    ReadAheadSlots& mine = ahead[slot.worker];
    DCHECK(mine.busy > 0);
    slot.next = std::exchange(mine.free, &slot);
    --mine.busy;
    mine.assert_state();
}

void BufferPool::Impl::wait_for_read_ahead(uint32_t worker) {
    while (ahead[worker].busy > 0) threads::sleep_until(threads::now() + kMillisecond);
}

}  // namespace lockstep::sm
