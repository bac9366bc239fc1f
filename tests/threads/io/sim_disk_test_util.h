// sim_disk_test_util.h - a simulated disk with one file, and its bytes.
#pragma once

#include <string>
#include <vector>

#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads {

inline constexpr size_t kPage = 8192;

class SimDiskTest : public testing::Test {
protected:
    SimDisk disk{{.seed = 5}};
    ManualClock clock;
    std::unique_ptr<IoQueue> queue = std::move(*disk.make_queue(0, clock));
    FileId file = *disk.open("d/f", Disk::kCreate);

    void SetUp() override {
        ASSERT_TRUE(disk.make_directory("d"));
        ASSERT_TRUE(disk.sync_directory("d"));
    }
    void drain() {
        while (queue->in_flight() > 0) {
            if (queue->poll() == 0) disk.advance(clock);
        }
    }
    void fill(uint64_t offset, int value, size_t bytes = kPage) {
        const std::vector<char> data(bytes, static_cast<char>(value));
        ASSERT_TRUE(disk.write_now(file, offset, data.data(), bytes));
    }
};

// The file's bytes in a disk, whole.
inline std::string bytes_of(SimDisk& disk, const char* path = "d/f") {
    const auto file = disk.open(path, 0);
    if (!file) return "absent";
    std::string data(*disk.size(*file), '?');
    EXPECT_EQ(*disk.read_now(*file, 0, data.data(), data.size()), data.size());
    disk.close(*file);
    return data;
}

}  // namespace lockstep::threads
