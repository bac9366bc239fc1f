// scheduler_policy.cc - the two scheduler policies: fifo and random.
#include "threads/worker/scheduler_policy.h"

#include <algorithm>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/rng.h"

namespace lockstep::threads {
namespace {

class FifoPolicy final : public SchedulerPolicy {
public:
    void ready(Thread* thread) override {
        assert_state();
        DCHECK(thread != last_ && thread != first_);  // ready once
        thread->queue_next = nullptr;
        (last_ != nullptr ? last_->queue_next : first_) = thread;
        last_ = thread;
    }
    Thread* pick() override {
        assert_state();
        Thread* thread = first_;
        if (thread == nullptr) return nullptr;
        first_ = thread->queue_next;
        if (first_ == nullptr) last_ = nullptr;
        return thread;
    }
    bool empty() const override { return first_ == nullptr; }

private:
    void assert_state() const {
        DCHECK((first_ == nullptr) == (last_ == nullptr));
        DCHECK(last_ == nullptr || last_->queue_next == nullptr);
    }

    Thread* first_ = nullptr;
    Thread* last_ = nullptr;
};

class RandomPolicy final : public SchedulerPolicy {
public:
    explicit RandomPolicy(uint64_t seed) : rng_(seed) {}
    void ready(Thread* thread) override {
        DCHECK(std::find(ready_.begin(), ready_.end(), thread) == ready_.end());  // ready once
        ready_.push_back(thread);
    }
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
