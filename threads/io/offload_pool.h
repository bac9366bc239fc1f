// offload_pool.h - kernel threads that run functions which block.
//
// Concepts   Threads begin as jobs arrive, up to threads_max, and stay until the pool ends. A job
//            goes to the thread that is free first; jobs queue in order of arrival.
// Invariants OP-1 Every job that push() accepted runs once. [checked: ~OffloadPool()]
// Blocking   push() takes a mutex for a few instructions, and may start a kernel thread.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include <lockstep/result.h>
#include "threads/base/check.h"

namespace lockstep::threads {

struct OffloadJob {
    // Calls the function. The job may be gone when it returns.
    void (*run)(OffloadJob& job) = nullptr;
    OffloadJob* next = nullptr;
};

class OffloadPool {
public:
    explicit OffloadPool(uint32_t threads_max) : threads_max_(threads_max) {}
    ~OffloadPool();  // no job is queued; ends the threads
    OffloadPool(const OffloadPool&) = delete;
    OffloadPool& operator=(const OffloadPool&) = delete;

    // Runs the job on one of the threads. Error too_many if the system grants not even one.
    Result<void> push(OffloadJob& job);

private:
    Result<void> start_thread();
    static void* thread_main(void* self);
    void work();
    // Under mutex_.
    void assert_state() const {
        DCHECK((first_ == nullptr) == (last_ == nullptr));
        DCHECK(last_ == nullptr || last_->next == nullptr);
        DCHECK(idle_ <= threads_.size() && threads_.size() <= threads_max_);
        DCHECK((first_ == nullptr) == (queued_ == 0));
    }

    const uint32_t threads_max_;
    std::mutex mutex_;
    std::condition_variable more_;
    OffloadJob* first_ = nullptr;  // under mutex_, as all below
    OffloadJob* last_ = nullptr;
    size_t queued_ = 0;
    size_t idle_ = 0;  // threads that wait for a job
    bool ending_ = false;
    std::vector<pthread_t> threads_;
};

}  // namespace lockstep::threads
