// raw_disk.cc - what the device gives to a bare io_uring loop: the measure for everything above it.
#include "tools/bench/raw_disk.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "threads/io/aligned_buffer.h"

namespace lockstep::bench {

namespace {

struct Ring {
    io_uring ring{};
    int file = -1;
    bool made = false;
    ~Ring() {
        if (made) io_uring_queue_exit(&ring);
        if (file >= 0) ::close(file);
    }
};

}  // namespace

Result<double> raw_reads(const std::string& path, uint64_t pages, uint32_t depth, double seconds,
                         uint64_t seed) {
    Ring r;
    r.file = ::open(path.c_str(), O_RDONLY | O_DIRECT);
    if (r.file < 0) return fail_os(ErrorCode::bad_path, errno, "raw reads");
    if (const int made = io_uring_queue_init(depth, &r.ring, 0); made < 0)
        return fail_os(ErrorCode::unsupported, -made, "io_uring");
    r.made = true;
    const threads::AlignedBuffer memory = TRY(threads::make_aligned_buffer(depth * kPageBytes));
    Rng rng(seed);
    const auto ask = [&](uint64_t slot) {
        io_uring_sqe* sqe = io_uring_get_sqe(&r.ring);
        io_uring_prep_read(sqe, r.file, memory.get() + slot * kPageBytes, kPageBytes,
                           rng.below(pages) * kPageBytes);
        io_uring_sqe_set_data64(sqe, slot);
    };
    const MonotonicClock clock;
    const Nanos begin = clock.now(), end = begin + static_cast<Nanos>(seconds * 1e9);
    for (uint64_t slot = 0; slot < depth; ++slot) ask(slot);
    uint64_t reads = 0;
    uint32_t on_device = depth;
    Nanos now = begin;
    for (bool failed = false; on_device > 0;) {
        io_uring_submit_and_wait(&r.ring, 1);
        now = clock.now();
        io_uring_cqe* cqes[64];
        const unsigned n = io_uring_peek_batch_cqe(&r.ring, cqes, 64);
        for (unsigned i = 0; i < n; ++i, --on_device) {
            failed = failed || cqes[i]->res != static_cast<int>(kPageBytes);
            if (failed || now >= end) continue;
            ++reads;
            ask(io_uring_cqe_get_data64(cqes[i]));
            ++on_device;
        }
        io_uring_cq_advance(&r.ring, n);
        if (failed && on_device == 0) return fail(ErrorCode::io_error, "raw reads");
    }
    return static_cast<double>(reads) / (static_cast<double>(end - begin) / 1e9);
}

Result<double> raw_flush(const std::string& path, uint64_t bytes, bool durable_write,
                         double seconds) {
    Ring r;
    r.file = ::open(path.c_str(), O_RDWR | O_DIRECT);
    if (r.file < 0) return fail_os(ErrorCode::bad_path, errno, "raw flush");
    if (const int made = io_uring_queue_init(
            8, &r.ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
        made < 0)
        return fail_os(ErrorCode::unsupported, -made, "io_uring");
    r.made = true;
    const threads::AlignedBuffer memory = TRY(threads::make_aligned_buffer(bytes));
    constexpr uint64_t kPlaces = 64;
    const MonotonicClock clock;
    std::vector<double> took;
    const Nanos end = clock.now() + static_cast<Nanos>(seconds * 1e9);
    for (Nanos begin = clock.now(); begin < end; begin = clock.now()) {
        io_uring_sqe* sqe = io_uring_get_sqe(&r.ring);
        io_uring_prep_write(sqe, r.file, memory.get(), static_cast<unsigned>(bytes),
                            took.size() % kPlaces * bytes);
        if (durable_write) sqe->rw_flags = RWF_DSYNC;
        else sqe->flags |= IOSQE_IO_LINK;
        if (!durable_write)
            io_uring_prep_fsync(io_uring_get_sqe(&r.ring), r.file, IORING_FSYNC_DATASYNC);
        for (unsigned left = durable_write ? 1 : 2; left > 0; --left) {
            io_uring_submit_and_wait(&r.ring, 1);
            io_uring_cqe* cqe = nullptr;
            if (io_uring_wait_cqe(&r.ring, &cqe) < 0 || cqe->res < 0)
                return fail(ErrorCode::io_error, "raw flush");
            io_uring_cqe_seen(&r.ring, cqe);
        }
        took.push_back(static_cast<double>(clock.now() - begin) / 1e3);
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
}

}  // namespace lockstep::bench
