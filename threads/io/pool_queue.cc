// pool_queue.cc - the threads of the pool, and the worker's side of it.
#include "threads/io/pool_queue.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>

#include <lockstep/clock.h>
#include "threads/io/size_signal.h"

namespace lockstep::threads {
namespace {

// `asks`: the write itself asks to be durable.
int64_t transfer_once(const IoRequest& request, uint64_t progress, bool asks) {
    const int fd = request.file.value;
    const auto at = static_cast<off_t>(request.offset + progress);
    int64_t moved = 0;
    if (request.kind == IoKind::sync) {
        moved = fdatasync(fd);
    } else {
        const iovec rest = io_piece(request, progress);
        const iovec* pieces = progress == 0 ? io_pieces(request) : &rest;
        const int count = progress == 0 ? static_cast<int>(request.iov_count) : 1;
        if (request.kind == IoKind::read) moved = preadv(fd, pieces, count, at);
        else if (asks) moved = pwritev2(fd, pieces, count, at, RWF_DSYNC);
        else moved = pwritev(fd, pieces, count, at);
    }
    return moved < 0 ? -errno : moved;
}

void transfer_all(IoRequest& request) {
    const SyncsAfterWrite& syncs = reinterpret_cast<PoolQueue*>(request.tag)->syncs_after_write();
    // Where a sync follows anyway, the request may be refused (durable_writes.h).
    const bool asks = request.durable && !syncs->load(std::memory_order_relaxed);
    uint64_t progress = 0;
    while (!io_account(request, progress, transfer_once(request, progress, asks))) {}
    if (asks || !io_needs_sync(request, syncs)) return;
    while (!io_account_sync(request, fdatasync(request.file.value) < 0 ? -errno : 0)) {}
}

}  // namespace

// Without exceptions a failing std::thread would end the process. A plain thread is therefore tried
// first, where that is cheap.
Result<void> IoPool::grow() {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kThreadsPerQueue && threads_.size() < kThreadsMax; ++i) {
        pthread_t probe;
        const int refused = pthread_create(
            &probe, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
        if (refused != 0 && threads_.empty())
            return fail_os(ErrorCode::too_many, refused, "I/O thread");
        if (refused != 0) break;
        pthread_join(probe, nullptr);
        threads_.emplace_back([this] { work(); });
    }
    return {};
}

IoPool::~IoPool() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    more_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void IoPool::push(RequestQueue (&requests)[kLines], size_t count) {
    {
        std::lock_guard lock(mutex_);
        for (size_t c = 0; c < kLines; ++c) pending_[c].push_all(requests[c]);
    }
    if (count == 1) more_.notify_one();
    else more_.notify_all();
}

IoRequest* IoPool::take() {
    for (RequestQueue& queue : pending_) {
        if (!queue.empty()) return queue.pop();
    }
    return nullptr;
}

void IoPool::work() {
    pthread_setname_np(pthread_self(), "lockstep-io");
    block_size_signal();
    std::unique_lock lock(mutex_);
    for (;;) {
        IoRequest* request = nullptr;
        more_.wait(lock, [&] { return (request = take()) != nullptr || ending_; });
        if (request == nullptr) return;
        lock.unlock();
        transfer_all(*request);
        reinterpret_cast<PoolQueue*>(request->tag)->hand_back(request);
        lock.lock();
    }
}

PoolQueue::~PoolQueue() {
    std::unique_lock lock(mutex_);
    while (in_flight_ > 0) {
        wakeup_.wait(lock, [&] {
            sleeping_ = done_first_ == nullptr;
            return !sleeping_;
        });
        for (IoRequest* r = std::exchange(done_first_, nullptr); r != nullptr; r = r->next)
            --in_flight_;
        done_last_ = nullptr;
    }
}

void PoolQueue::submit(IoRequest* first, size_t count) {
    RequestQueue requests[IoPool::kLines];
    in_flight_ += count;
    for (size_t i = 0; i < count; ++i) {
        IoRequest* next = first->next;
        first->tag = reinterpret_cast<uint64_t>(this);
        requests[first->io_class == IoClass::log ? 0 : 1].push(first);
        first = next;
    }
    pool_->push(requests, count);
}

void PoolQueue::hand_back(IoRequest* request) {
    DCHECK(request->tag == reinterpret_cast<uint64_t>(this));
    std::lock_guard lock(mutex_);
    assert_state();
    request->next = nullptr;
    (done_last_ != nullptr ? done_last_->next : done_first_) = request;
    done_last_ = request;
    any_done_.store(true, std::memory_order_relaxed);
    // Under the mutex, because the queue may be destroyed right after.
    if (sleeping_) wakeup_.notify_one();
}

IoRequest* PoolQueue::take_done() {
    std::lock_guard lock(mutex_);
    assert_state();
    any_done_.store(false, std::memory_order_relaxed);
    done_last_ = nullptr;
    return std::exchange(done_first_, nullptr);
}

size_t PoolQueue::poll() {
    if (!any_done_.load(std::memory_order_relaxed)) return 0;
    size_t count = 0;
    for (IoRequest* r = take_done(); r != nullptr; ++count) {
        IoRequest* next = r->next;
        DCHECK(in_flight_ > 0);
        --in_flight_;
        io_finish(*r);
        r = next;
    }
    return count;
}

size_t PoolQueue::wait(Nanos deadline) {
    if (const size_t n = poll(); n > 0) return n;
    if (!gate_.try_sleep()) return poll();
    const Nanos now = clock_.now();
    // A chrono limit cannot overflow.
    const Nanos left = std::min(deadline > now ? deadline - now : 0, 3600 * kSecond);
    {
        std::unique_lock lock(mutex_);
        sleeping_ = true;
        wakeup_.wait_for(lock, std::chrono::nanoseconds(left),
                         [&] { return done_first_ != nullptr || kicked_; });
        sleeping_ = kicked_ = false;
    }
    gate_.rise();
    return poll();
}

void PoolQueue::wake() {
    if (!gate_.notify()) return;
    std::lock_guard lock(mutex_);
    kicked_ = true;
    wakeup_.notify_one();
}

}  // namespace lockstep::threads
