// predicate_index.h - which reports' conditions a value of a column meets, for all reports at once.
//
// Concepts   The conditions of one report on the column are a list of closed intervals. Their
//            borders cut all numbers into elementary intervals, each with the set of reports whose
//            conditions hold in it (id_sets.h). If all intervals are single numbers, a hash table
//            finds the set. Conditions on texts are tried once for each text that occurs.
// Source     SharedDB, section 4.4 (ClockScan of Crescando: an index of predicates).
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "sm/report/batch.h"
#include "sm/report/id_sets.h"
#include "sm/report/key_table.h"
#include "sm/report/texts.h"

namespace lockstep::sm::report {

class PredicateIndex {
public:
    // of[q]: the conditions of report q on the column; all must hold. Keeps `texts`, and what `of`
    // points to. Holds neither mutex, and locks that of `sets`. Errors: bad_argument.
    static Result<PredicateIndex> make(ValueKind kind,
                                       std::span<const std::vector<const Where*>> of, IdSets& sets,
                                       Texts& texts);
    // For each row, the set of its number in `ids`, without those whose conditions the lane's value
    // does not meet. Under the mutex of `sets`, and of a lane of texts that of its texts.
    void narrow(const Lane& lane, IdSets& sets, std::span<uint32_t> ids);
    bool reads_texts() const { return kind_ == ValueKind::text; }

private:
    struct Interval {
        int64_t low, high;
    };
    using Intervals = std::vector<Interval>;
    static Result<Intervals> intervals_of(ValueKind kind, const Where& where);
    static Result<void> check_texts(const Where& where);
    void cut(const std::vector<Intervals>& of, IdSets& sets);
    void make_hash(const std::vector<Intervals>& of, IdSets& sets);
    void make_buckets();
    uint32_t set_at(int64_t value) const;
    uint32_t set_of_text(int64_t number, IdSets& sets);

    ValueKind kind_ = ValueKind::integer;
    // Elementary interval i begins at begins_[i], the first one at the smallest number.
    std::vector<int64_t> begins_;
    std::vector<uint32_t> sets_;
    // Bucket b has the numbers from begins_[1] + (b << shift_) on, and begins in interval
    // buckets_[b].
    std::vector<uint32_t> buckets_;
    unsigned shift_ = 0;
    KeyTable points_{1};  // with sets_, if all intervals are points
    bool hashed_ = false;
    // Of texts.
    std::vector<std::vector<const Where*>> conditions_;
    const Texts* texts_ = nullptr;
    std::unordered_map<int64_t, uint32_t> known_;
};

}  // namespace lockstep::sm::report
