// timer_heap.h - the parked threads of one worker that have a deadline, earliest first.
//
// Concepts   A binary heap in an array. Each thread knows its index (Thread::timer_index), so a
//            thread that is woken early leaves in O(log n). Equal deadlines expire in the order in
//            which they were added.
// Invariants TM-1 heap[i].thread->timer_index == i, and UINT32_MAX outside. [checked: verify]
// Blocking   never. Owner worker only.
#pragma once

#include <vector>

#include "threads/base/check.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

class TimerHeap {
public:
    static constexpr uint32_t kNowhere = UINT32_MAX;

    bool empty() const { return heap_.empty(); }
    size_t size() const { return heap_.size(); }
    Nanos earliest() const { return heap_.empty() ? kNever : heap_[0].deadline; }

    void add(Thread* thread, Nanos deadline) {
        assert_state();
        DCHECK(thread->timer_index == kNowhere);
        DCHECK(deadline != kNever);
        heap_.push_back({deadline, ++sequence_, thread});
        rise(static_cast<uint32_t>(heap_.size() - 1));
    }

    void remove(Thread* thread) {
        assert_state();
        const uint32_t at = thread->timer_index;
        DCHECK(at < heap_.size() && heap_[at].thread == thread);
        const Entry last = heap_.back();
        heap_.pop_back();
        thread->timer_index = kNowhere;
        if (last.thread == thread) return;
        place(at, last);
        rise(at);
        sink(last.thread->timer_index);
        assert_state();
    }

    // The thread with the earliest deadline, removed; null if that is later than `now`.
    Thread* pop_due(Nanos now) {
        if (earliest() > now || heap_.empty()) return nullptr;
        Thread* thread = heap_[0].thread;
        DCHECK(thread->timer_index == 0);
        remove(thread);
        DCHECK(thread->timer_index == kNowhere);
        return thread;
    }

    // TM-1 and the order at the root and at the end.
    void assert_state() const {
        DCHECK(heap_.size() < kNowhere);
        DCHECK(heap_.empty() || heap_[0].thread->timer_index == 0);
        DCHECK(heap_.empty() || heap_.back().thread->timer_index == heap_.size() - 1);
        DCHECK(heap_.size() < 2 || !before(heap_[1], heap_[0]));
        DCHECK(heap_.size() < 3 || !before(heap_[2], heap_[0]));
        DCHECK(heap_.empty() || heap_.back().sequence <= sequence_);
    }

    void verify() const {
        for (uint32_t i = 0; i < heap_.size(); ++i) {
            CHECK(heap_[i].thread->timer_index == i);  // TM-1
            CHECK(i == 0 || !before(heap_[i], heap_[(i - 1) / 2]));
        }
    }

private:
    struct Entry {
        Nanos deadline;
        uint64_t sequence;
        Thread* thread;
    };
    static bool before(const Entry& a, const Entry& b) {
        return a.deadline != b.deadline ? a.deadline < b.deadline : a.sequence < b.sequence;
    }
    void place(uint32_t at, const Entry& entry) {
        DCHECK(at < heap_.size());
        heap_[at] = entry;
        entry.thread->timer_index = at;
    }
    void rise(uint32_t at) {
        const Entry entry = heap_[at];
        for (; at > 0 && before(entry, heap_[(at - 1) / 2]); at = (at - 1) / 2)
            place(at, heap_[(at - 1) / 2]);
        place(at, entry);
    }
    void sink(uint32_t at) {
        const Entry entry = heap_[at];
        for (;;) {
            size_t child = 2 * size_t{at} + 1;
            if (child >= heap_.size()) break;
            if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
            if (!before(heap_[child], entry)) break;
            place(at, heap_[child]);
            at = static_cast<uint32_t>(child);
        }
        place(at, entry);
    }

    std::vector<Entry> heap_;
    uint64_t sequence_ = 0;
};

}  // namespace lockstep::threads
