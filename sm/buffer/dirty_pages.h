// dirty_pages.h - the pages that a checkpoint writes, in ascending order, without one long sort.
//
// Concepts   A pool of 24 GB has 3 million frames. Sorting them takes a worker a third of a second,
//            during which none of its transactions runs. So add() sorts runs of kRunLength pages,
//            and next() merges the runs. No call takes longer than the sort of one run. The
//            caller lets other threads run between its calls.
// Blocking   No call parks.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "threads/base/check.h"

namespace lockstep::sm {

struct WriteCandidate {
    uint32_t page;
    uint32_t frame;
    auto operator<=>(const WriteCandidate&) const = default;
};

class DirtyPages {
public:
    static constexpr size_t kRunLength = 1024;

    void add(WriteCandidate page) {
        DCHECK(heads_.empty());  // before the first next()
        if (runs_.empty() || runs_.back().size() == kRunLength) {
            end_run();
            runs_.emplace_back().reserve(kRunLength);
        }
        runs_.back().push_back(page);
        ++left_;
    }
    // No add() after this.
    void sort() {
        DCHECK(heads_.empty());
        end_run();
        for (const Run& run : runs_) heads_.push_back({run.data(), run.data() + run.size()});
        std::ranges::make_heap(heads_, behind);
        DCHECK(heads_.size() == (left_ + kRunLength - 1) / kRunLength);
    }
    // How many pages are left.
    size_t left() const { return left_; }
    // The least page that is left, which leaves. There must be one.
    WriteCandidate next() {
        DCHECK(left_ > 0 && !heads_.empty());
        std::ranges::pop_heap(heads_, behind);
        Head& head = heads_.back();
        const WriteCandidate page = *head.at++;
        if (head.at == head.end) heads_.pop_back();
        else std::ranges::push_heap(heads_, behind);
        --left_;
        DCHECK(heads_.empty() == (left_ == 0));
        return page;
    }

private:
    using Run = std::vector<WriteCandidate>;
    struct Head {
        const WriteCandidate *at, *end;
    };
    static bool behind(const Head& a, const Head& b) { return *a.at > *b.at; }
    void end_run() {
        if (!runs_.empty()) std::ranges::sort(runs_.back());
    }

    std::vector<Run> runs_;
    std::vector<Head> heads_;  // what is left of each run; a heap
    size_t left_ = 0;
};

}  // namespace lockstep::sm
