// fd_ways.h - a test of descriptors, once for each way in which a worker can wait for them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "threads/io/io.h"
#include "threads/io/uring_queue.h"
#include "threads/runtime/runtime.h"

namespace lockstep {

// The worker sleeps in its ring, in the pool's queue, or in a futex. Only the first has a poll.
enum class Way { io_uring, pool, no_disk };

class FdWays : public testing::TestWithParam<Way> {
protected:
    void SetUp() override {
        if (GetParam() == Way::io_uring && !threads::probe_uring())
            GTEST_SKIP() << "this system has no io_uring";
        if (GetParam() != Way::no_disk)
            disk_ = threads::make_disk(GetParam() == Way::pool ? threads::IoBackend::pool
                                                               : threads::IoBackend::io_uring);
        start();
    }
    // Workers of their own for what follows, without the threads of before.
    void start(uint32_t workers = 2) {
        runtime_.reset();
        runtime_ = *threads::Runtime::start({.workers = workers, .disk = disk_.get()});
    }
    void spawn(uint32_t worker, threads::ThreadFn fn) {
        ASSERT_TRUE(runtime_->spawn(worker, "waiter", std::move(fn)));
    }

    std::unique_ptr<threads::Disk> disk_;
    std::unique_ptr<threads::Runtime> runtime_;
};

inline const auto kFdWays = testing::Values(Way::io_uring, Way::pool, Way::no_disk);
inline std::string name_of(const testing::TestParamInfo<Way>& info) {
    return info.param == Way::io_uring ? "io_uring" : info.param == Way::pool ? "pool" : "no_disk";
}

}  // namespace lockstep
