// labels: unit
// uring_test.cc - what only real files can show: short writes at a size limit, the
// choice of backend, sleep without CPU.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "tests/end_child.h"
#include "tests/threads/io/io_test_util.h"
#include "threads/io/uring_queue.h"

namespace lockstep::threads::uring_test {

TEST(Uring, ProbeWorksHereOrSaysWhy) {
    const Result<void> probe = probe_uring();
    EXPECT_TRUE(probe || (probe.error().code == ErrorCode::unsupported && probe.error().os != 0));
}

// A file size limit makes the kernel write a part first and refuse the rest: the one real short
// write that a test can order. Runs in a child, because the limit cannot be lifted again.
void write_over_limit(RigKind kind) {
    struct rlimit limit {
        100000, 100000
    };
    std::signal(SIGXFSZ, SIG_IGN);
    Rig rig(kind);
    const FileId file = rig.open("limited");
    auto queue = rig.queue();
    setrlimit(RLIMIT_FSIZE, &limit);
    const AlignedBuffer memory = std::move(*make_aligned_buffer(8192));
    Batch batch;
    batch.add(IoKind::write, file, 0, memory.get(), 8192);
    batch.add(IoKind::write, file, 98304, memory.get(), 8192).durable = true;  // 1696 bytes fit
    batch.submit(*queue);
    rig.drain(*queue);
    const bool as_promised = batch.requests[0].result == 8192 &&
                             batch.requests[1].result == -EFBIG && *rig.disk->size(file) == 100000;
    queue.reset();
    std::filesystem::remove_all(rig.dir);
    end_child(as_promised ? 0 : 1);
}

TEST(Uring, ShortWriteIsContinuedAndItsErrorTold) {
    for (const RigKind kind : real_kinds()) {
        EXPECT_EXIT(write_over_limit(kind), testing::ExitedWithCode(0), "") << rig_name(kind);
    }
}

TEST(Uring, AutomaticTakesTheRingWhereItWorks) {
    if (!probe_uring()) GTEST_SKIP() << "io_uring is refused here";
    MonotonicClock clock;
    auto disk = make_disk();
    EXPECT_STREQ((*disk->make_queue(0, clock))->name(), "io_uring");
    EXPECT_STREQ((*disk->make_queue(1, clock))->name(), "io_uring");
}

// Made on one kernel thread, used on another, destroyed on the first: as a runtime does it.
TEST(Uring, QueueBelongsToTheThreadThatUsesItFirst) {
    if (!probe_uring()) GTEST_SKIP() << "io_uring is refused here";
    Rig rig(RigKind::io_uring);
    const FileId file = rig.open("f");
    auto queue = rig.queue();
    uint64_t value = 42;
    Batch batch;
    batch.add(IoKind::write, file, 0, &value, 8);
    std::thread worker([&] {
        batch.submit(*queue);
        rig.drain(*queue);
    });
    worker.join();
    EXPECT_EQ(batch.requests[0].result, 8);
    queue.reset();
}

TEST(Uring, SleepingCostsNoCpu) {
    for (const RigKind kind : real_kinds()) {
        Rig rig(kind);
        auto queue = rig.queue();
        const auto cpu = [] {
            timespec t{};
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
            return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
        };
        const Nanos before = cpu();
        queue->wait(rig.clock().now() + 200 * kMillisecond);
        EXPECT_LT(cpu() - before, 20 * kMillisecond) << rig_name(kind);
    }
}

}  // namespace lockstep::threads::uring_test
