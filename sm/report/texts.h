// texts.h - numbers for texts, so that lanes have numbers only.
//
// Concepts   Equal texts have one number. The numbers say nothing of the order, so who sorts asks
//            for the texts. They live as long as the last answer that shows one.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <lockstep/sync.h>
#include "threads/base/check.h"

namespace lockstep::sm::report {

class Texts {
public:
    // Held over the calls below.
    Mutex mutex;

    int64_t number(Slice text) {
        const auto at = numbers_.find(text);
        if (at != numbers_.end()) return at->second;
        texts_.emplace_back(text);
        const auto number = static_cast<int64_t>(texts_.size() - 1);
        numbers_.emplace(texts_.back(), number);
        DCHECK(numbers_.size() == texts_.size());
        return number;
    }
    // Valid as long as this object.
    Slice text(int64_t number) const {
        DCHECK(number >= 0 && static_cast<size_t>(number) < texts_.size());
        return texts_[static_cast<size_t>(number)];
    }

private:
    std::deque<std::string> texts_;  // which never move
    std::unordered_map<Slice, int64_t> numbers_;
};

}  // namespace lockstep::sm::report
