// predicate_index.cc - from conditions to intervals, from their borders to sets of reports.
#include "sm/report/predicate_index.h"

#include <mutex>

#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::sm::report {

namespace {

constexpr unsigned kBucketBits = 12;

[[gnu::cold]] Unexpected wrong(const Where& where, const char* why) {
    return fail_with(ErrorCode::bad_argument, "condition of a plan",
                     "column \"" + where.column.substr(0, 48) + "\": " + why);
}

// A constant among the numbers of a lane; -1 and 1: it lies below or above all of them.
std::pair<int64_t, int> place_of(ValueKind kind, const Constant& c) {
    const auto bits = static_cast<int64_t>(c.bits());
    if (kind == ValueKind::real)
        return {real_code(c.kind() == Constant::Kind::real       ? c.real()
                          : c.kind() == Constant::Kind::negative ? static_cast<double>(bits)
                                                                 : static_cast<double>(c.bits())),
                0};
    if (c.kind() == Constant::Kind::natural && bits < 0) return {INT64_MAX, 1};
    return {bits, 0};
}

bool text_meets(Slice text, const Where& where) {
    const auto& values = where.values;
    DCHECK(!values.empty() || where.compare == Compare::in);
    switch (where.compare) {
        case Compare::less: return text < values[0].text();
        case Compare::at_most: return text <= values[0].text();
        case Compare::greater: return text > values[0].text();
        case Compare::at_least: return text >= values[0].text();
        case Compare::prefix: return text.starts_with(values[0].text());
        default: return std::ranges::find(values, text, &Constant::text) != values.end();
    }
}

}  // namespace

Result<void> PredicateIndex::check_texts(const Where& where) {
    if (where.values.size() != 1 && where.compare != Compare::in)
        return wrong(where, "the condition needs one constant");
    for (const Constant& c : where.values)
        if (c.kind() != Constant::Kind::text) return wrong(where, "it needs texts");
    return {};
}

auto PredicateIndex::intervals_of(ValueKind kind, const Where& where) -> Result<Intervals> {
    if (where.compare == Compare::prefix) return wrong(where, "a number has no prefix");
    if (where.values.size() != 1 && where.compare != Compare::in)
        return wrong(where, "the condition needs one constant");
    Intervals out;
    for (const Constant& c : where.values) {
        if (c.kind() == Constant::Kind::text) return wrong(where, "it needs numbers");
        if (c.kind() == Constant::Kind::real && kind == ValueKind::integer)
            return wrong(where, "it needs integers");
        const auto [at, beyond] = place_of(kind, c);
        switch (where.compare) {
            case Compare::less:
                if (at != INT64_MIN) out.push_back({INT64_MIN, beyond > 0 ? at : at - 1});
                break;
            case Compare::at_most: out.push_back({INT64_MIN, at}); break;
            case Compare::greater:
                if (at != INT64_MAX) out.push_back({at + 1, INT64_MAX});
                break;
            case Compare::at_least:
                if (beyond <= 0) out.push_back({at, INT64_MAX});
                break;
            default:
                if (beyond == 0) out.push_back({at, at});
        }
    }
    std::ranges::sort(out, {}, &Interval::low);
    const auto same = std::ranges::unique(out, {}, &Interval::low);
    out.erase(same.begin(), same.end());
    DCHECK(std::ranges::all_of(out, [](const Interval& in) { return in.low <= in.high; }));
    return out;
}

Result<PredicateIndex> PredicateIndex::make(ValueKind kind,
                                            std::span<const std::vector<const Where*>> of,
                                            IdSets& sets, Texts& texts) {
    DCHECK(of.size() == sets.reports());
    PredicateIndex out;
    out.kind_ = kind;
    out.texts_ = &texts;
    std::vector<Intervals> all;
    for (const auto& conditions : of) {
        Intervals met = {{INT64_MIN, INT64_MAX}};
        for (const Where* const where : conditions) {
            if (kind == ValueKind::text) {
                TRY(check_texts(*where));
                continue;
            }
            Intervals next;
            for (const Interval& a : met)
                for (const Interval& b : TRY(intervals_of(kind, *where)))
                    if (const Interval both{std::max(a.low, b.low), std::min(a.high, b.high)};
                        both.low <= both.high)
                        next.push_back(both);
            met = std::move(next);
        }
        all.push_back(std::move(met));
    }
    const std::lock_guard lock(sets.mutex);
    if (kind == ValueKind::text) out.conditions_.assign(of.begin(), of.end());
    else if (std::ranges::all_of(all, [](const Intervals& list) {
                 return std::ranges::all_of(list, [](auto& in) { return in.low == in.high; });
             }))
        out.make_hash(all, sets);
    else out.cut(all, sets);
    return out;
}

void PredicateIndex::make_hash(const std::vector<Intervals>& of, IdSets& sets) {
    hashed_ = true;
    std::vector<std::pair<int64_t, uint32_t>> points;  // number, report
    for (uint32_t report = 0; report < of.size(); ++report)
        for (const Interval& in : of[report]) points.emplace_back(in.low, report);
    std::ranges::sort(points);
    for (size_t i = 0; i < points.size();) {
        std::vector<uint64_t> set(sets.words());
        const int64_t value = points[i].first;
        for (; i < points.size() && points[i].first == value; ++i)
            set[points[i].second / 64] |= 1ull << points[i].second % 64;
        points_.add(&value);
        sets_.push_back(sets.number(set));
    }
    DCHECK(sets_.size() == points_.size());
}

void PredicateIndex::cut(const std::vector<Intervals>& of, IdSets& sets) {
    std::vector<std::pair<int64_t, uint32_t>> turns;  // where a report's membership changes
    std::vector<uint64_t> set(sets.words());
    for (uint32_t report = 0; report < of.size(); ++report)
        for (const Interval& in : of[report]) {
            turns.emplace_back(in.low, report);
            if (in.high != INT64_MAX) turns.emplace_back(in.high + 1, report);
        }
    std::ranges::sort(turns);
    begins_ = {INT64_MIN};
    sets_ = {IdSets::kEmpty};
    for (size_t i = 0; i < turns.size();) {
        const int64_t begin = turns[i].first;
        for (; i < turns.size() && turns[i].first == begin; ++i)
            set[turns[i].second / 64] ^= 1ull << turns[i].second % 64;
        if (begin != INT64_MIN) {
            begins_.push_back(begin);
            sets_.emplace_back();
        }
        sets_.back() = sets.number(set);
    }
    DCHECK(begins_.size() == sets_.size() && std::ranges::is_sorted(begins_));
    make_buckets();
}

void PredicateIndex::make_buckets() {
    if (begins_.size() < 2) return;
    const auto from = static_cast<uint64_t>(begins_[1]);
    const uint64_t range = static_cast<uint64_t>(begins_.back()) - from;
    const auto bits = static_cast<unsigned>(std::bit_width(range));
    shift_ = bits > kBucketBits ? bits - kBucketBits : 0;
    uint32_t interval = 1;
    for (uint64_t b = 0; b <= range >> shift_; ++b) {
        const uint64_t begin = b << shift_;
        while (interval + 1 < begins_.size() &&
               static_cast<uint64_t>(begins_[interval + 1]) - from <= begin)
            ++interval;
        buckets_.push_back(interval);
    }
    buckets_.push_back(static_cast<uint32_t>(begins_.size() - 1));
    DCHECK(buckets_.front() == 1 && std::ranges::is_sorted(buckets_));
}

uint32_t PredicateIndex::set_at(int64_t value) const {
    if (hashed_) {
        const uint32_t at = points_.find(&value);
        return at == KeyTable::kNone ? IdSets::kEmpty : sets_[at];
    }
    if (begins_.size() < 2 || value < begins_[1]) return sets_[0];
    if (value >= begins_.back()) return sets_.back();
    const uint64_t bucket =
        (static_cast<uint64_t>(value) - static_cast<uint64_t>(begins_[1])) >> shift_;
    DCHECK(bucket + 1 < buckets_.size());
    const auto first = begins_.begin() + buckets_[bucket],
               end = begins_.begin() + buckets_[bucket + 1] + 1;
    const auto at = std::upper_bound(first, end, value) - 1;
    DCHECK(*at <= value && (at + 1 == begins_.end() || value < at[1]));
    return sets_[static_cast<size_t>(at - begins_.begin())];
}

uint32_t PredicateIndex::set_of_text(int64_t number, IdSets& sets) {
    const auto [at, fresh] = known_.try_emplace(number, IdSets::kEmpty);
    if (!fresh) return at->second;
    DCHECK(conditions_.size() == sets.reports());
    const Slice text = texts_->text(number);
    std::vector<uint64_t> set(sets.words());
    for (size_t report = 0; report < conditions_.size(); ++report)
        if (std::ranges::all_of(conditions_[report],
                                [&](const Where* where) { return text_meets(text, *where); }))
            set[report / 64] |= 1ull << report % 64;
    return at->second = sets.number(set);
}

void PredicateIndex::narrow(const Lane& lane, IdSets& sets, std::span<uint32_t> ids) {
    DCHECK(ids.size() == lane.values.size() && (kind_ == ValueKind::text) != conditions_.empty());
    DCHECK(lane.nulls.empty() || lane.nulls.size() == ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == IdSets::kEmpty) continue;
        const uint32_t set = lane.is_null(i)            ? IdSets::kEmpty
                             : kind_ == ValueKind::text ? set_of_text(lane.values[i], sets)
                                                        : set_at(lane.values[i]);
        ids[i] = sets.both(ids[i], set);
    }
}

}  // namespace lockstep::sm::report
