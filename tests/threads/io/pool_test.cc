// labels: unit tsan
// pool_test.cc - several workers' queues over one pool of I/O threads.
#include <thread>

#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads::pool_test {

TEST(Pool, QueuesOfManyWorkersShareIt) {
    Rig rig(RigKind::pool);
    const FileId file = rig.open("shared");
    constexpr int kWorkers = 4, kRounds = 50, kBatch = 16;
    std::vector<std::thread> workers;
    std::atomic<int> wrong{0};
    for (int w = 0; w < kWorkers; ++w) {
        workers.emplace_back([&, w] {
            auto queue = rig.queue();
            for (int round = 0; round < kRounds; ++round) {
                std::vector<uint64_t> out(kBatch), in(kBatch);
                Batch writes, reads;
                for (uint64_t i = 0; i < kBatch; ++i) {
                    const uint64_t at = (static_cast<uint64_t>(w) * kBatch + i) * 8;
                    out[i] = at * 1000 + static_cast<uint64_t>(round);
                    writes.add(IoKind::write, file, at, &out[i], 8);
                    reads.add(IoKind::read, file, at, &in[i], 8);
                }
                writes.submit(*queue);
                rig.drain(*queue);
                reads.submit(*queue);
                rig.drain(*queue);
                if (in != out || writes.completed.size() != kBatch) ++wrong;
            }
        });
    }
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Pool, QueueMayOutliveItsDisk) {
    MonotonicClock clock;
    auto disk = make_disk(IoBackend::pool);
    auto queue = std::move(*disk->make_queue(0, clock));
    disk.reset();
    EXPECT_EQ(queue->in_flight(), 0u);
    EXPECT_EQ(queue->wait(clock.now()), 0u);
}

TEST(Pool, MoreQueuesThanThreadsAllWork) {
    Rig rig(RigKind::pool);
    const FileId file = rig.open("f");
    std::vector<std::unique_ptr<IoQueue>> queues;
    // 20 x 4 would pass the pool's limit.
    for (int i = 0; i < 20; ++i) queues.push_back(rig.queue());
    uint64_t value = 7;
    for (auto& queue : queues) {
        Batch batch;
        batch.add(IoKind::write, file, 0, &value, 8).durable = true;
        batch.add(IoKind::sync, file);
        batch.submit(*queue);
        rig.drain(*queue);
        EXPECT_EQ(batch.requests[0].result, 8);
        EXPECT_EQ(batch.requests[1].result, 0);
    }
}

}  // namespace lockstep::threads::pool_test
