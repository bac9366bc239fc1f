// offload_pool.cc - the jobs and threads of an offload pool.
#include "threads/io/offload_pool.h"

namespace lockstep::threads {

OffloadPool::~OffloadPool() {
    {
        const std::lock_guard lock(mutex_);
        assert_state();
        CHECK(first_ == nullptr);  // OP-1
        ending_ = true;
    }
    more_.notify_all();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
}

// A thread that was woken for an older job still counts as idle, hence the comparison.
Result<void> OffloadPool::push(OffloadJob& job) {
    DCHECK(job.run != nullptr && job.next == nullptr);
    const std::lock_guard lock(mutex_);
    assert_state();
    if (idle_ <= queued_ && threads_.size() < threads_max_) TRY(start_thread());
    (last_ != nullptr ? last_->next : first_) = &job;
    last_ = &job;
    ++queued_;
    more_.notify_one();
    return {};
}

// Under mutex_. Refused with others there: the job waits for one of them.
Result<void> OffloadPool::start_thread() {
    pthread_t thread;
    const int refused = pthread_create(&thread, nullptr, thread_main, this);
    if (refused == 0) threads_.push_back(thread);
    else if (threads_.empty())
        return fail_os(ErrorCode::too_many, refused, "kernel thread of offload()");
    return {};
}

void* OffloadPool::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "lockstep-offl");
    static_cast<OffloadPool*>(self)->work();
    return nullptr;
}

void OffloadPool::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        more_.wait(lock, [this] { return first_ != nullptr || ending_; });
        --idle_;
        assert_state();
        OffloadJob* job = first_;
        if (job == nullptr) return;
        DCHECK(queued_ > 0 && (job->next != nullptr || last_ == job));
        first_ = job->next;
        if (first_ == nullptr) last_ = nullptr;
        --queued_;
        lock.unlock();
        job->run(*job);
        lock.lock();
    }
}

}  // namespace lockstep::threads
