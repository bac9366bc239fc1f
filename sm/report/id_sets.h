// id_sets.h - the sets of reports that want a row, each set once, with a number.
//
// Concepts   The reports of a cycle have the ids 0 .. reports() - 1. A set is a row of bits. Equal
//            sets have one number, so a batch has one number a row, and the results of operations
//            on two numbers are remembered. Rows differ much, their sets little: a condition with K
//            constants cuts its column into at most 2 K + 1 intervals, each with one set.
// Invariants IS-1 No two numbers have the same set; 0 is the empty one, 1 that of all reports.
//                 [checked: number()]
// Source     SharedDB, section 3.1, where a row has a list. A list of its own for each row takes
//            more room and time than a number.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/sync.h>
#include "threads/base/check.h"

namespace lockstep::sm::report {

class IdSets {
public:
    static constexpr uint32_t kEmpty = 0, kAll = 1;
    // Bytes that sets may take; beyond, full() says so, and the reports run one by one.
    static constexpr size_t kBytesMax = 128 << 20;

    explicit IdSets(size_t reports);
    // Held over the calls below, but for reports().
    Mutex mutex;

    size_t reports() const { return reports_; }
    size_t words() const { return words_; }
    // Of a row of words() words.
    uint32_t number(std::span<const uint64_t> set);
    uint32_t both(uint32_t a, uint32_t b) {
        if (a == b || b == kAll || a == kEmpty) return a;
        if (a == kAll || b == kEmpty) return b;
        return combine(Op::both, a, b);
    }
    uint32_t either(uint32_t a, uint32_t b) {
        if (a == b || b == kEmpty || a == kAll) return a;
        if (a == kEmpty || b == kAll) return b;
        return combine(Op::either, a, b);
    }
    // a without b.
    uint32_t without(uint32_t a, uint32_t b) {
        if (a == b || a == kEmpty || b == kAll) return kEmpty;
        return b == kEmpty ? a : combine(Op::without, a, b);
    }
    // Calls fn(id) for each id of the set, ascending.
    template <class Fn>
    void each(uint32_t set, Fn fn) const {
        const auto bits = bits_of(set);
        for (size_t word = 0; word < bits.size(); ++word)
            for (uint64_t left = bits[word]; left != 0; left &= left - 1)
                fn(static_cast<uint32_t>(64 * word + static_cast<size_t>(std::countr_zero(left))));
    }
    bool full() const {
        assert_state();
        return bits_.size() * sizeof(uint64_t) > kBytesMax;
    }

private:
    enum class Op : uint8_t { both, either, without };
    struct Memo {
        uint64_t question = 0;  // 0: none
        uint32_t answer = 0;
    };
    std::span<const uint64_t> bits_of(uint32_t set) const {
        DCHECK(set < size());
        return {bits_.data() + set * words_, words_};
    }
    uint32_t size() const { return static_cast<uint32_t>(bits_.size() / words_); }
    void assert_state() const {
        DCHECK(words_ > 0 && scratch_.size() == words_ && bits_.size() % words_ == 0);
        DCHECK(std::has_single_bit(slots_.size()) && 2 * size() <= slots_.size());
        DCHECK(memo_.empty() || std::has_single_bit(memo_.size()));
    }
    uint32_t combine(Op op, uint32_t a, uint32_t b);
    Memo& memo_of(uint64_t question);
    void grow_slots();

    const size_t reports_, words_;
    std::vector<uint64_t> bits_;   // words_ of each set
    std::vector<uint32_t> slots_;  // a hash table of sets + 1; 0: free
    std::vector<Memo> memo_;       // a cache by the hash of the question
    std::vector<uint64_t> scratch_;
};

}  // namespace lockstep::sm::report
