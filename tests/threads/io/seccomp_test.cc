// labels: unit
// seccomp_test.cc - a filter like a container's refuses io_uring: the automatic disk works through
// the pool; or the call of durable writes: a sync follows each of them.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstring>

#include "tests/end_child.h"
#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads::seccomp_test {

// The given system call fails with `err` from now on, in this process only.
bool refuse(unsigned call, unsigned err) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (err & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int write_and_read_back(Disk& disk, IoQueue& queue, const std::string& path) {
    const auto file = disk.open(path, Disk::kCreate | Disk::kDirect);
    if (!file) return 10;
    const AlignedBuffer out = std::move(*make_aligned_buffer(8192)),
                        in = std::move(*make_aligned_buffer(8192));
    std::memset(out.get(), 'z', 8192);
    Batch batch;
    batch.add(IoKind::write, *file, 8192, out.get(), 8192).durable = true;
    batch.add(IoKind::sync, *file);
    Batch back;
    back.add(IoKind::read, *file, 8192, in.get(), 8192);
    for (Batch* b : {&batch, &back}) {
        b->submit(queue);
        while (queue.in_flight() > 0) queue.wait(kNever);
        for (const IoRequest& r : b->requests) {
            if (r.result < 0) return 11;
        }
    }
    return std::memcmp(in.get(), out.get(), 8192) == 0 ? 0 : 12;
}

// Exit status 0 if all is as promised; each other number names one broken promise.
void under_filter(unsigned call, unsigned err, const std::string& directory) {
    if (!refuse(call, err)) end_child(1);
    MonotonicClock clock;
    const auto refused = make_disk(IoBackend::io_uring)->make_queue(0, clock);
    if (refused) end_child(2);
    if (refused.error().code != ErrorCode::unsupported ||
        refused.error().os != static_cast<int16_t>(err))
        end_child(3);
    if (refused.error().text().find("io_uring") == std::string::npos) end_child(4);
    auto disk = make_disk();
    auto queue = disk->make_queue(0, clock);
    if (!queue) end_child(5);
    if (std::string((*queue)->name()) != "pool") end_child(6);
    const int result = write_and_read_back(*disk, **queue, directory + "/f");
    queue->reset();
    disk.reset();
    end_child(result);
}

TEST(Seccomp, RefusedRingsLeadToThePool) {
    const Rig rig(RigKind::pool);  // for its directory
    for (const unsigned err : {EPERM, EACCES, ENOSYS, ENOMEM, EMFILE}) {
        EXPECT_EXIT(under_filter(__NR_io_uring_setup, err, rig.dir), testing::ExitedWithCode(0), "")
            << "errno " << err;
    }
}

TEST(Seccomp, RingsThatCannotBeEnteredLeadToThePool) {
    const Rig rig(RigKind::pool);
    EXPECT_EXIT(under_filter(__NR_io_uring_enter, EPERM, rig.dir), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(under_filter(__NR_io_uring_register, EPERM, rig.dir), testing::ExitedWithCode(0),
                "");
}

TEST(Seccomp, WithoutTheCallOfDurableWritesEachIsSynced) {
    const Rig rig(RigKind::pool);
    for (const unsigned err : {ENOSYS, EPERM, EOPNOTSUPP}) {
        const auto writes = [&] {
            if (!refuse(__NR_pwritev2, err)) end_child(1);
            MonotonicClock clock;
            auto disk = make_disk(IoBackend::pool);
            auto queue = disk->make_queue(0, clock);
            if (!queue) end_child(2);
            const int result = write_and_read_back(*disk, **queue, rig.dir + "/f");
            queue->reset();
            end_child(disk->syncs_after_write() ? result : 3);
        };
        EXPECT_EXIT(writes(), testing::ExitedWithCode(0), "") << "errno " << err;
    }
}

}  // namespace lockstep::threads::seccomp_test
