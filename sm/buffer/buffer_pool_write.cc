// buffer_pool_write.cc - writing pages in batches: copy, make the log durable, write sorted, note
// what is clean now; checkpoints' writes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/base/error_detail.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {
constexpr const char* kPageWrite = "write of data page";
}

WriteBatch& BufferPool::Impl::acquire_batch() {
    CHECK(batch_units && batch_units->acquire(1, kNever, threads::ParkReason::io));
    SpinGuard guard(batch_lock);
    WriteBatch* batch = idle_batches;
    CHECK(batch != nullptr);
    idle_batches = batch->next;
    batch->count = 0;
    batch->assert_state();
    return *batch;
}

void BufferPool::Impl::release_batch(WriteBatch& batch) {
    batch.assert_state();
    {
        SpinGuard guard(batch_lock);
        batch.next = std::exchange(idle_batches, &batch);
    }
    CHECK(batch_units.has_value());
    batch_units->release();
    threads::WakeBatch woken;
    SpinGuard guard(writers_lock);
    while (threads::Waiter* waiter = writers_waiters.pop()) woken.add(waiter->thread);
}

// BI-2, BI-4. Returns false if the page has left its frame, is clean, is being written, or (unless
// `wait`) is latched.
bool BufferPool::Impl::copy_for_write(WriteBatch& batch, const WriteCandidate& candidate,
                                      bool wait) {
    DCHECK(batch.count < batch_pages);
    threads::LatchWord& w = word(candidate.page);
    if (wait ? !latch::latch_shared(w) : !latch::try_shared(w)) return false;
    FrameInfo& f = info(candidate.frame);
    uint32_t dirty = FrameInfo::kDirty;
    const bool ours =
        frame_of(w.load(std::memory_order_relaxed)) == candidate.frame &&
        f.flags.compare_exchange_strong(dirty, FrameInfo::kDirty | FrameInfo::kWriting,
                                        std::memory_order_acq_rel);
    if (!ours) {
        latch::unlatch_shared(w);
        return false;
    }
    auto& copy = *reinterpret_cast<Page*>(batch.memory + size_t{batch.count} * kPageBytes);
    std::memcpy(static_cast<void*>(&copy), &page_in(candidate.frame), kPageBytes);
    latch::unlatch_shared(w);
    CHECK(copy.header.page_id == candidate.page);  // BI-4
    DCHECK(copy.header.lsn <= log.tail().value);   // BP-1: it can become durable
    copy.assert_state();
    copy.header.checksum = page_checksum(copy, PageId{candidate.page});
    batch.entries[batch.count++] = {candidate.page, candidate.frame, copy.header.lsn, false};
    batch.assert_state();
    return true;
}

// Sends one request per page, so an error concerns one page only. The I/O stage joins neighbours;
// their copies are adjacent as well.
Result<void> BufferPool::Impl::transfer(WriteBatch& batch) {
    for (uint32_t i = 0; i < batch.count; ++i) {
        threads::IoRequest& request = batch.requests[i] = {};
        request.kind = threads::IoKind::write;
        request.io_class = threads::IoClass::write_back;
        request.file = data;
        request.offset = uint64_t{batch.entries[i].page} * kPageBytes;
        request.iov[0] = {batch.memory + size_t{i} * kPageBytes, kPageBytes};
        request.iov_count = 1;
        threads::io_start(request);
    }
    DCHECK(batch.count > 0);
    Result<void> result;
    uint32_t failed = 0;
    for (uint32_t i = 0; i < batch.count; ++i) {
        threads::IoRequest& request = batch.requests[i];
        threads::io_wait(request, threads::ParkReason::io);
        const bool ok = request.result >= 0;
        batch.entries[i].written = ok;
        if (ok) pool.written_->written(PageId{batch.entries[i].page}, Lsn{batch.entries[i].lsn});
        if (ok) continue;
        write_errors.fetch_add(1, std::memory_order_relaxed);
        ++failed;
        result = threads::fail_request(request, kPageWrite, batch.entries[i].page);
    }
    if (failed < batch.count) backoff.succeeded();
    else backoff.failed(threads::now(), result.error());
    if (!result) result = named(result.error());
    writes.fetch_add(batch.count, std::memory_order_relaxed);
    write_batches.fetch_add(1, std::memory_order_relaxed);
    return result;
}

// WB-1. A failed store needs no frames: its calls end with store_failed, and the next open redoes
// what is durable in the log.
Result<void> BufferPool::Impl::may_write() {
    if (log.failed()) [[unlikely]]
        return log.refused();
    if (!backoff.failing()) [[likely]]
        return {};
    if (backoff.allows(threads::now())) return {};
    return write_refused();
}

std::unexpected<Error> BufferPool::Impl::named(Error error) const {
    DCHECK(error.code != ErrorCode::none && error.detail == 0);
    set_error_detail(error, "write of page " + std::to_string(error.a) + " to " +
                                options.directory.path("data") + " failed");
    return std::unexpected(error);
}

std::unexpected<Error> BufferPool::Impl::write_refused() const { return named(backoff.error()); }

Nanos BufferPool::writes_fail_since() const { return impl_->backoff.since(); }

// The page's writer gives it back. Nobody waits for a latch here (BI-3): a page that is latched
// just now simply stays dirty.
void BufferPool::Impl::finish_entry(const WriteBatch::Entry& entry) {
    FrameInfo& f = info(entry.frame);
    threads::LatchWord& w = word(entry.page);
    DCHECK(f.flags.load(std::memory_order_relaxed) & FrameInfo::kWriting);
    DCHECK(f.page.load(std::memory_order_relaxed) == entry.page);
    uint32_t cleared = FrameInfo::kWriting;
    const bool latched = entry.written && latch::try_shared(w);
    if (latched) {
        DCHECK(frame_of(w.load()) == entry.frame);  // a page being written keeps its frame
        DCHECK(page_in(entry.frame).header.lsn >= entry.lsn);  // PG-1
        if (page_in(entry.frame).header.lsn == entry.lsn)
            cleared |= FrameInfo::kDirty;  // BP-4: unless it changed meanwhile
        // BP-2: what the copy did not have came later than its lsn.
        else
            f.rec_lsn.store(std::max(entry.lsn, f.rec_lsn.load(std::memory_order_relaxed)),
                            std::memory_order_relaxed);
    }
    f.flags.fetch_and(~cleared, std::memory_order_acq_rel);
    if (cleared & FrameInfo::kDirty) pool.dirty_.fetch_sub(1, std::memory_order_relaxed);
    if (latched) latch::unlatch_shared(w);
}

Result<void> BufferPool::Impl::write_batch(WriteBatch& batch) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < batch.count; ++i) newest = std::max(newest, batch.entries[i].lsn);
    Result<void> done = log.wait_durable(Lsn{newest});
    if (done) {
        CHECK(log.durable().value >= newest);  // BP-1
        done = transfer(batch);
    }
    for (uint32_t i = 0; i < batch.count; ++i) finish_entry(batch.entries[i]);
    return done;
}

Result<void> BufferPool::Impl::write_candidates(std::span<const WriteCandidate> candidates,
                                                std::vector<WriteCandidate>* busy) {
    DCHECK(candidates.size() <= batch_pages);
    WriteCandidate sorted[kWriteBatchMax];
    std::copy(candidates.begin(), candidates.end(), sorted);
    std::sort(sorted, sorted + candidates.size());
    WriteBatch& batch = acquire_batch();
    for (size_t i = 0; i < candidates.size(); ++i) {
        if (copy_for_write(batch, sorted[i], busy != nullptr) || busy == nullptr) continue;
        const FrameInfo& f = info(sorted[i].frame);
        if (f.page.load() == sorted[i].page && (f.flags.load() & FrameInfo::kDirty))
            busy->push_back(sorted[i]);
    }
    Result<void> done;
    if (batch.count > 0) done = write_batch(batch);
    release_batch(batch);
    return done;
}

// Waits until none of these pages is being written.
void BufferPool::Impl::wait_for_writers(std::span<const WriteCandidate> busy) {
    const auto writing = [&] {
        return std::any_of(busy.begin(), busy.end(), [&](const WriteCandidate& c) {
            const FrameInfo& f = info(c.frame);
            return f.page.load() == c.page && (f.flags.load() & FrameInfo::kWriting);
        });
    };
    for (;;) {
        threads::Waiter waiter;
        waiter.thread = threads::current();
        {
            SpinGuard guard(writers_lock);
            if (!writing()) return;
            // A batch clears its flags before it takes this lock to wake.
            writers_waiters.add(waiter);
        }
        threads::wait_in(writers_lock, writers_waiters, waiter, kNever, threads::ParkReason::io);
    }
}

// Writes what was dirty when the call began. Once earlier records are published, every page that
// they change is marked (PC-4). A thread that is still changing a page holds its latch, and the
// copy waits for the latch. A page that another thread is writing may have been copied before the
// call, so it is checked again after that write.
Result<void> BufferPool::write_dirty(
    std::move_only_function<Nanos(uint64_t done, uint64_t total)> rest) {
    Impl& p = *impl_;
    const Lsn begin = p.log.tail();
    p.log.wait_until_published();
    DirtyPages due = p.dirty_before(begin);
    std::vector<WriteCandidate> busy;
    uint64_t done = 0, total = due.left();
    Result<void> result;
    while (due.left() > 0) {
        while (due.left() > 0) {
            WriteCandidate batch[kWriteBatchMax];
            const size_t n = std::min<size_t>(p.batch_pages, due.left());
            for (size_t i = 0; i < n; ++i) batch[i] = due.next();
            const Result<void> written = p.write_candidates({batch, n}, &busy);
            if (!written) result = written;
            if (!written && written.error().code == ErrorCode::store_failed) return result;
            // The caller tries again later. Until then each batch would fail as this one (WB-1).
            if (!written && p.backoff.failing()) return result;
            done += n;
            if (due.left() == 0) break;
            DCHECK(done < total);
            if (const Nanos pause = rest(done, total)) threads::sleep_until(threads::now() + pause);
        }
        p.wait_for_writers(busy);
        due = {};
        for (const WriteCandidate& again : std::exchange(busy, {})) due.add(again);
        due.sort();
        total += due.left();
    }
    if (!result || !p.options.sync) return result;
    result = threads::io_sync(p.data, "data file");
    // Never asked twice: the kernel may have dropped what it could not write.
    if (!result) {
        p.sync_failures.fetch_add(1, std::memory_order_relaxed);
        p.log.fail_store({.what = "sync of data file",
                          .file = p.options.directory.path("data"),
                          .cause = result.error()});
    }
    return result;
}

Result<void> BufferPool::write_dirty(uint64_t pace) {
    const Nanos started = threads::now();
    return write_dirty([=](uint64_t done, uint64_t) -> Nanos {
        const Nanos now = threads::now(), due = pace ? started + done * kSecond / pace : 0;
        return due > now ? due - now : 0;
    });
}

DirtyPages BufferPool::Impl::dirty_before(Lsn end) const {
    DirtyPages found;
    const uint32_t frames = frames_seen.load(std::memory_order_acquire);
    for (uint32_t f = 1; f < frames; ++f) {
        if (f % kLooksPerSlice == 0) threads::yield();
        const FrameInfo& i = info(f);
        if (!(i.flags.load(std::memory_order_acquire) & FrameInfo::kDirty) ||
            i.rec_lsn.load(std::memory_order_relaxed) >= end.value)
            continue;
        // The page may have been written and evicted, or dropped, since the flags were read.
        const uint32_t page = i.page.load(std::memory_order_acquire);
        if (page == kPageNone.value) continue;
        DCHECK(page < pool.pages_open());
        found.add({page, f});
    }
    found.sort();
    return found;
}

}  // namespace lockstep::sm
