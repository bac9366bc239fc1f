// scheduler_policy.cc - the two scheduler policies that come with the package.
#include "threads/worker/scheduler_policy.h"

#include <vector>

#include "threads/base/rng.h"

namespace lockstep::threads {
namespace {

class FifoPolicy final : public SchedulerPolicy {
public:
    void ready(Thread* thread) override {
        thread->queue_next = nullptr;
        (last_ != nullptr ? last_->queue_next : first_) = thread;
        last_ = thread;
    }
    Thread* pick() override {
        Thread* thread = first_;
        if (thread == nullptr) return nullptr;
        first_ = thread->queue_next;
        if (first_ == nullptr) last_ = nullptr;
        return thread;
    }
    bool empty() const override { return first_ == nullptr; }

private:
    Thread* first_ = nullptr;
    Thread* last_ = nullptr;
};

class RandomPolicy final : public SchedulerPolicy {
public:
    explicit RandomPolicy(uint64_t seed) : rng_(seed) {}
    void ready(Thread* thread) override { ready_.push_back(thread); }
    Thread* pick() override {
        if (ready_.empty()) return nullptr;
        std::swap(ready_[rng_.below(ready_.size())], ready_.back());
        Thread* thread = ready_.back();
        ready_.pop_back();
        return thread;
    }
    bool empty() const override { return ready_.empty(); }

private:
    Rng rng_;
    std::vector<Thread*> ready_;
};

}  // namespace

std::unique_ptr<SchedulerPolicy> make_fifo_policy() { return std::make_unique<FifoPolicy>(); }
std::unique_ptr<SchedulerPolicy> make_random_policy(uint64_t seed) {
    return std::make_unique<RandomPolicy>(seed);
}

}  // namespace lockstep::threads
