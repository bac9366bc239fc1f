// labels: unit sim
// sim_disk_test.cc - what the simulated disk promises to the tests that stand on it: crash images,
// syncs, names, seeds.
#include <cstring>
#include <set>

#include "tests/threads/io/sim_disk_test_util.h"

namespace lockstep::threads::sim_disk_test {

TEST_F(SimDiskTest, OnlySyncedBytesAreSure) {
    fill(0, 'a');
    ASSERT_TRUE(disk.sync_now(file));
    fill(0, 'b');
    fill(kPage, 'c');
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), std::string(kPage, 'a'));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)),
              std::string(kPage, 'b') + std::string(kPage, 'c'));
    ASSERT_TRUE(disk.sync_now(file));
    for (const SimCrash mode : kSimCrashes) {
        EXPECT_EQ(bytes_of(*disk.image(9, mode)),
                  std::string(kPage, 'b') + std::string(kPage, 'c'));
    }
}

TEST_F(SimDiskTest, CrashPicksAnyVersionOfEachSectorAndTearsPages) {
    fill(0, 'a');
    ASSERT_TRUE(disk.sync_now(file));
    fill(0, 'b');
    fill(0, 'c');
    std::set<std::string> outcomes;
    std::set<char> first_sectors;
    bool torn = false;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const std::string bytes = bytes_of(*disk.image(seed, SimCrash::random_sectors));
        ASSERT_EQ(bytes.size(), kPage);
        for (size_t s = 0; s < kPage; s += 512) {
            ASSERT_EQ(bytes.substr(s, 512), std::string(512, bytes[s])) << "a sector is never torn";
            ASSERT_TRUE(bytes[s] >= 'a' && bytes[s] <= 'c');
        }
        first_sectors.insert(bytes[0]);
        torn |= bytes[0] != bytes[512];
        outcomes.insert(bytes);
    }
    EXPECT_EQ(first_sectors, (std::set<char>{'a', 'b', 'c'}));
    EXPECT_TRUE(torn);
    EXPECT_GT(outcomes.size(), 150u);
}

TEST_F(SimDiskTest, OrderedPrefixNeverSkips) {
    for (int i = 0; i < 4; ++i) fill(static_cast<uint64_t>(i) * kPage, 'a' + i);
    std::set<size_t> lengths;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const std::string bytes = bytes_of(*disk.image(seed, SimCrash::ordered_prefix));
        for (size_t i = 0; i < bytes.size(); ++i)
            ASSERT_EQ(bytes[i], static_cast<char>('a' + i / kPage));
        lengths.insert(bytes.size());
    }
    EXPECT_GT(lengths.size(), 10u);
}

TEST_F(SimDiskTest, TornRequestsAreKeptLostOrCut) {
    fill(0, 'a');
    ASSERT_TRUE(disk.sync_now(file));
    fill(0, 'b');
    int kept = 0, lost = 0, cut = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const std::string bytes = bytes_of(*disk.image(seed, SimCrash::torn_requests));
        const size_t changes = static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 'b'));
        (changes == kPage ? kept : changes == 0 ? lost : cut)++;
        EXPECT_EQ(changes % 512, 0u);
    }
    EXPECT_GT(kept, 20);
    EXPECT_GT(lost, 20);
    EXPECT_GT(cut, 20);
}

// SF-2: a write that completes while a sync is active is not covered by it.
TEST_F(SimDiskTest, SyncCoversWhatCompletedBeforeItBegan) {
    fill(0, 'a');
    Batch sync;
    sync.add(IoKind::sync, file);
    sync.submit(*queue);
    fill(0, 'b');
    drain();
    ASSERT_EQ(sync.requests[0].result, 0);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), std::string(kPage, 'a'));
    ASSERT_TRUE(disk.sync_now(file));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), std::string(kPage, 'b'));
}

TEST_F(SimDiskTest, WriteInFlightMayOrMayNotBeThere) {
    fill(0, 'a');
    ASSERT_TRUE(disk.sync_now(file));
    std::vector<char> data(kPage, 'b');
    Batch batch;
    batch.add(IoKind::write, file, 0, data.data(), kPage);
    batch.submit(*queue);
    EXPECT_EQ(bytes_of(disk), std::string(kPage, 'a'));  // not seen yet
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), std::string(kPage, 'a'));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)), std::string(kPage, 'b'));
    const std::string random = bytes_of(*disk.image(1, SimCrash::random_sectors));
    EXPECT_NE(random.find('a'), std::string::npos);
    EXPECT_NE(random.find('b'), std::string::npos);
    drain();
    EXPECT_EQ(bytes_of(disk), std::string(kPage, 'b'));
}

// A killed process leaves all writes in flight, in whatever order they began.
TEST_F(SimDiskTest, AllWritesInFlightAreKeptAtTheEndOfAFile) {
    std::vector<char> data(kPage, 'b');
    Batch batch;
    batch.add(IoKind::write, file, kPage, data.data(), kPage);
    batch.add(IoKind::write, file, 0, data.data(), kPage);
    batch.submit(*queue);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)), std::string(2 * kPage, 'b'));
    drain();
}

// A durable write is sure when it completes, whatever lies unsynced around and beneath it, and
// makes nothing else so.
TEST_F(SimDiskTest, DurableWriteIsSureAndAlone) {
    fill(0, 'a', 3 * kPage);
    ASSERT_TRUE(disk.sync_now(file));
    fill(0, 'b', 3 * kPage);
    std::vector<char> data(kPage, 'c');
    Batch batch;
    batch.add(IoKind::write, file, kPage, data.data(), kPage).durable = true;
    batch.submit(*queue);
    drain();
    ASSERT_EQ(batch.requests[0].result, static_cast<int64_t>(kPage));
    const std::string a(kPage, 'a'), b(kPage, 'b'), c(kPage, 'c');
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), a + c + a);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)), b + c + b);
    for (const SimCrash mode : kSimCrashes)
        for (uint64_t seed = 1; seed <= 20; ++seed)
            EXPECT_EQ(bytes_of(*disk.image(seed, mode)).substr(kPage, kPage), c);
    disk.faults().fail_nth(SimFault::sync_error, 1);
    Batch failed;
    failed.add(IoKind::write, file, 0, data.data(), kPage).durable = true;
    failed.submit(*queue);
    drain();
    EXPECT_EQ(failed.requests[0].result, -EIO);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), a + c + a);
}

// On a disk that ignores durable writes, a sync follows: nothing is sure before it, all that was
// complete before it is sure after it, and its failure is the write's.
TEST(SimDiskSyncsAfterWrite, DurableWriteEndsWithTheSync) {
    SimDisk disk({.seed = 5, .syncs_after_write = true});
    EXPECT_TRUE(disk.syncs_after_write());
    ManualClock clock;
    const auto queue = std::move(*disk.make_queue(0, clock));
    ASSERT_TRUE(disk.make_directory("d"));
    const FileId file = *disk.open("d/f", Disk::kCreate);
    ASSERT_TRUE(disk.sync_directory("d"));
    ASSERT_TRUE(disk.allocate(file, 2 * kPage));
    const std::vector<char> data(kPage, 'c');
    ASSERT_TRUE(disk.write_now(file, 0, std::string(kPage, 'b').data(), kPage));
    const std::string zeros(kPage, '\0'), b(kPage, 'b'), c(kPage, 'c');
    const auto write = [&](uint64_t offset) {
        Batch batch;
        batch.add(IoKind::write, file, offset, const_cast<char*>(data.data()), kPage).durable =
            true;
        batch.submit(*queue);
        EXPECT_TRUE(disk.advance(clock));
        EXPECT_EQ(queue->poll(), 0u);  // written; the sync is in flight
        EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)).substr(offset, kPage), c);
        const std::string sure = bytes_of(*disk.image(1, SimCrash::drop_unsynced));
        EXPECT_TRUE(sure.size() <= offset || sure.substr(offset, kPage) != c);
        while (queue->in_flight() > 0) {
            if (queue->poll() == 0) disk.advance(clock);
        }
        return batch.requests[0].result;
    };
    disk.faults().fail_nth(SimFault::sync_error, 1);
    EXPECT_EQ(write(kPage), -EIO);
    EXPECT_EQ(disk.faults().count(SimFault::sync_error), 1u);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)), b + c);
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), "");
    EXPECT_EQ(write(0), static_cast<int64_t>(kPage));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)).substr(0, kPage), c);
}

TEST_F(SimDiskTest, LengthIsDurableAfterSyncOnly) {
    ASSERT_TRUE(disk.allocate(file, 10 * kPage));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)).size(), 0u);
    ASSERT_TRUE(disk.sync_now(file));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), std::string(10 * kPage, '\0'));
    fill(0, 'x', 10 * kPage);
    ASSERT_TRUE(disk.sync_now(file));
    ASSERT_TRUE(disk.truncate(file, 100));
    std::set<size_t> lengths;
    for (uint64_t seed = 0; seed < 50; ++seed)
        lengths.insert(bytes_of(*disk.image(seed, SimCrash::random_sectors)).size());
    EXPECT_EQ(lengths, (std::set<size_t>{100, 10 * kPage}));
    ASSERT_TRUE(disk.truncate(file, kPage));
    // Cut bytes do not come back.
    EXPECT_EQ(bytes_of(disk), std::string(100, 'x') + std::string(kPage - 100, '\0'));
}

TEST_F(SimDiskTest, NamesAreDurableAfterSyncOfTheirDirectory) {
    disk.close(*disk.open("d/new", Disk::kCreate));
    EXPECT_FALSE(disk.image(1, SimCrash::drop_unsynced)->exists("d/new"));
    EXPECT_TRUE(disk.image(1, SimCrash::keep_all)->exists("d/new"));
    ASSERT_TRUE(disk.sync_directory("d/"));
    EXPECT_TRUE(disk.image(1, SimCrash::drop_unsynced)->exists("d/new"));
    fill(0, 'a');
    ASSERT_TRUE(disk.sync_now(file));
    ASSERT_TRUE(disk.rename("d/f", "d/new"));
    ASSERT_TRUE(disk.unlink("d/new"));
    std::set<std::vector<std::string>> outcomes;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const auto image = disk.image(seed, SimCrash::random_sectors);
        outcomes.insert(*image->list("d"));
    }
    // Before both, after the rename, after the unlink; a rename never leaves neither name.
    const std::vector<std::string> before{"f", "new"}, renamed{"new"}, none{};
    EXPECT_EQ(outcomes, (std::set<std::vector<std::string>>{before, renamed, none}));
    ASSERT_TRUE(disk.sync_directory("d"));
    EXPECT_FALSE(disk.image(1, SimCrash::random_sectors)->exists("d/new"));
    EXPECT_EQ(disk.rename("d/none", "e/none").error().code, ErrorCode::bad_path);
}

TEST_F(SimDiskTest, RenameWithoutSyncOfTheFileLeavesAnEmptyFile) {
    const FileId fresh = *disk.open("d/fresh", Disk::kCreate);
    ASSERT_TRUE(disk.write_now(fresh, 0, "hello", 5));
    ASSERT_TRUE(disk.rename("d/fresh", "d/f"));
    ASSERT_TRUE(disk.sync_directory("d"));
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced)), "");
    EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::keep_all)), "hello");
}

TEST_F(SimDiskTest, ImagesAreIndependentAndRepeatable) {
    fill(0, 'a', 40 * kPage);
    ASSERT_TRUE(disk.sync_now(file));
    fill(0, 'b', 40 * kPage);
    const uint64_t before = disk.digest();
    const auto one = disk.image(7, SimCrash::random_sectors),
               two = disk.image(7, SimCrash::random_sectors);
    EXPECT_EQ(one->digest(), two->digest());
    EXPECT_NE(one->digest(), disk.image(8, SimCrash::random_sectors)->digest());
    const FileId in_one = *one->open("d/f", 0);
    ASSERT_TRUE(one->write_now(in_one, 0, "changed", 7));
    EXPECT_NE(one->digest(), two->digest());
    EXPECT_EQ(disk.digest(), before);  // the original goes on untouched
    const uint64_t image_before = two->digest();
    fill(0, 'z');
    EXPECT_EQ(two->digest(), image_before);
    // A crash during recovery: an image of an image.
    const auto third = one->image(1, SimCrash::drop_unsynced);
    EXPECT_EQ(third->digest(), two->digest());
}

TEST_F(SimDiskTest, HolesAndZerosCostNothing) {
    ASSERT_TRUE(disk.truncate(file, 1ull << 40));
    fill(1ull << 39, 0, 64 * 4096);
    EXPECT_EQ(disk.pages_in_memory(), 0u);
    fill(1ull << 39, 1, 4096);
    EXPECT_EQ(disk.pages_in_memory(), 1u);
    fill(1ull << 39, 0, 4096);
    EXPECT_EQ(disk.pages_in_memory(), 0u);
    ASSERT_TRUE(disk.sync_now(file));
    const auto image = disk.image(1, SimCrash::drop_unsynced);
    EXPECT_EQ(*image->size(*image->open("d/f", 0)), 1ull << 40);
    EXPECT_EQ(image->pages_in_memory(), 0u);
}

// Equal seeds give equal runs; another seed gives another order of completion.
uint64_t seeded_run(uint64_t seed, std::vector<uint64_t>* order = nullptr) {
    SimDisk disk({.seed = seed});
    ManualClock clock;
    const FileId file = *disk.open("f", Disk::kCreate);
    auto queue = std::move(*disk.make_queue(0, clock));
    disk.faults().set_odds(SimFault::short_transfer, 0.2);
    disk.faults().set_odds(SimFault::again, 0.1);
    disk.faults().set_odds(SimFault::slow, 0.05);
    std::vector<char> memory(100 * kPage, 'm');
    Batch batch;
    for (size_t i = 0; i < 100; ++i)
        batch.add(IoKind::write, file, i * kPage, memory.data() + i * kPage, kPage);
    batch.submit(*queue);
    while (queue->in_flight() > 0) {
        if (queue->poll() == 0) disk.advance(clock);
    }
    for (const IoRequest* r : batch.completed) {
        EXPECT_EQ(r->result, static_cast<int64_t>(kPage));
        if (order) order->push_back(r->offset / kPage);
    }
    EXPECT_EQ(bytes_of(disk, "f"), std::string(100 * kPage, 'm'));
    EXPECT_GT(disk.faults().count(SimFault::short_transfer), 0u);
    EXPECT_GT(disk.faults().count(SimFault::again), 0u);
    return disk.event_digest();
}

TEST(SimDiskSeeds, OneSeedIsOneRun) {
    const uint64_t seed = seed_of_run(77);
    std::vector<uint64_t> order, again, other;
    EXPECT_EQ(seeded_run(seed, &order), seeded_run(seed, &again));
    EXPECT_EQ(order, again);
    EXPECT_NE(seeded_run(seed + 1, &other), seeded_run(seed));
    EXPECT_NE(order, other);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

// A log of one-page records, each acknowledged after its durable write. At every event, in every
// crash: acknowledged records are there.
TEST_F(SimDiskTest, AcknowledgedRecordsSurviveACrashAtEveryEvent) {
    uint64_t acknowledged = 0, images = 0;
    disk.observe([&](const SimEvent& event) {
        for (const SimCrash mode : kSimCrashes) {
            const std::string bytes = bytes_of(*disk.image(event.number, mode));
            for (uint64_t i = 0; i < acknowledged; ++i) {
                ASSERT_EQ(bytes.substr(i * kPage, kPage),
                          std::string(kPage, static_cast<char>('a' + i)))
                    << "event " << event.number;
            }
            ++images;
        }
    });
    disk.faults().set_odds(SimFault::short_transfer, 0.3);
    for (uint64_t i = 0; i < 20; ++i) {
        std::vector<char> record(kPage, static_cast<char>('a' + i));
        Batch batch;
        batch.add(IoKind::write, file, i * kPage, record.data(), kPage).durable = true;
        batch.submit(*queue);
        drain();
        ASSERT_EQ(batch.requests[0].result, static_cast<int64_t>(kPage));
        ++acknowledged;
    }
    EXPECT_GE(images, 20u * 2 * std::size(kSimCrashes));
}

TEST_F(SimDiskTest, AbandonedQueueTouchesNothingMore) {
    {
        std::vector<char> gone(kPage, 'b');
        Batch batch;
        batch.add(IoKind::write, file, 0, gone.data(), kPage);
        batch.add(IoKind::read, file, kPage, gone.data(), kPage);
        batch.submit(*queue);
        queue.reset();
    }
    EXPECT_EQ(disk.next_event_time(), kNever);
    EXPECT_FALSE(disk.advance(clock));
    EXPECT_EQ(bytes_of(disk), "");
    ASSERT_TRUE(disk.lock_exclusive(file));
    disk.close_all();
    EXPECT_TRUE(disk.lock_exclusive(*disk.open("d/f", 0)));
    queue = std::move(*disk.make_queue(0, clock));  // and the disk serves the next owner
}

using SimDiskDeath = SimDiskTest;

TEST_F(SimDiskDeath, ChangingABufferInFlightIsFound) {  // SD-1
    std::vector<char> data(kPage, 'a');
    Batch batch;
    batch.add(IoKind::write, file, 0, data.data(), kPage);
    EXPECT_DEATH(
        {
            batch.submit(*queue);
            data[100] = 'x';
            drain();
        },
        "memory_unchanged");
}

TEST_F(SimDiskDeath, OverlappingWritesAreFound) {  // SF-1
    std::vector<char> data(2 * kPage, 'a');
    Batch batch;
    batch.add(IoKind::write, file, 0, data.data(), kPage);
    batch.add(IoKind::write, file, kPage - 1, data.data() + kPage, kPage);
    EXPECT_DEATH(batch.submit(*queue), "writes_in_flight_overlap");
}

}  // namespace lockstep::threads::sim_disk_test
