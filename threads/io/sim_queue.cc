// sim_queue.cc - starts, attempts, fails and completes requests on the simulated disk.
#include "threads/io/sim_queue.h"

#include <chrono>
#include <cstring>

namespace lockstep::threads {
namespace {

constexpr Nanos kSlowFactor = 100;

bool is_misaligned(const IoRequest& request) {
    uint64_t bits = request.offset;
    for (uint32_t i = 0; i < request.iov_count; ++i) {
        bits |= reinterpret_cast<uintptr_t>(io_pieces(request)[i].iov_base) |
                io_pieces(request)[i].iov_len;
    }
    return bits % kSectorBytes != 0;
}

// Calls f for each piece of a request's memory, from byte `progress` on, for `bytes` bytes.
template <class F>
void for_memory(const IoRequest& request, uint64_t progress, uint64_t bytes, F f) {
    for (uint64_t moved = 0; moved < bytes;) {
        const iovec piece = io_piece(request, progress + moved);
        const uint64_t n = std::min<uint64_t>(piece.iov_len, bytes - moved);
        f(static_cast<std::byte*>(piece.iov_base), moved, n);
        moved += n;
    }
}

std::shared_ptr<const std::byte[]> copy_memory(const IoRequest& request) {
    std::shared_ptr<std::byte[]> copy(new std::byte[io_bytes(request)]);
    for_memory(request, 0, io_bytes(request), [&](const std::byte* piece, uint64_t at, uint64_t n) {
        std::memcpy(copy.get() + at, piece, n);
    });
    return copy;
}

bool memory_is(const IoRequest& request, const std::byte* copy) {
    DCHECK(copy != nullptr && request.kind == IoKind::write);
    bool same = true;
    for_memory(request, 0, io_bytes(request), [&](const std::byte* piece, uint64_t at, uint64_t n) {
        same = same && std::memcmp(copy + at, piece, n) == 0;
    });
    return same;
}

}  // namespace

SimQueue::~SimQueue() {
    std::lock_guard lock(disk_.mutex_);
    for (auto& [due, operation] : operations_) {
        if (operation.write) operation.file->drop_write(*operation.write);
    }
    std::erase(disk_.queues_, this);
}

Nanos SimQueue::time() const { return disk_.options_.polls_max > 0 ? disk_.polls_ : clock_.now(); }

void SimQueue::submit(IoRequest* first, size_t count) {
    in_flight_ += count;
    for (; count > 0; --count) {
        IoRequest& request = *first;
        first = request.next;
        std::unique_lock lock(disk_.mutex_);
        start(&request);
        assert_state();
        const std::string path = disk_.of(request.file).file->path;
        const SimEvent event{.kind = SimEvent::submitted,
                             .io = request.kind,
                             .path = path,
                             .offset = request.offset,
                             .bytes = io_bytes(request)};
        lock.unlock();
        disk_.happened(event);
    }
}

void SimQueue::start(IoRequest* request) {
    const SimDisk::OpenFile& open = disk_.of(request->file);
    Operation operation;
    operation.request = request;
    operation.file = open.file;
    if (request->kind == IoKind::write) operation.data = copy_memory(*request);
    operation.misaligned = open.direct && request->kind != IoKind::sync && is_misaligned(*request);
    begin_attempt(std::move(operation));
}

void SimQueue::begin_attempt(Operation operation) {
    const IoRequest& request = *operation.request;
    SimFile& file = *operation.file;
    DCHECK(operation.progress <= io_bytes(request) && !operation.write);
    const uint64_t left = io_bytes(request) - operation.progress;
    operation.attempt = left;
    if (left > kSectorBytes && disk_.faults_.strikes(SimFault::short_transfer, file.path)) {
        operation.attempt =
            (1 + disk_.faults_.shape().below((left - 1) / kSectorBytes)) * kSectorBytes;
    }
    DCHECK(operation.attempt <= left && (operation.attempt > 0 || left == 0));
    if (request.kind == IoKind::sync || operation.syncing) operation.sync_point = file.sync_point();
    if (request.kind == IoKind::write && !operation.misaligned && operation.attempt > 0) {
        DCHECK(operation.data != nullptr);
        operation.write = file.begin_write(
            request.offset + operation.progress,
            {operation.data, operation.data.get() + operation.progress}, operation.attempt);
    }
    const SimOptions& options = disk_.options_;
    Nanos latency = options.polls_max > 0
                        ? 1 + disk_.schedule_.below(options.polls_max)
                        : options.latency_min +
                              disk_.schedule_.below(options.latency_max - options.latency_min + 1);
    if (disk_.faults_.strikes(SimFault::slow, file.path)) latency *= kSlowFactor;
    operations_.emplace(std::pair(time() + latency, ++disk_.operations_), std::move(operation));
}

bool SimQueue::attempt(Operation& operation) {
    IoRequest& request = *operation.request;
    int64_t raw = 0;
    DCHECK(!operation.syncing || (request.durable && operation.progress == io_bytes(request)));
    if (operation.syncing) return io_account_sync(request, attempt_sync(operation));
    if (operation.misaligned) raw = -EINVAL;
    else if (request.kind == IoKind::read) raw = attempt_read(operation);
    else if (request.kind == IoKind::write) raw = attempt_write(operation);
    else raw = attempt_sync(operation);
    if (!io_account(request, operation.progress, raw)) return false;
    operation.syncing = request.durable && request.result >= 0 && disk_.options_.syncs_after_write;
    return !operation.syncing;
}

int64_t SimQueue::attempt_read(Operation& operation) {
    SimFile& file = *operation.file;
    const IoRequest& request = *operation.request;
    const uint64_t from = request.offset + operation.progress;
    if (disk_.faults_.strikes(SimFault::again, file.path)) return -EAGAIN;
    if (disk_.faults_.strikes(SimFault::read_error, file.path)) return -EIO;
    if (disk_.faults_.strikes(SimFault::read_error_forever, file.path)) file.spoil_sector(from);
    if (file.has_bad_sector(from, operation.attempt)) return -EIO;
    size_t got = 0;
    for_memory(
        request, operation.progress, operation.attempt,
        [&](std::byte* piece, uint64_t at, uint64_t n) { got += file.read(from + at, piece, n); });
    DCHECK(got <= operation.attempt);
    if (got > 0 && file.is_written(from, got) &&
        disk_.faults_.strikes(SimFault::torn_read, file.path)) {
        for_memory(request, operation.progress, got,
                   [&](std::byte* piece, uint64_t at, uint64_t n) {
                       file.tear(from + at, piece, n, disk_.faults_.shape());
                   });
    }
    if (got > 0 && disk_.faults_.strikes(SimFault::bit_flip, file.path)) {
        const std::byte bit = std::byte{1} << disk_.faults_.shape().below(8);
        const uint64_t flipped = disk_.faults_.shape().below(got);
        for_memory(request, operation.progress + flipped, 1,
                   [&](std::byte* piece, uint64_t, uint64_t) { *piece ^= bit; });
    }
    return static_cast<int64_t>(got);
}

int64_t SimQueue::attempt_write(Operation& operation) {
    SimFile& file = *operation.file;
    const IoRequest& request = *operation.request;
    SimFaults& faults = disk_.faults_;
    const bool memory_unchanged = memory_is(request, operation.data.get());
    CHECK(memory_unchanged);  // SD-1
    if (operation.attempt == 0) return 0;
    DCHECK(operation.write.has_value());
    const SimFile::WriteHandle write = *std::exchange(operation.write, std::nullopt);
    const uint64_t from = request.offset + operation.progress;
    if (faults.strikes(SimFault::again, file.path)) {
        file.end_write(write, 0, from);
        return -EAGAIN;
    }
    if (const int err = disk_.write_fault(file, from + operation.attempt); err != 0) {
        const uint64_t sectors =
            err == EIO ? faults.shape().below(operation.attempt / kSectorBytes + 1) : 0;
        file.end_write(
            write, disk_.room_for(file, from + sectors * kSectorBytes) ? sectors * kSectorBytes : 0,
            from);
        return -err;
    }
    if (faults.strikes(SimFault::lost_write, file.path)) {
        file.lose_write(write);
        return static_cast<int64_t>(operation.attempt);
    }
    uint64_t to = from;
    const uint64_t places = file.length() / operation.attempt;
    if (places > 1 && faults.strikes(SimFault::misdirected_write, file.path)) {
        const uint64_t here = from / operation.attempt;
        to = (here + 1 + faults.shape().below(places - 1)) % places * operation.attempt;
    }
    file.end_write(write, operation.attempt, to);
    if (request.durable && !disk_.options_.syncs_after_write) {
        if (faults.strikes(SimFault::sync_error, file.path)) {
            file.newest_in_doubt();
            return -EIO;
        }
        file.newest_synced();
    }
    return static_cast<int64_t>(operation.attempt);
}

int64_t SimQueue::attempt_sync(Operation& operation) {
    SimFile& file = *operation.file;
    if (disk_.faults_.strikes(SimFault::sync_error, file.path)) {
        file.sync_failed(operation.sync_point);
        return -EIO;
    }
    file.synced(operation.sync_point, disk_.crash_);
    return 0;
}

bool SimQueue::take_due(Operation& operation) {
    if (operations_.empty() || operations_.begin()->first.first > time()) return false;
    assert_state();
    operation = std::move(operations_.extract(operations_.begin()).mapped());
    return true;
}

// One at a time, so that an observer sees every state between two completions and can crash there.
size_t SimQueue::poll() {
    {
        std::lock_guard lock(disk_.mutex_);
        if (in_flight_ > 0) ++disk_.polls_;
    }
    size_t finished = 0;
    for (;;) {
        Operation operation;
        {
            std::unique_lock lock(disk_.mutex_);
            if (!take_due(operation)) return finished;
            if (!attempt(operation)) {
                begin_attempt(std::move(operation));
                continue;
            }
        }
        complete(operation);
        ++finished;
    }
}

void SimQueue::complete(Operation& operation) {
    IoRequest* request = operation.request;
    disk_.happened({.kind = SimEvent::completed,
                    .io = request->kind,
                    .path = operation.file->path,
                    .offset = request->offset,
                    .bytes = io_bytes(*request),
                    .result = request->result});
    DCHECK(in_flight_ > 0);
    DCHECK(request->result <= static_cast<int64_t>(io_bytes(*request)));
    --in_flight_;
    io_finish(*request);
}

// Sleeps once and looks again, because a clock that other threads move does not announce the due
// time.
size_t SimQueue::wait(Nanos deadline) {
    if (const size_t n = poll(); n > 0) return n;
    Nanos due = 0;
    {
        std::lock_guard lock(disk_.mutex_);
        due = next_due();
    }
    if (disk_.options_.polls_max > 0 && due != kNever) return 0;
    if (!gate_.try_sleep()) return poll();
    const Nanos now = clock_.now();
    const Nanos until = std::min(due, deadline);
    const Nanos left = std::min(until > now ? until - now : 0, 3600 * kSecond);
    {
        std::unique_lock lock(sleep_mutex_);
        wakeup_.wait_for(lock, std::chrono::nanoseconds(left), [&] { return kicked_; });
        kicked_ = false;
    }
    gate_.rise();
    return poll();
}

void SimQueue::wake() {
    if (!gate_.notify()) return;
    std::lock_guard lock(sleep_mutex_);
    kicked_ = true;
    wakeup_.notify_one();
}

}  // namespace lockstep::threads
