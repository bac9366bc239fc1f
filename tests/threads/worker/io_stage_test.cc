// labels: unit
// io_stage_test.cc - the I/O stage over all backends: order of classes, merging,
// joining, faults of parts, back-pressure, closing.
#include "threads/worker/io_stage.h"

#include <cstring>
#include <map>

#include "tests/threads/io/io_test_util.h"
#include "threads/runtime/runtime.h"
#include "threads/worker/io_wait.h"

namespace lockstep::threads::io_stage_test {

constexpr size_t kPage = 8192;
constexpr auto kLog = static_cast<size_t>(IoClass::log),
               kDemand = static_cast<size_t>(IoClass::demand_read),
               kAhead = static_cast<size_t>(IoClass::read_ahead),
               kBack = static_cast<size_t>(IoClass::write_back);

// Page-sized requests of one test, with memory of their own.
class Requests {
public:
    IoRequest& add(IoStage& stage, IoKind kind, IoClass io_class, FileId file, uint64_t page,
                   uint32_t pages = 1) {
        Item& item = items_.emplace_back();
        item.buffer = *make_aligned_buffer(pages * kPage);
        IoRequest& r = item.request;
        r.kind = kind;
        r.io_class = io_class;
        r.file = file;
        r.offset = page * kPage;
        if (kind != IoKind::sync) r.iov[r.iov_count++] = {item.buffer.get(), pages * kPage};
        if (kind == IoKind::write)
            std::memset(item.buffer.get(), static_cast<int>('a' + page % 26), pages * kPage);
        r.user = &finished;
        r.done = [](IoRequest* request) {
            static_cast<std::vector<IoRequest*>*>(request->user)->push_back(request);
        };
        stage.add(r);
        return r;
    }
    static std::byte byte_of(const IoRequest& r, size_t at = 0) {
        return static_cast<const std::byte*>(r.iov[0].iov_base)[at];
    }
    size_t size() const { return items_.size(); }
    IoRequest& operator[](size_t i) { return items_[i].request; }
    std::vector<IoRequest*> finished;  // in order

private:
    struct Item {
        IoRequest request;
        AlignedBuffer buffer;
    };
    std::deque<Item> items_;
};

std::byte letter(uint64_t page) { return std::byte{static_cast<uint8_t>('a' + page % 26)}; }

class IoStages : public ::testing::TestWithParam<RigKind> {
protected:
    void SetUp() override {
        if (GetParam() != RigKind::io_uring) return;
        auto probe = rig_.disk->make_queue(0, rig_.clock());
        if (!probe) GTEST_SKIP() << probe.error().text();
    }
    std::unique_ptr<IoStage> make_stage() {
        return std::make_unique<IoStage>(rig_.queue(), rig_.clock());
    }
    void drain(IoStage& stage) {
        while (!stage.idle()) {
            stage.submit();
            if (!rig_.simulated()) stage.wait(kNever);
            else if (stage.poll() == 0) rig_.sim->advance(rig_.manual);
        }
        EXPECT_EQ(stage.verify_idle(), "");
    }
    FileId filled_file(IoStage& stage, uint64_t pages) {
        const FileId file = rig_.open("data");
        Requests writes;
        for (uint64_t p = 0; p < pages; ++p)
            writes.add(stage, IoKind::write, IoClass::write_back, file, p);
        drain(stage);
        for (IoRequest* r : writes.finished) EXPECT_EQ(r->result, static_cast<int64_t>(kPage));
        EXPECT_EQ(writes.finished.size(), pages);
        return file;
    }
    static IoStats stats(const IoStage& stage) {
        IoStats s;
        stage.add_stats(s);
        return s;
    }
    Rig rig_{GetParam(), 1};
};

// Neighbours in a batch become one transfer in either direction, and every page holds its own
// bytes.
TEST_P(IoStages, NeighboursAreJoined) {
    auto stage = make_stage();
    const FileId file = filled_file(*stage, 40);
    const IoStats written = stats(*stage);
    EXPECT_EQ(written.classes[kBack].packets, 40u);
    EXPECT_EQ(written.classes[kBack].joined + written.classes[kBack].transfers, 40u);
    EXPECT_LE(written.classes[kBack].transfers, 3u);  // 32 pages are the longest transfer
    Requests reads;
    for (const uint64_t p : {9, 7, 30, 8, 31, 20})
        reads.add(*stage, IoKind::read, IoClass::read_ahead, file, p);
    drain(*stage);
    EXPECT_EQ(stats(*stage).classes[kAhead].transfers, 3u);  // 7-9, 20, 30-31
    for (size_t i = 0; i < reads.size(); ++i) {
        EXPECT_EQ(reads[i].result, static_cast<int64_t>(kPage));
        for (const size_t at : {size_t{0}, kPage - 1})
            EXPECT_EQ(Requests::byte_of(reads[i], at), letter(reads[i].offset / kPage));
    }
}

TEST_P(IoStages, EqualReadsAndSyncsAreMerged) {
    auto stage = make_stage();
    const FileId file = filled_file(*stage, 8);
    const FileId other = rig_.open("other");
    const IoStats before = stats(*stage);
    Requests reads;
    for (const uint64_t p : {3, 5, 3, 3, 5})
        reads.add(*stage, IoKind::read, IoClass::demand_read, file, p);
    for (int i = 0; i < 4; ++i)
        reads.add(*stage, IoKind::sync, IoClass::log, i < 2 ? other : file, 0);
    drain(*stage);
    const IoStats after = stats(*stage);
    EXPECT_EQ(after.classes[kDemand].merged - before.classes[kDemand].merged, 3u);
    EXPECT_EQ(after.classes[kDemand].transfers - before.classes[kDemand].transfers, 2u);
    EXPECT_EQ(after.classes[kLog].merged, 2u);
    EXPECT_EQ(after.classes[kLog].transfers, 2u);
    EXPECT_EQ(reads.finished.size(), 9u);
    for (size_t i = 0; i < 5; ++i)
        EXPECT_EQ(Requests::byte_of(reads[i], kPage - 1), letter(reads[i].offset / kPage));
}

// Reads that meet the end of the file: each member of the joined transfer learns what it got
// itself.
TEST_P(IoStages, JoinedReadsOverTheEndAreShortOneByOne) {
    auto stage = make_stage();
    const FileId file = filled_file(*stage, 3);
    Requests reads;
    for (uint64_t p = 0; p < 6; ++p) reads.add(*stage, IoKind::read, IoClass::read_ahead, file, p);
    // Merged into one beyond the end.
    reads.add(*stage, IoKind::read, IoClass::read_ahead, file, 5);
    drain(*stage);
    for (uint64_t p = 0; p < 7; ++p)
        EXPECT_EQ(reads[p].result, p < 3 ? static_cast<int64_t>(kPage) : 0) << p;
    EXPECT_EQ(stats(*stage).classes[kAhead].transfers, 1u);
}

// A durable write goes out as it came: joined with a neighbour it would make that one dear, too.
TEST_P(IoStages, DurableWritesStayAlone) {
    auto stage = make_stage();
    const FileId file = rig_.open("log");
    Requests all;
    for (uint64_t p = 0; p < 20; ++p) {
        all.add(*stage, IoKind::write, IoClass::write_back, file, p).durable = true;
        all.add(*stage, IoKind::write, IoClass::write_back, file, 100 + p);
    }
    drain(*stage);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].result, static_cast<int64_t>(kPage));
    EXPECT_EQ(stats(*stage).classes[static_cast<size_t>(IoClass::write_back)].transfers, 21u);
}

// Random requests of all kinds and classes against a model; conservation at the end (STG-1).
TEST_P(IoStages, BehavesLikeAFile) {
    const uint64_t seed = seed_of_run(7);
    Rng rng(seed);
    auto stage = make_stage();
    constexpr uint64_t kPages = 64;
    const FileId file = filled_file(*stage, kPages);
    std::map<uint64_t, std::byte> model;
    for (uint64_t p = 0; p < kPages; ++p) model[p] = letter(p);
    for (int round = 0; round < 60; ++round) {
        Requests reads, writes;
        // Writes and reads of a round do not meet.
        const uint64_t first_write = rng.below(kPages);
        for (uint64_t p = first_write; p < kPages && p < first_write + 20; ++p)
            if (rng.below(3) != 0) {
                IoRequest& r = writes.add(*stage, IoKind::write, IoClass::write_back, file, p);
                model[p] = Requests::byte_of(r);
            }
        for (uint64_t i = rng.below(30); i > 0 && first_write > 0; --i)
            reads.add(*stage, IoKind::read,
                      rng.below(2) ? IoClass::demand_read : IoClass::read_ahead, file,
                      rng.below(first_write));
        if (rng.below(4) == 0) reads.add(*stage, IoKind::sync, IoClass::log, file, 0);
        drain(*stage);
        for (size_t i = 0; i < reads.size(); ++i)
            if (reads[i].kind == IoKind::read) {
                ASSERT_EQ(Requests::byte_of(reads[i], kPage / 2), model[reads[i].offset / kPage]);
            }
    }
}

// More than the stage holds, brought from outside a user thread: the rest waits at the door and
// comes in, in order.
TEST_P(IoStages, WhoFindsTheStageFullComesInLater) {
    auto stage = make_stage();
    const FileId file = filled_file(*stage, 16);
    Requests reads;
    for (uint64_t i = 0; i < 2 * IoStage::kCapacity; ++i)
        reads.add(*stage, IoKind::read, IoClass::read_ahead, file, 15 - i % 16);
    IoRequest spare;
    spare.file = file;
    spare.iov[0] = {nullptr, 0};
    spare.iov_count = 1;
    EXPECT_FALSE(stage->try_add(spare));
    drain(*stage);
    EXPECT_EQ(reads.finished.size(), 2 * size_t{IoStage::kCapacity});
    for (size_t i = 0; i < reads.size(); ++i)
        ASSERT_EQ(Requests::byte_of(reads[i]), letter(15 - i % 16));
}

INSTANTIATE_TEST_SUITE_P(All, IoStages,
                         ::testing::Values(RigKind::io_uring, RigKind::pool, RigKind::memory,
                                           RigKind::sim_clock, RigKind::sim_polls),
                         [](const auto& info) { return rig_name(info.param); });

class SimStage : public ::testing::Test {
protected:
    void drain(IoStage& stage) {
        while (!stage.idle()) {
            stage.submit();
            if (stage.poll() == 0) rig_.sim->advance(rig_.manual);
        }
        EXPECT_EQ(stage.verify_idle(), "");
    }
    Rig rig_{RigKind::sim_clock, seed_of_run(3)};
    IoStage stage_{rig_.queue(), rig_.clock()};
    FileId file_ = rig_.open("data");
};

// IOS-1: one bad sector under a joined transfer fails its own page and no other.
TEST_F(SimStage, OnlyTheFaultyPartOfAJoinedTransferFails) {
    Requests writes;
    for (uint64_t p = 0; p < 12; ++p)
        writes.add(stage_, IoKind::write, IoClass::write_back, file_, p);
    drain(stage_);
    // Spoils the first sector of page 4.
    rig_.sim->faults().fail_nth(SimFault::read_error_forever, 1);
    Requests reads;
    for (uint64_t p = 4; p < 12; ++p)
        reads.add(stage_, IoKind::read, IoClass::read_ahead, file_, p);
    drain(stage_);
    for (size_t i = 0; i < reads.size(); ++i) {
        EXPECT_EQ(reads[i].result, i == 0 ? -EIO : static_cast<int64_t>(kPage)) << i;
        if (i > 0) {
            EXPECT_EQ(Requests::byte_of(reads[i]), letter(4 + i));
        }
    }
    // The joined write, and the first that comes after it.
    rig_.sim->faults().fail_nth(SimFault::write_error, 1, 2);
    Requests again;
    for (uint64_t p = 0; p < 8; ++p)
        again.add(stage_, IoKind::write, IoClass::write_back, file_, p);
    drain(stage_);
    EXPECT_EQ(
        std::ranges::count_if(again.finished, [](const IoRequest* r) { return r->result == -EIO; }),
        1);
    EXPECT_EQ(again.finished.size(), 8u);
    IoStats s;
    stage_.add_stats(s);
    EXPECT_EQ(s.split, 2u);
}

TEST_F(SimStage, ShortTransfersOfJoinedRequestsGoOn) {
    rig_.sim->faults().set_odds(SimFault::short_transfer, 0.5);
    rig_.sim->faults().set_odds(SimFault::again, 0.2);
    for (int round = 0; round < 20; ++round) {
        Requests writes, reads;
        for (uint64_t p = 0; p < 30; ++p)
            writes.add(stage_, IoKind::write, IoClass::write_back, file_, p);
        drain(stage_);
        for (uint64_t p = 0; p < 30; ++p)
            reads.add(stage_, IoKind::read, IoClass::read_ahead, file_, p);
        drain(stage_);
        for (uint64_t p = 0; p < 30; ++p)
            for (size_t at = 0; at < kPage; at += 512)
                ASSERT_EQ(Requests::byte_of(reads[p], at), letter(p));
    }
    EXPECT_GT(rig_.sim->faults().count(SimFault::short_transfer), 20u);
}

// IOS-2: while the device is never short of demand reads, write-back and read-ahead still get
// there, within the bound.
TEST_F(SimStage, NoClassStarves) {
    Requests fill;
    for (uint64_t p = 0; p < 64; ++p)
        fill.add(stage_, IoKind::write, IoClass::write_back, file_, p);
    drain(stage_);
    Rng rng(5);
    Requests all;
    uint64_t worst = 0, served = 0;
    struct Waiting {
        IoRequest* request;
        uint64_t since;
    };
    std::vector<Waiting> waiting;
    uint64_t demand_done = 0;
    for (uint64_t round = 0; served < 40 && round < 20'000; ++round) {
        // More than the device takes, all the time.
        while (stage_.queued() < 300) {
            IoRequest& r =
                all.add(stage_, IoKind::read, IoClass::demand_read, file_, rng.below(32));
            r.user = &demand_done;
            r.done = [](IoRequest* request) { ++*static_cast<uint64_t*>(request->user); };
        }
        if (round % 10 == 0) {
            const bool ahead = round % 20 == 0;
            IoRequest& r =
                ahead ? all.add(stage_, IoKind::read, IoClass::read_ahead, file_, 32 + rng.below(8))
                      : all.add(stage_, IoKind::write, IoClass::write_back, file_, 100 + round);
            waiting.push_back({&r, demand_done});
        }
        stage_.submit();
        if (stage_.poll() == 0) rig_.sim->advance(rig_.manual);
        std::erase_if(waiting, [&](const Waiting& w) {
            if (!w.request->complete) return false;
            worst = std::max(worst, demand_done - w.since);
            ++served;
            return true;
        });
    }
    EXPECT_GE(served, 40u);
    // Those on the device when it came, the passes, and those that were on the device together with
    // it.
    EXPECT_LE(worst, 2 * IoStage::kDemandMax + IoStage::kPassedMax + kIoClasses);
    drain(stage_);
}

// While anybody waits for a read or the log, write-back has little on the device.
TEST_F(SimStage, WriteBackStepsAside) {
    Requests all;
    for (uint64_t p = 0; p < 400; p += 2)
        all.add(stage_, IoKind::write, IoClass::write_back, file_, p);
    for (int i = 0; i < 8; ++i)
        all.add(stage_, IoKind::read, IoClass::demand_read, file_,
                1000 + 2 * static_cast<uint64_t>(i));
    stage_.submit();
    IoStats s;
    stage_.add_stats(s);
    EXPECT_EQ(s.classes[kDemand].transfers, 8u);
    // The first left before there was a read.
    EXPECT_LE(s.classes[kBack].transfers, IoStage::kWriteBackMax);
    const uint64_t before = s.classes[kBack].transfers;
    Requests more;
    for (uint64_t p = 2000; p < 2100; p += 2)
        more.add(stage_, IoKind::write, IoClass::write_back, file_, p);
    stage_.submit();
    s = {};
    stage_.add_stats(s);
    // What is there exceeds the bound of a busy device.
    EXPECT_EQ(s.classes[kBack].transfers, before);
    drain(stage_);
}

TEST(IoStageRuntime, AFullStageSuspendsItsProducerOnly) {
    ManualClock clock;
    SimDisk disk({.seed = 1});
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock, .disk = &disk});
    const FileId file = *disk.open("data", Disk::kCreate);
    const size_t count = IoStage::kCapacity + 200;
    std::vector<IoRequest> requests(count);
    std::vector<AlignedBuffer> buffers(count);
    for (auto& buffer : buffers) buffer = *make_aligned_buffer(4096);
    size_t started = 0;
    uint64_t others = 0;
    bool finished = false;
    ASSERT_TRUE(runtime->spawn(0, "producer", [&] {
        for (; started < count; ++started) {
            IoRequest& r = requests[started];
            r.kind = IoKind::write;
            r.io_class = IoClass::write_back;
            r.file = file;
            r.offset = 8192 * started;
            r.iov[0] = {buffers[started].get(), 4096};
            r.iov_count = 1;
            io_start(r);
        }
        for (IoRequest& r : requests) {
            io_wait(r, ParkReason::io);
            EXPECT_EQ(r.result, 4096);
        }
        finished = true;
    }));
    ASSERT_TRUE(runtime->spawn(0, "other", [&] {
        for (; started < count; ++others) yield();
    }));
    for (int i = 0; i < 1000; ++i) runtime->step();  // time stands still: nothing completes
    EXPECT_EQ(started, size_t{IoStage::kCapacity});
    EXPECT_GT(others, 100u);
    while (!finished) {
        for (int i = 0; i < 10 && runtime->step(); ++i) {}
        disk.advance(clock);
    }
    EXPECT_GT(runtime->io_stats().stage.suspended, 0u);
    EXPECT_TRUE(runtime->io_stats().stage.conserved());
    runtime->stop();
}

// Reads fill the stage, and more of them wait for a place. The log goes to the device all the same.
TEST(IoStageRuntime, TheLogDoesNotWaitForAPlaceBehindReads) {
    ManualClock clock;
    SimDisk disk({.seed = 1});
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock, .disk = &disk});
    const FileId file = *disk.open("data", Disk::kCreate);
    const auto buffer = *make_aligned_buffer(kPage);
    std::vector<IoRequest> requests(IoStage::kCapacity + 200);
    std::vector<AlignedBuffer> buffers(requests.size());
    for (auto& own : buffers) own = *make_aligned_buffer(4096);
    size_t started = 0;
    bool committed = false;
    ASSERT_TRUE(runtime->spawn(0, "reader", [&] {
        for (; started < requests.size(); ++started) {
            IoRequest& r = requests[started];
            r.file = file;
            r.offset = 8192 * started;
            r.iov[0] = {buffers[started].get(), 4096};
            r.iov_count = 1;
            io_start(r);
        }
        for (IoRequest& r : requests) io_wait(r, ParkReason::page_read);
    }));
    for (int i = 0; i < 1000; ++i) runtime->step();  // time stands still: nothing completes
    ASSERT_EQ(started, size_t{IoStage::kCapacity});
    ASSERT_TRUE(runtime->spawn(0, "log", [&] {
        EXPECT_TRUE(io_write(file, 0, buffer.get(), kPage, IoClass::log, "log"));
        committed = true;
    }));
    for (int i = 0; i < 1000; ++i) runtime->step();
    EXPECT_EQ(runtime->io_stats().classes[kLog].transfers, 1u);
    while (!committed || !runtime->io_stats().stage.conserved() ||
           runtime->io_stats().stage.finished < requests.size() + 1) {
        for (int i = 0; i < 10 && runtime->step(); ++i) {}
        disk.advance(clock);
    }
    runtime->stop();
}

// The runtime ends while requests that nobody waits for are queued and on the device: all complete
// first.
TEST(IoStageRuntime, StoppingFinishesWhatWasStarted) {
    for (const IoBackend backend : {IoBackend::automatic, IoBackend::pool}) {
        Rig rig(RigKind::pool);
        auto disk = make_disk(backend);
        const FileId file = *disk->open(rig.path("data"), Disk::kCreate);
        std::vector<IoRequest> requests(900);
        std::vector<AlignedBuffer> buffers(requests.size());
        for (auto& buffer : buffers) buffer = *make_aligned_buffer(kPage);
        auto runtime = *Runtime::start({.workers = 2, .disk = disk.get()});
        for (uint32_t w = 0; w < 2; ++w)
            ASSERT_TRUE(runtime->spawn(w, "producer", [&, w] {
                for (size_t i = w; i < requests.size(); i += 2) {
                    IoRequest& r = requests[i];
                    r.kind = IoKind::write;
                    r.io_class = IoClass::write_back;
                    r.file = file;
                    r.offset = kPage * i;
                    r.iov[0] = {buffers[i].get(), kPage};
                    r.iov_count = 1;
                    io_start(r);
                }
            }));
        runtime->stop();
        for (const IoRequest& r : requests) ASSERT_EQ(r.result, static_cast<int64_t>(kPage));
        EXPECT_EQ(*disk->size(file), kPage * requests.size());
        disk->close(file);
    }
}

// Equal seeds, equal calls: equal events on the disk, whatever the stage sorts and joins.
TEST(IoStageRuntime, EqualSeedsGiveEqualEvents) {
    const auto digest = [](uint64_t seed) {
        Rig rig(RigKind::sim_clock, seed);
        IoStage stage(rig.queue(), rig.clock());
        const FileId file = rig.open("data");
        Rng rng(seed);
        for (int round = 0; round < 30; ++round) {
            Requests some;
            for (int i = 0; i < 25; ++i)
                some.add(stage, IoKind::write, IoClass::write_back, file,
                         100 * static_cast<uint64_t>(i) + rng.below(3));
            while (!stage.idle()) {
                stage.submit();
                if (stage.poll() == 0) rig.sim->advance(rig.manual);
            }
        }
        return rig.sim->event_digest();
    };
    EXPECT_EQ(digest(11), digest(11));
    EXPECT_NE(digest(11), digest(12));
}

}  // namespace lockstep::threads::io_stage_test
