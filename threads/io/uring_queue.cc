// uring_queue.cc - batches, continuations and sleep on one io_uring ring.
//
// Concepts   Requests wait in one queue per class until the ring has room. kernel_ counts the
//            requests given to the ring and not completed. It is at most capacity_, so they cannot
//            overflow either ring. A short or interrupted request is issued again for the rest.
//            Waits for descriptors of the application (fd_poll.h) have no such limit. The kernel
//            keeps their completions if the completion ring is full.
// States     of a request: pending -> in the ring (pump) -> [continued] -> [synced] -> finished
//            (finish).
// Blocking   wait() only.
#include "threads/io/uring_queue.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/clock.h>
#include "threads/io/fd_poll.h"
#include "threads/io/sleep_gate.h"
#include "threads/io/transfer.h"

namespace lockstep::threads {
namespace {

// liburing 2.3 declares io_uring_enable_rings() and does not export it.
int enable_ring(io_uring& ring) {
    const long result =
        syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    return result < 0 ? -errno : 0;
}

constexpr unsigned kRingEntries = 512;
constexpr unsigned kLogReserve = 16;  // places that only the log may take
// Places for entries about descriptors of the application that are not submitted yet.
constexpr unsigned kFdEntries = 16;
// Longest wait for more completions when there are some.
constexpr Nanos kGatherTime = 100 * kMicrosecond;
// user_data that is no request has one of these bits, which a pointer has not.
constexpr uint64_t kWakeTag = 1;    // the eventfd's poll
constexpr uint64_t kFdTag = 2;      // a pointer to an FdPoll
constexpr uint64_t kCancelTag = 4;  // the end of a cancellation
constexpr uint64_t kTags = 7;
static_assert(alignof(IoRequest) > kTags && alignof(FdPoll) > kTags);
// IoRequest::tag of a request whose bytes are written and whose sync is in the ring.
constexpr uint64_t kSyncTag = UINT64_MAX;

// Tries the cheapest mode first: completions run only when the one submitting thread polls.
int init_ring(io_uring& ring, unsigned entries) {
    constexpr unsigned kBase = IORING_SETUP_CLAMP | IORING_SETUP_R_DISABLED;
    constexpr unsigned kModes[] = {
        kBase | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        kBase | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_SINGLE_ISSUER,
        kBase | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        kBase | IORING_SETUP_SUBMIT_ALL,
        kBase,
    };
    int result = -EINVAL;
    for (const unsigned mode : kModes) {
        io_uring_params params{};
        params.flags = mode;
        result = io_uring_queue_init_params(entries, &ring, &params);
        if (result != -EINVAL) break;
    }
    // Linux before 5.11 has no timed sleep in one call.
    if (result == 0 && !(ring.features & IORING_FEAT_EXT_ARG)) {
        io_uring_queue_exit(&ring);
        result = -ENOSYS;
    }
    return result;
}

struct Outcome {
    uint64_t data;
    int32_t result;
    uint32_t flags;
};

class UringQueue final : public IoQueue {
public:
    UringQueue(io_uring ring, int event_fd, const Clock& clock, SyncsAfterWrite syncs)
        : ring_(ring), event_fd_(event_fd), clock_(clock), syncs_(std::move(syncs)) {
        // Reserved: one place for the eventfd's poll, and those for descriptors.
        capacity_ = ring_.sq.ring_entries - 1 - kFdEntries;
    }
    ~UringQueue() override;
    const char* name() const override { return "io_uring"; }
    void submit(IoRequest* first, size_t count) override;
    size_t poll() override;
    size_t wait(Nanos deadline) override;
    void wake() override;
    size_t in_flight() const override { return in_flight_; }
    bool start_fd_poll(FdPoll& wait) override;
    bool cancel_fd_poll(FdPoll& wait) override;
    uint64_t submissions() const override { return submissions_.load(std::memory_order_relaxed); }

private:
    [[gnu::cold, gnu::noinline]] void start_ring();
    unsigned limit(size_t io_class) const {
        return io_class == 0 ? capacity_ : capacity_ - kLogReserve;
    }
    void pump();
    void issue(IoRequest* request, uint64_t progress);
    [[gnu::cold, gnu::noinline]] void issue_sync(IoRequest* request);
    void flush();
    void count_submission() {
        submissions_.store(submissions_.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
    }
    size_t reap();
    void take(const Outcome& outcome);
    [[gnu::cold]] void take_other(const Outcome& outcome);
    io_uring_sqe* free_entry();
    void finish(IoRequest* request);
    void wake_seen(uint32_t flags);
    void arm_wake();
    // Requests in the kernel are part of those submitted and not finished.
    void assert_state() const {
        DCHECK(kernel_ <= capacity_ && kernel_ <= in_flight_);
        DCHECK(started_ || (in_flight_ == 0 && !wake_armed_));
        DCHECK(capacity_ > kLogReserve && fd_entries_ <= kFdEntries);
    }

    io_uring ring_;
    const int event_fd_;
    const Clock& clock_;
    const SyncsAfterWrite syncs_;
    unsigned capacity_ = 0;
    unsigned kernel_ = 0;
    size_t in_flight_ = 0;
    size_t finished_ = 0;                   // since the queue was made
    std::atomic<uint64_t> submissions_{0};  // written by the worker
    unsigned fd_entries_ = 0;  // about descriptors since the ring was last submitted whole
    bool started_ = false;
    bool wake_armed_ = false;
    bool wake_multishot_ = true;
    bool closing_ = false;  // the requesters have ended: run no `done`
    // The worker has other threads to run: a kernel thread makes long submissions.
    bool busy_ = false;
    RequestQueue pending_[kIoClasses];
    SleepGate gate_;
};

// The kernel must not write memory of requests in flight after the owner has freed it: wait for the
// kernel in any case.
UringQueue::~UringQueue() {
    DCHECK(fd_polls_ == 0);  // their threads have ended
    closing_ = true;
    while (in_flight_ > 0) {
        pump();
        const int result = io_uring_submit_and_wait(&ring_, 1);
        // -EEXIST: called on a thread that is not the ring's owner.
        CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
        reap();
    }
    io_uring_queue_exit(&ring_);
    close(event_fd_);
}

void UringQueue::start_ring() {
    CHECK(enable_ring(ring_) == 0);
    started_ = true;
}

void UringQueue::submit(IoRequest* first, size_t count) {
    assert_state();
    if (!started_) [[unlikely]]
        start_ring();
    in_flight_ += count;
    for (; count > 0; --count) {
        DCHECK(first != nullptr && !first->complete);
        IoRequest* next = first->next;
        pending_[static_cast<size_t>(first->io_class)].push(first);
        first = next;
    }
}

// Highest class first. A class without room also holds back the classes below it.
void UringQueue::pump() {
    for (size_t c = 0; c < kIoClasses; ++c) {
        while (!pending_[c].empty()) {
            if (kernel_ >= limit(c)) return;
            issue(pending_[c].pop(), 0);
        }
    }
}

void UringQueue::issue(IoRequest* request, uint64_t progress) {
    DCHECK(kernel_ < capacity_ && kernel_ < in_flight_);
    DCHECK(progress == 0 || progress < io_bytes(*request));
    request->tag = progress;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr);  // kernel_ <= capacity_ keeps a place
    const int fd = request->file.value;
    const bool write = request->kind == IoKind::write;
    if (request->kind == IoKind::sync) {
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
    } else if (progress == 0 && request->iov_count > 1) {
        if (write)
            io_uring_prep_writev(sqe, fd, io_pieces(*request), request->iov_count, request->offset);
        else io_uring_prep_readv(sqe, fd, io_pieces(*request), request->iov_count, request->offset);
    } else {
        const iovec piece = io_piece(*request, progress);
        const auto bytes = static_cast<unsigned>(piece.iov_len);
        if (write) io_uring_prep_write(sqe, fd, piece.iov_base, bytes, request->offset + progress);
        else io_uring_prep_read(sqe, fd, piece.iov_base, bytes, request->offset + progress);
    }
    if (request->durable) {
        sqe->rw_flags = RWF_DSYNC;
        if (busy_) sqe->flags |= IOSQE_ASYNC;
    }
    sqe->user_data = reinterpret_cast<uint64_t>(request);
    ++kernel_;
}

// Behind a durable write whose file system may have ignored RWF_DSYNC (durable_writes.h).
void UringQueue::issue_sync(IoRequest* request) {
    DCHECK(kernel_ < capacity_ && kernel_ < in_flight_ && request->durable);
    request->tag = kSyncTag;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr);  // kernel_ <= capacity_ keeps a place
    io_uring_prep_fsync(sqe, request->file.value, IORING_FSYNC_DATASYNC);
    if (busy_) sqe->flags |= IOSQE_ASYNC;
    sqe->user_data = reinterpret_cast<uint64_t>(request);
    ++kernel_;
}

// Requests that the kernel refuses now (no memory, or completions must be fetched first) stay in
// the ring for the next turn.
void UringQueue::flush() {
    while (io_uring_sq_ready(&ring_) > 0) {
        count_submission();
        const int result = io_uring_submit(&ring_);
        if (result == -EINTR) continue;
        if (result == -EAGAIN || result == -EBUSY) return;
        CHECK(result >= 0);
        if (result == 0) return;
    }
}

size_t UringQueue::poll() {
    if (in_flight_ + fd_polls_ == 0) return 0;
    busy_ = true;
    pump();
    flush();
    const size_t finished = reap();
    // Continuations, and requests that the ring had no room for.
    flush();
    return finished;
}

// Completions are copied out first, because a `done` may submit.
size_t UringQueue::reap() {
    if (!started_) return 0;
    const size_t before = finished_;
    for (;;) {
        io_uring_cqe* cqes[64];
        Outcome outcomes[64];
        const unsigned n = io_uring_peek_batch_cqe(&ring_, cqes, 64);
        if (n == 0) break;
        for (unsigned i = 0; i < n; ++i)
            outcomes[i] = {cqes[i]->user_data, cqes[i]->res, cqes[i]->flags};
        io_uring_cq_advance(&ring_, n);
        for (unsigned i = 0; i < n; ++i) take(outcomes[i]);
        pump();
    }
    return finished_ - before;
}

void UringQueue::take(const Outcome& outcome) {
    if ((outcome.data & kTags) != 0) return take_other(outcome);
    DCHECK(kernel_ > 0);
    --kernel_;
    auto* request = reinterpret_cast<IoRequest*>(outcome.data);
    uint64_t progress = request->tag;
    if (progress == kSyncTag) [[unlikely]]
        return io_account_sync(*request, outcome.result) ? finish(request) : issue_sync(request);
    if (!io_account(*request, progress, outcome.result)) return issue(request, progress);
    if (io_needs_sync(*request, syncs_)) [[unlikely]]
        return issue_sync(request);
    finish(request);
}

// A wait that ended counts as finished: wait() must not sleep over the thread that it made ready.
void UringQueue::take_other(const Outcome& outcome) {
    if (outcome.data == kWakeTag) return wake_seen(outcome.flags);
    if (outcome.data == kCancelTag) return;
    DCHECK((outcome.data & kTags) == kFdTag && fd_polls_ > 0);
    auto& wait = *reinterpret_cast<FdPoll*>(outcome.data & ~kTags);
    --fd_polls_;
    ++finished_;
    if (!closing_) wait.done(wait, outcome.result);
}

// Null if the kernel takes nothing now.
io_uring_sqe* UringQueue::free_entry() {
    assert_state();
    if (!started_) [[unlikely]]
        start_ring();
    if (fd_entries_ == kFdEntries) flush();
    if (io_uring_sq_ready(&ring_) == 0) fd_entries_ = 0;
    if (fd_entries_ == kFdEntries) return nullptr;
    ++fd_entries_;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr);  // kFdEntries places are theirs
    return sqe;
}

bool UringQueue::start_fd_poll(FdPoll& wait) {
    wait.assert_state();
    io_uring_sqe* sqe = free_entry();
    if (sqe == nullptr) return false;
    if (wait.buffer != nullptr) io_uring_prep_recv(sqe, wait.fd, wait.buffer, wait.buffer_bytes, 0);
    else io_uring_prep_poll_add(sqe, wait.fd, wait.events);
    sqe->user_data = reinterpret_cast<uint64_t>(&wait) | kFdTag;
    ++fd_polls_;
    return true;
}

bool UringQueue::cancel_fd_poll(FdPoll& wait) {
    DCHECK(fd_polls_ > 0);
    io_uring_sqe* sqe = free_entry();
    if (sqe == nullptr) return false;
    io_uring_prep_cancel64(sqe, reinterpret_cast<uint64_t>(&wait) | kFdTag, 0);
    sqe->user_data = kCancelTag;
    return true;
}

void UringQueue::finish(IoRequest* request) {
    DCHECK(in_flight_ > kernel_);
    --in_flight_;
    ++finished_;
    if (!closing_) io_finish(*request);
}

// A multishot poll stays armed. Otherwise the counter is emptied and the poll armed before the next
// sleep.
void UringQueue::wake_seen(uint32_t flags) {
    if (flags & IORING_CQE_F_MORE) return;
    wake_armed_ = false;
    uint64_t count = 0;
    // The poll never fired: the kernel refused multishot.
    if (read(event_fd_, &count, sizeof(count)) < 0) wake_multishot_ = false;
}

void UringQueue::arm_wake() {
    if (wake_armed_) return;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    // Unsubmitted work fills the ring: this sleep will be short.
    if (sqe == nullptr) return flush();
    if (wake_multishot_) io_uring_prep_poll_multishot(sqe, event_fd_, POLLIN);
    else io_uring_prep_poll_add(sqe, event_fd_, POLLIN);
    sqe->user_data = kWakeTag;
    wake_armed_ = true;
}

size_t UringQueue::wait(Nanos deadline) {
    if (!started_) [[unlikely]]
        start_ring();
    assert_state();
    busy_ = false;
    pump();
    if (const size_t n = reap(); n > 0) {
        flush();
        return n;
    }
    if (!gate_.try_sleep()) return poll();
    arm_wake();
    const auto wanted =
        static_cast<unsigned>(std::clamp<size_t>(gather_, 1, std::max(kernel_, 1u)));
    Nanos left = kNever;
    if (deadline != kNever) {
        const Nanos now = clock_.now();
        left = deadline > now ? deadline - now : 0;
    }
    // Also bounds how long a wake() can remain unseen.
    if (wanted > 1) left = std::min(left, kGatherTime);
    __kernel_timespec limit{.tv_sec = static_cast<long long>(left / kSecond),
                            .tv_nsec = static_cast<long long>(left % kSecond)};
    io_uring_cqe* cqe = nullptr;
    if (io_uring_sq_ready(&ring_) > 0) count_submission();
    const int result = io_uring_submit_and_wait_timeout(&ring_, &cqe, wanted,
                                                        left == kNever ? nullptr : &limit, nullptr);
    CHECK(result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN ||
          result == -EBUSY);
    gate_.rise();
    return reap();
}

void UringQueue::wake() {
    if (!gate_.notify()) return;
    const uint64_t one = 1;
    while (write(event_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {}
}

}  // namespace

Result<void> probe_uring() {
    io_uring ring{};
    int result = init_ring(ring, 4);
    if (result < 0) return fail_os(ErrorCode::unsupported, -result, "io_uring");
    result = enable_ring(ring);
    if (result == 0) {
        io_uring_prep_nop(io_uring_get_sqe(&ring));
        result = io_uring_submit_and_wait(&ring, 1);
    }
    io_uring_queue_exit(&ring);
    if (result < 0) return fail_os(ErrorCode::unsupported, -result, "io_uring");
    return {};
}

Result<std::unique_ptr<IoQueue>> make_uring_queue(const Clock& clock, SyncsAfterWrite syncs) {
    io_uring ring{};
    const int result = init_ring(ring, kRingEntries);
    if (result < 0) return fail_os(ErrorCode::unsupported, -result, "io_uring");
    const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0) {
        io_uring_queue_exit(&ring);
        return fail_os(ErrorCode::unsupported, errno, "eventfd");
    }
    return std::make_unique<UringQueue>(ring, event_fd, clock, std::move(syncs));
}

}  // namespace lockstep::threads
