// io_test_util.h - a test rig for each I/O backend: disk, clock, directory, and passing time.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/sim_disk.h"
#include "threads/io/uring_queue.h"

namespace lockstep::threads {

enum class RigKind { io_uring, pool, memory, sim_clock, sim_polls };
inline const char* rig_name(RigKind kind) {
    switch (kind) {
        case RigKind::io_uring: return "io_uring";
        case RigKind::pool: return "pool";
        case RigKind::memory: return "memory";
        case RigKind::sim_clock: return "sim_clock";
        case RigKind::sim_polls: return "sim_polls";
    }
    return "";
}

// The disks of the machine: without the ring where it is refused.
inline std::vector<RigKind> real_kinds() {
    if (!probe_uring()) return {RigKind::pool};
    return {RigKind::io_uring, RigKind::pool};
}

class Rig {
public:
    explicit Rig(RigKind kind, uint64_t seed = 1) : kind_(kind) {
        if (simulated()) {
            sim = new SimDisk({.seed = seed, .polls_max = kind == RigKind::sim_polls ? 5u : 0u});
            disk.reset(sim);
            dir = "sim";
            EXPECT_TRUE(disk->make_directory(dir));
        } else if (kind == RigKind::memory) {
            disk = make_memory_disk(IoBackend::pool);
            dir = kMemoryPath;
        } else {
            disk = make_disk(kind == RigKind::io_uring ? IoBackend::io_uring : IoBackend::pool);
            char name[] = "/tmp/lockstep-io-XXXXXX";
            dir = mkdtemp(name);
        }
    }
    ~Rig() {
        if (!simulated() && kind_ != RigKind::memory) std::filesystem::remove_all(dir);
    }
    bool simulated() const { return kind_ == RigKind::sim_clock || kind_ == RigKind::sim_polls; }
    const Clock& clock() const {
        return simulated() ? static_cast<const Clock&>(manual) : monotonic;
    }
    std::string path(const char* name) const { return dir + "/" + name; }
    FileId open(const char* name, uint32_t flags = Disk::kCreate) {
        auto file = disk->open(path(name), flags);
        EXPECT_TRUE(file) << file.error().text();
        return file.value_or(FileId{});
    }
    std::unique_ptr<IoQueue> queue() {
        auto made = disk->make_queue(0, clock());
        EXPECT_TRUE(made) << made.error().text();
        return made ? std::move(*made) : nullptr;
    }
    // Waits until no request is in flight.
    void drain(IoQueue& q) {
        while (q.in_flight() > 0) {
            if (!simulated()) q.wait(kNever);
            else if (q.poll() == 0) sim->advance(manual);
        }
    }

    ManualClock manual;
    MonotonicClock monotonic;
    SimDisk* sim = nullptr;
    std::unique_ptr<Disk> disk;
    std::string dir;

private:
    RigKind kind_;
};

// Requests that are submitted as one batch.
class Batch {
public:
    IoRequest& add(IoKind kind, FileId file, uint64_t offset = 0, void* data = nullptr,
                   size_t bytes = 0) {
        IoRequest& r = requests.emplace_back();
        r.kind = kind;
        r.file = file;
        r.offset = offset;
        r.iov[0] = {data, bytes};
        r.iov_count = kind == IoKind::sync ? 0 : 1;
        r.user = &completed;
        r.done = [](IoRequest* request) {
            EXPECT_TRUE(request->complete);
            static_cast<std::vector<IoRequest*>*>(request->user)->push_back(request);
        };
        return r;
    }
    void submit(IoQueue& queue) {
        for (size_t i = 0; i < requests.size(); ++i)
            requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
        queue.submit(&requests.front(), requests.size());
    }
    std::deque<IoRequest> requests;     // stable addresses
    std::vector<IoRequest*> completed;  // in order
};

}  // namespace lockstep::threads
