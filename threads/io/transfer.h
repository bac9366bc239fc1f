// transfer.h - code common to all backends: pieces of a request, short transfers, queues of
// requests.
//
// Invariants IO-3 (io.h) A short or interrupted transfer is continued. [checked: io_account()]
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "threads/base/check.h"
#include "threads/io/io.h"

namespace lockstep::threads {

// Unit that a device writes atomically, and the alignment of direct files.
inline constexpr uint64_t kSectorBytes = 512;
// Most bytes requested of one system call; the rest follows as a continuation.
inline constexpr size_t kTransferMax = 1u << 30;

inline const iovec* io_pieces(const IoRequest& request) {
    return request.many != nullptr ? request.many : request.iov;
}

inline uint64_t io_bytes(const IoRequest& request) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request.iov_count; ++i) bytes += io_pieces(request)[i].iov_len;
    return bytes;
}

// The next piece of memory of a request that has moved `progress` bytes.
inline iovec io_piece(const IoRequest& request, uint64_t progress) {
    for (uint32_t i = 0; i < request.iov_count; ++i) {
        const iovec& piece = io_pieces(request)[i];
        if (progress < piece.iov_len)
            return {static_cast<std::byte*>(piece.iov_base) + progress,
                    std::min(piece.iov_len - progress, kTransferMax)};
        progress -= piece.iov_len;
    }
    return {nullptr, 0};
}

// Copies the first `bytes` bytes from one request's memory to another's of the same size.
inline void copy_pieces(const IoRequest& from, const IoRequest& to, uint64_t bytes) {
    for (uint64_t moved = 0; moved < bytes;) {
        const iovec source = io_piece(from, moved), target = io_piece(to, moved);
        DCHECK(source.iov_len > 0 && target.iov_len > 0);  // both have the bytes
        const size_t n = std::min<uint64_t>({source.iov_len, target.iov_len, bytes - moved});
        std::memcpy(target.iov_base, source.iov_base, n);
        moved += n;
    }
}

inline bool io_transient(int64_t raw) { return raw == -EINTR || raw == -EAGAIN; }

// Accounts for one result of the kernel (bytes or -errno). True: finished, `result` is set. False:
// continue at `progress`.
inline bool io_account(IoRequest& request, uint64_t& progress, int64_t raw) {
    if (io_transient(raw)) return false;
    if (request.kind == IoKind::sync) {
        request.result = std::min<int64_t>(raw, 0);
        return true;
    }
    if (raw > 0) {
        progress += static_cast<uint64_t>(raw);
        DCHECK(progress <= io_bytes(request));
        if (progress < io_bytes(request)) return false;
    } else if (request.kind == IoKind::write && progress < io_bytes(request)) {
        // A write that moves nothing would repeat without end.
        request.result = raw < 0 ? raw : -EIO;
        return true;
    } else if (raw < 0 && !(raw == -EINVAL && progress % kSectorBytes != 0)) {
        // (a direct read that ended inside the last sector cannot continue).
        request.result = raw;
        return true;
    }
    request.result = static_cast<int64_t>(progress);
    return true;
}

// Whether a sync of the file must follow each durable write (durable_writes.h); written by the
// disk, read by its queues. Null: never.
using SyncsAfterWrite = std::shared_ptr<std::atomic<bool>>;

// Of a request that io_account() has finished: its bytes are written and not durable yet.
inline bool io_needs_sync(const IoRequest& request, const SyncsAfterWrite& syncs) {
    DCHECK(!request.durable || request.kind == IoKind::write);
    return request.durable && request.result >= 0 && syncs != nullptr &&
           syncs->load(std::memory_order_relaxed);
}

// Accounts for the result of that sync (0 or -errno). True: the request is finished. False: repeat
// the sync.
inline bool io_account_sync(IoRequest& request, int64_t raw) {
    DCHECK(request.durable && request.result >= 0);
    if (io_transient(raw)) return false;
    if (raw < 0) request.result = raw;  // written, but nothing says that it is durable
    return true;
}

// Last step of every request. The request may no longer exist afterwards.
inline void io_finish(IoRequest& request) {
    request.complete = true;
    if (request.done != nullptr) request.done(&request);
}

// Requests in order of arrival, linked by `next`.
class RequestQueue {
public:
    bool empty() const { return first_ == nullptr; }
    void assert_state() const {
        DCHECK((first_ == nullptr) == (last_ == nullptr));
        DCHECK(last_ == nullptr || last_->next == nullptr);
    }
    void push(IoRequest* request) {
        assert_state();
        DCHECK(request != last_ && request != first_);
        request->next = nullptr;
        (last_ != nullptr ? last_->next : first_) = request;
        last_ = request;
    }
    void push_all(RequestQueue& others) {
        others.assert_state();
        if (others.empty()) return;
        (last_ != nullptr ? last_->next : first_) = others.first_;
        last_ = others.last_;
        others = {};
    }
    IoRequest* pop() {
        assert_state();
        IoRequest* request = first_;
        DCHECK(request != nullptr);
        first_ = request->next;
        if (first_ == nullptr) last_ = nullptr;
        request->next = nullptr;
        return request;
    }

private:
    IoRequest* first_ = nullptr;
    IoRequest* last_ = nullptr;
};

}  // namespace lockstep::threads
