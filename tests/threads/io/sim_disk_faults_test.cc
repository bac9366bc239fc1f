// labels: unit sim
// sim_disk_faults_test.cc - faults of the simulated disk come when and where they are asked for.
#include <cstring>

#include "tests/threads/io/sim_disk_test_util.h"

namespace lockstep::threads::sim_disk_faults_test {

TEST_F(SimDiskTest, ErrorsComeAtTheNumberAsked) {
    fill(0, 'a');
    SimFaults& faults = disk.faults();
    std::vector<char> memory(kPage);
    const auto run = [&](IoKind kind) {
        Batch batch;
        batch.add(kind, file, 0, memory.data(), kPage);
        batch.submit(*queue);
        drain();
        return batch.requests[0].result;
    };
    faults.fail_nth(SimFault::read_error, 2);
    EXPECT_EQ(run(IoKind::read), static_cast<int64_t>(kPage));
    EXPECT_EQ(run(IoKind::read), -EIO);
    EXPECT_EQ(run(IoKind::read), static_cast<int64_t>(kPage));
    faults.fail_nth(SimFault::read_error_forever, 1);
    EXPECT_EQ(run(IoKind::read), -EIO);
    EXPECT_EQ(run(IoKind::read), -EIO);
    EXPECT_EQ(disk.read_now(file, 0, memory.data(), 10).error().code, ErrorCode::io_error);
    // A new write heals the sector.
    EXPECT_EQ(run(IoKind::write), static_cast<int64_t>(kPage));
    EXPECT_EQ(run(IoKind::read), static_cast<int64_t>(kPage));
    faults.fail_nth(SimFault::write_error, 1);
    EXPECT_EQ(run(IoKind::write), -EIO);
    faults.fail_nth(SimFault::no_space_write, 1, 2);
    EXPECT_EQ(run(IoKind::write), -ENOSPC);
    EXPECT_EQ(run(IoKind::write), -ENOSPC);
    EXPECT_EQ(run(IoKind::write), static_cast<int64_t>(kPage));
    faults.fail_nth(SimFault::no_space_allocate, 1);
    EXPECT_EQ(disk.allocate(file, 100 * kPage).error().code, ErrorCode::no_space);
    EXPECT_EQ(*disk.size(file), kPage);
    EXPECT_TRUE(disk.allocate(file, 100 * kPage));
    faults.fail_nth(SimFault::sync_error, 1);
    EXPECT_EQ(run(IoKind::sync), -EIO);
    EXPECT_EQ(faults.count(SimFault::no_space_write), 2u);
    EXPECT_EQ(faults.count(SimFault::sync_error), 1u);
    EXPECT_STREQ(sim_fault_name(SimFault::slow), "slow");
}

// Each sector is the one before the write or the one behind it, and both kinds are met.
TEST_F(SimDiskTest, AReadBesideAWriteMayBeTorn) {
    fill(0, 'a');
    SimFaults& faults = disk.faults();
    faults.set_odds(SimFault::torn_read, 1);
    const std::vector<char> fresh(kPage, 'b');
    std::vector<char> seen(kPage);
    const auto read = [&] {
        EXPECT_EQ(disk.read_now(file, 0, seen.data(), kPage).value_or(0), size_t{kPage});
        return std::string(seen.begin(), seen.end());
    };
    EXPECT_EQ(read(), std::string(kPage, 'a'));
    EXPECT_EQ(faults.count(SimFault::torn_read), 0u) << "no write is in flight";
    Batch batch;
    batch.add(IoKind::write, file, 0, const_cast<char*>(fresh.data()), kPage);
    batch.submit(*queue);
    bool torn = false;
    for (int n = 0; n < 10; ++n) {
        const std::string bytes = read();
        for (size_t s = 0; s < kPage; s += 512)
            ASSERT_EQ(bytes.substr(s, 512), std::string(512, bytes[s]));
        torn |= bytes.find('a') != std::string::npos && bytes.find('b') != std::string::npos;
    }
    EXPECT_TRUE(torn);
    drain();
    EXPECT_EQ(read(), std::string(kPage, 'b'));
    EXPECT_EQ(faults.count(SimFault::torn_read), 10u);
}

// A crash may take the write away that stands over a lost one, until it is durable.
TEST_F(SimDiskTest, AWriteOverALostOneIsLostAgainUnlessDurable) {
    const std::vector<char> bytes(kPage, 'b');
    const auto write = [&] {
        Batch batch;
        batch.add(IoKind::write, file, 0, const_cast<char*>(bytes.data()), kPage);
        batch.submit(*queue);
        drain();
    };
    const auto is_lost = [](const SimDisk& of) { return !of.lost_bytes("d/f").empty(); };
    const auto lost_in_image = [&] { return is_lost(*disk.image(1, SimCrash::drop_unsynced)); };
    ASSERT_TRUE(disk.sync_directory("d"));
    disk.faults().fail_nth(SimFault::lost_write, 1);
    write();
    EXPECT_TRUE(is_lost(disk) && lost_in_image());
    write();
    EXPECT_FALSE(is_lost(disk));
    EXPECT_TRUE(lost_in_image());
    ASSERT_TRUE(disk.sync_now(file));
    EXPECT_FALSE(is_lost(disk) || lost_in_image());
}

TEST_F(SimDiskTest, FaultsCanBeLimitedToPathsAndSwitchedOff) {
    const FileId log = *disk.open("d/log", Disk::kCreate);
    SimFaults& faults = disk.faults();
    faults.set_odds(SimFault::write_error, 1);
    faults.only_paths_with(SimFault::write_error, "log");
    EXPECT_TRUE(disk.write_now(file, 0, "x", 1));
    EXPECT_FALSE(disk.write_now(log, 0, "x", 1));
    faults.enable(false);
    EXPECT_TRUE(disk.write_now(log, 0, "x", 1));
    EXPECT_EQ(faults.count(SimFault::write_error), 1u);
}

TEST_F(SimDiskTest, BitFlipsAreInTheReaderOnly) {
    fill(0, 'a');
    disk.faults().fail_nth(SimFault::bit_flip, 1);
    std::string data(kPage, '?');
    ASSERT_TRUE(disk.read_now(file, 0, data.data(), kPage));
    EXPECT_EQ(std::count(data.begin(), data.end(), 'a'), static_cast<long>(kPage) - 1);
    EXPECT_EQ(bytes_of(disk), std::string(kPage, 'a'));
}

TEST_F(SimDiskTest, MisdirectedWriteLandsElsewhere) {
    fill(0, 'a', 4 * kPage);
    disk.faults().fail_nth(SimFault::misdirected_write, 1);
    std::vector<char> data(kPage, 'b');
    Batch batch;
    batch.add(IoKind::write, file, kPage, data.data(), kPage);
    batch.submit(*queue);
    drain();
    EXPECT_EQ(batch.requests[0].result, static_cast<int64_t>(kPage));
    const std::string bytes = bytes_of(disk);
    EXPECT_EQ(bytes[kPage], 'a');
    EXPECT_EQ(static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 'b')), kPage);
}

// SF-3: after a failed sync a later one proves nothing about what the failed one covered.
TEST(SimDiskSync, FailedSyncLeavesDoubt) {
    int kept = 0, lost = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        SimDisk disk({.seed = seed});
        const FileId file = *disk.open("f", Disk::kCreate);
        ASSERT_TRUE(disk.sync_directory("."));
        ASSERT_TRUE(disk.allocate(file, kPage));
        ASSERT_TRUE(disk.sync_now(file));
        const std::vector<char> data(kPage, 'b');
        ASSERT_TRUE(disk.write_now(file, 0, data.data(), kPage));
        disk.faults().fail_nth(SimFault::sync_error, 1);
        ASSERT_FALSE(disk.sync_now(file));
        ASSERT_TRUE(disk.sync_now(file));  // the mistake
        (bytes_of(*disk.image(1, SimCrash::drop_unsynced), "f")[0] == 'b' ? kept : lost)++;
        ASSERT_TRUE(disk.write_now(file, 0, data.data(), kPage));
        ASSERT_TRUE(disk.sync_now(file));  // written and synced anew: sure again
        EXPECT_EQ(bytes_of(*disk.image(1, SimCrash::drop_unsynced), "f"), std::string(kPage, 'b'));
    }
    EXPECT_GT(kept, 5);
    EXPECT_GT(lost, 5);
}

TEST_F(SimDiskTest, CapacityBoundsAllFilesTogether) {
    const FileId other = *disk.open("d/other", Disk::kCreate);
    disk.set_capacity(10 * kPage);
    ASSERT_TRUE(disk.allocate(other, 8 * kPage));
    EXPECT_EQ(disk.allocate(file, 3 * kPage).error().code, ErrorCode::no_space);
    ASSERT_TRUE(disk.allocate(file, 2 * kPage));
    EXPECT_TRUE(disk.write_now(file, 0, "x", 1));  // inside what there is
    EXPECT_EQ(disk.write_now(file, 2 * kPage, "x", 1).error().code, ErrorCode::no_space);
    ASSERT_TRUE(disk.unlink("d/other"));
    EXPECT_TRUE(disk.write_now(file, 2 * kPage, "x", 1));
}

}  // namespace lockstep::threads::sim_disk_faults_test
