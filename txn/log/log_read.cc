// log_read.cc - reads single records, for rollback and tools: from the ring while it still holds
// them, else from file.
#include <algorithm>
#include <cstring>

#include "threads/thread/thread.h"
#include "threads/worker/io_wait.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

Result<LogRecordView> Log::read(Lsn lsn, std::string& buffer) {
    return copy_record(lsn, buffer, [this](uint64_t from, uint64_t bytes, std::byte* out) {
        return impl_->copy(from, bytes, out);
    });
}

Result<void> Log::Impl::copy(uint64_t lsn, uint64_t bytes, std::byte* out) {
    if (const uint64_t end = tail.load(); lsn >= end || bytes > end - lsn)
        return lockstep::fail(ErrorCode::corrupt_log, "log record", lsn);
    if (copy_from_ring(lsn, bytes, out)) return {};
    // Bytes that the ring no longer holds were written before, or never will be.
    if (failed.load() && lsn + bytes > durable.load()) return refused();
    return copy_from_file(lsn, bytes, out);
}

// Copies first and checks afterwards: an appender overwrites the ring's oldest bytes only after it
// has moved `tail` past them.
bool Log::Impl::copy_from_ring(uint64_t lsn, uint64_t bytes, std::byte* out) const {
    if (lsn < ring_valid_from || tail.load(std::memory_order_acquire) > lsn + ring.bytes())
        return false;
    std::memcpy(out, ring.at(lsn), bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    return tail.load(std::memory_order_acquire) <= lsn + ring.bytes();
}

Result<void> Log::Impl::copy_from_file(uint64_t lsn, uint64_t bytes, std::byte* out) {
    while (bytes > 0) {
        const uint64_t segment_begin = lsn - lsn % files.segment_bytes();
        const uint64_t begin =
            segment_begin + (lsn - segment_begin) / LogReadWindow::kBytes * LogReadWindow::kBytes;
        LogReadWindow& cached = windows[(begin / LogReadWindow::kBytes) % kReadWindows];
        uint64_t got = 0;
        {
            SpinGuard guard(cached.lock);
            cached.assert_state();
            if (cached.begin == begin && lsn - begin < cached.bytes) {
                got = std::min(bytes, begin + cached.bytes - lsn);
                std::memcpy(out, cached.data.get() + (lsn - begin), got);
            }
        }
        if (got == 0) {
            LogReadWindow fresh;
            TRY(load_window(begin, fresh));
            if (fresh.bytes <= lsn - begin)
                return lockstep::fail(ErrorCode::corrupt_log, "log segment", lsn);
            SpinGuard guard(cached.lock);
            fresh.assert_state();
            std::swap(cached.begin, fresh.begin);
            std::swap(cached.bytes, fresh.bytes);
            std::swap(cached.data, fresh.data);
            continue;
        }
        DCHECK(got > 0 && got <= bytes);
        lsn += got;
        out += got;
        bytes -= got;
    }
    return {};
}

// Durable bytes never change, so a window stays valid for ever. Bytes that are not durable yet are
// not kept.
Result<void> Log::Impl::load_window(uint64_t begin, LogReadWindow& window) {
    const uint64_t end =
        std::min({begin + LogReadWindow::kBytes, files.segment_end(begin), durable.load()});
    if (end <= begin) return lockstep::fail(ErrorCode::corrupt_log, "log segment", begin);
    struct alignas(kLogBlock) Block {
        std::byte bytes[LogReadWindow::kBytes];
    };
    const auto block = std::make_unique<Block>();
    const uint64_t whole = block_ceil(end - begin);
    const uint64_t offset = begin % files.segment_bytes();
    DCHECK(offset % LogReadWindow::kBytes == 0 && whole <= LogReadWindow::kBytes);
    const Result<threads::FileId> file =
        files.open(files.number_of(begin), threads::Disk::kReadOnly | threads::Disk::kDirect);
    // A missing segment is damage. Other errors, such as a limit on open files, are not.
    if (!file)
        return fail_os(
            file.error().code == ErrorCode::bad_path ? ErrorCode::corrupt_log : file.error().code,
            file.error().os, "log segment", begin);
    const Result<size_t> got = threads::current() != nullptr
                                   ? threads::io_read(*file, offset, block->bytes, whole,
                                                      "log segment", threads::ParkReason::io)
                                   : files.disk().read_now(*file, offset, block->bytes, whole);
    files.disk().close(*file);
    if (!got) return fail_os(got.error().code, got.error().os, "log segment", begin);
    window.begin = begin;
    window.bytes = std::min<uint64_t>(*got, end - begin);
    window.data = std::make_unique<std::byte[]>(LogReadWindow::kBytes);
    std::memcpy(window.data.get(), block->bytes, window.bytes);
    return {};
}

}  // namespace lockstep::txn
