// labels: unit tsan
// io_test.cc - what every I/O backend must do, run over all of them.
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads::io_test {

class IoBackends : public testing::TestWithParam<RigKind> {
protected:
    void SetUp() override {
        if (GetParam() == RigKind::io_uring && !probe_uring())
            GTEST_SKIP() << "io_uring is refused here";
    }
    Rig rig{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(All, IoBackends,
                         testing::Values(RigKind::io_uring, RigKind::pool, RigKind::memory,
                                         RigKind::sim_clock, RigKind::sim_polls),
                         [](const auto& info) { return rig_name(info.param); });

AlignedBuffer buffer(size_t bytes, int fill = 0) {
    AlignedBuffer b = std::move(*make_aligned_buffer(bytes));
    std::memset(b.get(), fill, bytes);
    return b;
}

TEST_P(IoBackends, NamesTheBackend) {
    const std::string name = rig.queue()->name();
    const bool pool = GetParam() == RigKind::memory;
    EXPECT_EQ(name, rig.simulated() ? "simulated" : pool ? "pool" : rig_name(GetParam()));
}

TEST_P(IoBackends, OpenErrorsSayWhatIsWrong) {
    const auto missing = rig.disk->open(rig.path("missing"), 0);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::bad_path);
    EXPECT_EQ(missing.error().os, ENOENT);
    rig.disk->close(rig.open("a"));
    const auto exclusive = rig.disk->open(rig.path("a"), Disk::kCreate | Disk::kExclusive);
    ASSERT_FALSE(exclusive);
    EXPECT_EQ(exclusive.error().os, EEXIST);
    const auto directory = rig.disk->open(rig.dir, 0);
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().code, ErrorCode::bad_path);
    EXPECT_EQ(rig.disk->unlink(rig.path("missing")).error().code, ErrorCode::bad_path);
    EXPECT_EQ(rig.disk->rename(rig.path("missing"), rig.path("b")).error().code,
              ErrorCode::bad_path);
    EXPECT_EQ(rig.disk->list(rig.path("missing")).error().code, ErrorCode::bad_path);
}

TEST_P(IoBackends, NamesAndSizes) {
    const FileId file = rig.open("one", Disk::kCreate | Disk::kDirect);
    EXPECT_EQ(*rig.disk->size(file), 0u);
    ASSERT_TRUE(rig.disk->allocate(file, 100 * 4096));
    ASSERT_TRUE(rig.disk->allocate(file, 4096));  // never shrinks
    EXPECT_EQ(*rig.disk->size(file), 100u * 4096);
    char byte = 1;
    EXPECT_EQ(*rig.disk->read_now(file, 4096 * 99 + 7, &byte, 1), 1u);
    EXPECT_EQ(byte, 0);
    ASSERT_TRUE(rig.disk->truncate(file, 8192));
    EXPECT_EQ(*rig.disk->size(file), 8192u);
    ASSERT_TRUE(rig.disk->rename(rig.path("one"), rig.path("two")));
    rig.disk->close(rig.open("three"));
    std::vector<std::string> names{"three", "two"};
    if (GetParam() != RigKind::memory) {  // it has one directory
        ASSERT_TRUE(rig.disk->make_directory(rig.path("sub")));
        ASSERT_TRUE(rig.disk->make_directory(rig.path("sub")));
        EXPECT_TRUE(rig.disk->exists(rig.path("sub")));
        names.insert(names.begin(), "sub");
    }
    EXPECT_FALSE(rig.disk->make_directory(rig.path("two")));
    EXPECT_EQ(*rig.disk->list(rig.dir), names);
    EXPECT_TRUE(rig.disk->exists(rig.path("two")));
    EXPECT_FALSE(rig.disk->exists(rig.path("one")));
    ASSERT_TRUE(rig.disk->unlink(rig.path("three")));
    EXPECT_FALSE(rig.disk->exists(rig.path("three")));
    EXPECT_TRUE(rig.disk->sync_directory(rig.dir));
    EXPECT_FALSE(rig.disk->sync_directory(rig.path("nowhere")));
    rig.disk->close(file);
}

TEST_P(IoBackends, SecondLockIsRefusedUntilTheFirstIsClosed) {
    const FileId first = rig.open("lock"), second = rig.open("lock");
    ASSERT_TRUE(rig.disk->lock_exclusive(first));
    ASSERT_TRUE(rig.disk->lock_exclusive(first));
    const auto refused = rig.disk->lock_exclusive(second);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::store_locked);
    rig.disk->close(first);
    EXPECT_TRUE(rig.disk->lock_exclusive(second));
    rig.disk->close(second);
}

TEST_P(IoBackends, BlockingTransfersTakeAnyMemory) {
    const FileId file = rig.open("f", Disk::kCreate | Disk::kDirect);
    std::vector<char> out(3 * 8192 + 3, 'x'), in(3 * 8192 + 3);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 7);
    ASSERT_TRUE(rig.disk->write_now(file, 8192, out.data() + 3, 3 * 8192));
    ASSERT_TRUE(rig.disk->sync_now(file));
    EXPECT_EQ(*rig.disk->read_now(file, 8192, in.data() + 1, 3 * 8192), 3u * 8192);
    EXPECT_EQ(std::memcmp(in.data() + 1, out.data() + 3, 3 * 8192), 0);
    EXPECT_EQ(*rig.disk->read_now(file, 8192 + 100, in.data(), 50), 50u);
    EXPECT_EQ(std::memcmp(in.data(), out.data() + 103, 50), 0);
    // Short at the end.
    EXPECT_EQ(*rig.disk->read_now(file, 4 * 8192 - 10, in.data(), 100), 10u);
    EXPECT_EQ(*rig.disk->read_now(file, 1 << 20, in.data(), 100), 0u);
    const auto unaligned = rig.disk->write_now(file, 7, out.data(), 100);
    // A file system without direct I/O takes it.
    EXPECT_TRUE(unaligned || unaligned.error().code == ErrorCode::bad_argument);
    rig.disk->close(file);
}

// Random batches of non-overlapping page transfers, one or two pieces, against a copy in memory.
void random_transfers(Rig& rig, uint32_t flags, uint64_t seed) {
    constexpr size_t kPages = 64, kPage = 8192;
    Rng rng(seed);
    const FileId file = rig.open("data", flags);
    ASSERT_TRUE(rig.disk->allocate(file, kPages * kPage));
    auto queue = rig.queue();
    std::vector<unsigned char> model(kPages * kPage, 0);
    const AlignedBuffer memory = buffer(kPages * kPage);
    for (int round = 0; round < 30; ++round) {
        Batch batch;
        std::set<uint64_t> taken;
        for (uint64_t i = 0, n = 1 + rng.below(40); i < n; ++i) {
            const uint64_t pages = 1 + rng.below(2), page = rng.below(kPages - 1);
            if (taken.contains(page) || (pages == 2 && taken.contains(page + 1))) continue;
            for (uint64_t p = page; p < page + pages; ++p) taken.insert(p);
            const bool write = rng.chance(0.6);
            std::byte* at = memory.get() + page * kPage;
            std::memset(at, write ? static_cast<int>(rng.below(256)) : 0xee, pages * kPage);
            IoRequest& r = batch.add(write ? IoKind::write : IoKind::read, file, page * kPage, at,
                                     pages * kPage);
            r.io_class = static_cast<IoClass>(rng.below(4));
            if (pages == 2 && rng.chance(0.5)) {
                r.iov[0].iov_len = kPage;
                r.iov[1] = {at + kPage, kPage};
                r.iov_count = 2;
            }
            if (write) std::memcpy(model.data() + page * kPage, at, pages * kPage);
        }
        batch.submit(*queue);
        EXPECT_EQ(queue->in_flight(), batch.requests.size());
        rig.drain(*queue);
        ASSERT_EQ(batch.completed.size(), batch.requests.size());
        for (const IoRequest& r : batch.requests) {
            uint64_t at = r.offset, bytes = 0;
            for (uint32_t i = 0; i < r.iov_count;
                 at += r.iov[i].iov_len, bytes += r.iov[i].iov_len, ++i) {
                ASSERT_EQ(std::memcmp(r.iov[i].iov_base, model.data() + at, r.iov[i].iov_len), 0)
                    << "offset " << at;
            }
            ASSERT_EQ(r.result, static_cast<int64_t>(bytes));
        }
    }
    std::vector<unsigned char> seen(model.size());
    ASSERT_EQ(*rig.disk->read_now(file, 0, seen.data(), seen.size()), seen.size());
    EXPECT_TRUE(seen == model);
    rig.disk->close(file);
}

TEST_P(IoBackends, RandomTransfersMatchAModel) {
    random_transfers(rig, Disk::kCreate, seed_of_run(11));
}
TEST_P(IoBackends, RandomDirectTransfersMatchAModel) {
    random_transfers(rig, Disk::kCreate | Disk::kDirect, seed_of_run(12));
}

TEST_P(IoBackends, ReadsPastTheEndGiveWhatThereIs) {
    for (const uint32_t flags : {Disk::kCreate + 0u, Disk::kCreate | Disk::kDirect}) {
        const FileId file = rig.open(flags & Disk::kDirect ? "direct" : "buffered", flags);
        ASSERT_TRUE(rig.disk->truncate(file, 10000));  // ends inside a sector
        auto queue = rig.queue();
        const AlignedBuffer memory = buffer(4 * 16384);
        Batch batch;
        batch.add(IoKind::read, file, 8192, memory.get(), 16384);
        batch.add(IoKind::read, file, 16384, memory.get() + 16384, 16384);
        IoRequest& two = batch.add(IoKind::read, file, 0, memory.get() + 2 * 16384, 8192);
        two.iov[1] = {memory.get() + 3 * 16384, 8192};
        two.iov_count = 2;
        batch.submit(*queue);
        rig.drain(*queue);
        EXPECT_EQ(batch.requests[0].result, 10000 - 8192);
        EXPECT_EQ(batch.requests[1].result, 0);
        EXPECT_EQ(two.result, 10000);
        queue.reset();
        rig.disk->close(file);
    }
}

// More than any ring holds, in one call, all classes.
TEST_P(IoBackends, MoreRequestsThanTheRingHolds) {
    constexpr size_t kCount = 1500;
    const FileId file = rig.open("many");
    auto queue = rig.queue();
    std::vector<uint64_t> out(kCount), in(kCount, 0);
    Batch writes, reads;
    for (size_t i = 0; i < kCount; ++i) {
        out[i] = i * 31 + 1;
        writes.add(IoKind::write, file, i * 8, &out[i], 8).io_class = static_cast<IoClass>(i % 4);
    }
    writes.submit(*queue);
    rig.drain(*queue);
    for (size_t i = 0; i < kCount; ++i)
        reads.add(IoKind::read, file, i * 8, &in[i], 8).io_class = static_cast<IoClass>(i % 3);
    reads.submit(*queue);
    rig.drain(*queue);
    EXPECT_EQ(in, out);
    EXPECT_EQ(std::set<IoRequest*>(reads.completed.begin(), reads.completed.end()).size(), kCount);
}

TEST_P(IoBackends, DurableWritesArriveWhole) {
    const FileId file = rig.open("durable", Disk::kCreate | Disk::kDirect);
    auto queue = rig.queue();
    const AlignedBuffer memory = buffer(3 * 4096, 'd');
    Batch batch;
    IoRequest& two = batch.add(IoKind::write, file, 8192, memory.get(), 4096);
    two.durable = true;
    two.iov[two.iov_count++] = {memory.get() + 8192, 4096};
    batch.add(IoKind::write, file, 0, memory.get(), 4096).durable = true;
    batch.submit(*queue);
    rig.drain(*queue);
    EXPECT_EQ(batch.requests[0].result, 8192);
    EXPECT_EQ(batch.requests[1].result, 4096);
    std::string seen(16384, '?');
    ASSERT_EQ(*rig.disk->read_now(file, 0, seen.data(), seen.size()), seen.size());
    EXPECT_EQ(seen, std::string(4096, 'd') + std::string(4096, '\0') + std::string(8192, 'd'));
}

// A failure is its own request's alone, and so is the end of a file.
TEST_P(IoBackends, NeighboursOfAFailureGoOn) {
    const FileId file = rig.open("plain");
    // A file that refuses the write: by its mode, or in the simulation by the alignment. Real file
    // systems differ in that: tmpfs takes every alignment.
    const FileId refusing = rig.open("refusing", Disk::kCreate | Disk::kDirect);
    const FileId refused =
        rig.simulated() ? refusing : *rig.disk->open(rig.path("refusing"), Disk::kReadOnly);
    ASSERT_TRUE(rig.disk->truncate(file, 5000));
    auto queue = rig.queue();
    const AlignedBuffer memory = buffer(3 * 8192, 'm');
    Batch batch;
    batch.add(IoKind::write, file, 100000, memory.get(), 10);
    batch.add(IoKind::write, refused, 1, memory.get() + 1, 100);
    batch.add(IoKind::read, file, 0, memory.get() + 8192, 8192).io_class = IoClass::log;
    batch.add(IoKind::write, file, 200000, memory.get(), 10).durable = true;
    batch.submit(*queue);
    rig.drain(*queue);
    Batch ends;
    ends.add(IoKind::read, file, 198304, memory.get() + 8192, 8192);  // 1706 bytes to the end
    ends.add(IoKind::sync, file);
    ends.submit(*queue);
    rig.drain(*queue);
    ASSERT_EQ(batch.completed.size() + ends.completed.size(), 6u);
    EXPECT_EQ(batch.requests[0].result, 10);
    EXPECT_EQ(batch.requests[1].result, rig.simulated() ? -EINVAL : -EBADF);
    EXPECT_GT(batch.requests[2].result, 0);
    EXPECT_EQ(batch.requests[3].result, 10);
    EXPECT_EQ(ends.requests[0].result, 1706);
    EXPECT_EQ(ends.requests[1].result, 0);
    EXPECT_EQ(*rig.disk->size(file), 200010u);
}

TEST_P(IoBackends, DoneMaySubmitAgain) {
    const FileId file = rig.open("again");
    auto queue = rig.queue();
    struct State {
        IoQueue* queue;
        int left = 500;
        uint64_t value = 0;
    } state{queue.get()};
    IoRequest request;
    request.kind = IoKind::write;
    request.file = file;
    request.iov[0] = {&state.value, 8};
    request.iov_count = 1;
    request.user = &state;
    request.done = [](IoRequest* r) {
        auto* s = static_cast<State*>(r->user);
        EXPECT_EQ(r->result, 8);
        if (--s->left == 0) return;
        ++s->value;
        r->complete = false;
        s->queue->submit(r, 1);
    };
    queue->submit(&request, 1);
    rig.drain(*queue);
    EXPECT_EQ(state.left, 0);
    uint64_t last = 0;
    ASSERT_TRUE(rig.disk->read_now(file, 0, &last, 8));
    EXPECT_EQ(last, 499u);
}

TEST_P(IoBackends, WaitEndsAtItsDeadline) {
    auto queue = rig.queue();
    MonotonicClock clock;
    const Nanos start = clock.now();
    EXPECT_EQ(queue->wait(rig.clock().now() + 20 * kMillisecond), 0u);
    const Nanos took = clock.now() - start;
    EXPECT_GE(took, 15 * kMillisecond);
    EXPECT_EQ(queue->wait(rig.clock().now()), 0u);  // passed already
}

// SG-1: every call is seen, whether it comes before, at the beginning of, or during the sleep.
TEST_P(IoBackends, NoWakeIsLost) {
    auto queue = rig.queue();
    constexpr uint64_t kRounds = 3000;
    std::atomic<uint64_t> mail{0}, seen{0};
    std::thread sender([&] {
        for (uint64_t i = 1; i <= kRounds; ++i) {
            mail.store(i, std::memory_order_seq_cst);
            queue->wake();
            for (uint64_t spins = 0; seen.load(std::memory_order_acquire) < i; ++spins) {
                if (spins > 100) std::this_thread::yield();
            }
        }
    });
    while (seen.load() < kRounds) {
        queue->wait(kNever);  // hangs if a wake-up is lost
        seen.store(mail.load(std::memory_order_seq_cst), std::memory_order_release);
    }
    sender.join();
}

TEST_P(IoBackends, QueueEndsWithRequestsInFlight) {
    const FileId file = rig.open("left");
    auto queue = rig.queue();
    const AlignedBuffer memory = buffer(64 * 8192, 'q');
    Batch batch;
    for (size_t i = 0; i < 64; ++i)
        batch.add(IoKind::write, file, i * 8192, memory.get() + i * 8192, 8192);
    batch.submit(*queue);
    queue.reset();  // memory may go now
    EXPECT_TRUE(batch.completed.empty());
}

TEST(AlignedBuffers, AreAlignedZeroedAndGivenBack) {
    for (const size_t bytes : {1u, 4096u, 100000u, 5u << 20}) {
        for (const PageSize pages : {PageSize::normal, PageSize::huge}) {
            auto made = make_aligned_buffer(bytes, pages);
            ASSERT_TRUE(made);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(made->get()) %
                          (pages == PageSize::huge ? 2u << 20 : kIoAlignment),
                      0u);
            EXPECT_EQ((*made)[bytes - 1], std::byte{0});
            (*made)[bytes - 1] = std::byte{1};
        }
    }
    EXPECT_EQ(make_aligned_buffer(SIZE_MAX).error().code, ErrorCode::out_of_memory);
}

}  // namespace lockstep::threads::io_test
