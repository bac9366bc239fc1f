// filter.cc - from conditions to intervals, to key ranges, to rows.
#include "sm/scan/filter.h"

#include <algorithm>
#include <limits>

#include "sm/scan/column_types.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::sm::scan {

namespace {

constexpr uint64_t kSign = 1ull << 63;
constexpr size_t kRangesMax = 1024;

[[gnu::cold]] Unexpected wrong(Slice column, const std::string& why) {
    return fail_with(ErrorCode::bad_argument, "condition of a scan",
                     "column \"" + std::string(column.substr(0, 48)) + "\": " + why);
}

// The ordinal of a stored number, which `bits` has extended to 64 bits as its type demands.
uint64_t ordinal(uint64_t bits, bool is_signed) { return is_signed ? bits ^ kSign : bits; }

// Of a constant, and whether it lies below or above all numbers of the kind.
enum class Beyond : int8_t { below = -1, within = 0, above = 1 };
std::pair<uint64_t, Beyond> ordinal_of(const Constant& c, bool is_signed) {
    if (c.kind() == Constant::Kind::negative)
        return is_signed ? std::pair(c.bits() ^ kSign, Beyond::within)
                         : std::pair(uint64_t{0}, Beyond::below);
    if (is_signed && c.bits() > kSign - 1) return {UINT64_MAX, Beyond::above};
    return {ordinal(c.bits(), is_signed), Beyond::within};
}

template <class T>
uint64_t ordinal_at(const void* data, size_t row) {
    const T value = static_cast<const T*>(data)[row];
    if constexpr (std::is_signed_v<T>) return static_cast<uint64_t>(int64_t{value}) ^ kSign;
    else return value;
}

// Keeps the rows for which `met` is true.
template <class Met>
void keep(std::vector<uint32_t>& rows, Met met) {
    size_t n = 0;
    for (const uint32_t row : rows) {
        rows[n] = row;
        n += met(row);
    }
    rows.resize(n);
}

// The part of a key as Key writes it, of an ordinal within the column's numbers.
std::string key_part(uint64_t ordinal, const TypeRow& row) {
    DCHECK(row.integer() && row.stored >= 1 && row.stored <= 8);
    // A signed number has its sign bit turned over in both; only the width differs.
    const uint64_t bits =
        row.is_signed ? ordinal - kSign + (1ull << (8 * row.stored - 1)) : ordinal;
    std::string out;
    for (unsigned i = row.stored; i-- > 0;) out.push_back(static_cast<char>(bits >> (8 * i)));
    return out;
}
// The ordinals of the smallest and the largest number of the column.
std::pair<uint64_t, uint64_t> ordinals_of(const TypeRow& row) {
    if (row.stored == 8) return {0, UINT64_MAX};
    const uint64_t numbers = 1ull << (8 * row.stored);
    return row.is_signed ? std::pair(kSign - numbers / 2, kSign + numbers / 2 - 1)
                         : std::pair(uint64_t{0}, numbers - 1);
}
// The smallest key behind all that begin with `prefix`; empty: there is none.
std::string behind(std::string prefix) {
    while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
    if (!prefix.empty()) ++prefix.back();
    return prefix;
}

bool pick_texts(const ColumnData& from, std::span<const uint32_t> rows, ColumnData& to) {
    size_t bytes = 0;
    for (const uint32_t row : rows) bytes += from.text(row).size();
    if (!to.offsets.reserve((rows.size() + 1) * sizeof(int32_t), 0) ||
        !to.data.reserve(std::max(bytes, kCacheLineBytes), 0))
        return false;
    int32_t at = to.offsets.as<int32_t>()[0] = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        const Slice text = from.text(rows[i]);
        std::copy(text.begin(), text.end(), to.data.as<char>() + at);
        at += static_cast<int32_t>(text.size());
        to.offsets.as<int32_t>()[i + 1] = at;
    }
    return true;
}
bool pick_numbers(const ColumnData& from, size_t width, std::span<const uint32_t> rows,
                  ColumnData& to) {
    if (!to.data.reserve(rows.size() * width, 0)) return false;
    const auto copy = [&]<class T>(T) {
        for (size_t i = 0; i < rows.size(); ++i) to.data.as<T>()[i] = from.data.as<T>()[rows[i]];
    };
    switch (width) {
        case 1: copy(uint8_t{}); break;
        case 2: copy(uint16_t{}); break;
        case 4: copy(uint32_t{}); break;
        default: DCHECK(width == 8); copy(uint64_t{});
    }
    return true;
}
bool pick_nulls(const ColumnData& from, std::span<const uint32_t> rows, ColumnData& to) {
    if (from.nulls == 0) return true;
    const size_t bytes = (rows.size() + 7) / 8;
    if (!to.validity.reserve(bytes, 0)) return false;
    std::memset(to.validity.as<char>(), 0xff, bytes);
    for (size_t i = 0; i < rows.size(); ++i)
        if (from.is_null(rows[i])) {
            to.validity.as<uint8_t>()[i / 8] &= static_cast<uint8_t>(~(1u << (i % 8)));
            ++to.nulls;
        }
    return true;
}

}  // namespace

bool Filter::Term::met_by(Slice text) const {
    DCHECK(!texts.empty() || compare == Compare::in);
    switch (compare) {
        case Compare::less: return text < Slice(texts[0]);
        case Compare::at_most: return text <= Slice(texts[0]);
        case Compare::greater: return text > Slice(texts[0]);
        case Compare::at_least: return text >= Slice(texts[0]);
        case Compare::prefix: return text.starts_with(texts[0]);
        default: return std::ranges::find(texts, text) != texts.end();
    }
}

bool Filter::Term::met_by(double number) const {
    DCHECK((!reals.empty() || compare == Compare::in) && compare != Compare::prefix);
    switch (compare) {
        case Compare::less: return number < reals[0];
        case Compare::at_most: return number <= reals[0];
        case Compare::greater: return number > reals[0];
        case Compare::at_least: return number >= reals[0];
        default: return std::ranges::find(reals, number) != reals.end();
    }
}

// What lies in an interval of both lists, which ascend.
auto Filter::meet(const Intervals& a, const Intervals& b) -> Intervals {
    Intervals out;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const Interval both{std::max(a[i].low, b[j].low), std::min(a[i].high, b[j].high)};
        if (both.low <= both.high) out.push_back(both);
        a[i].high < b[j].high ? ++i : ++j;
    }
    DCHECK(std::ranges::is_sorted(out, {}, &Interval::low));
    return out;
}

void Filter::bind_integers(Term& term, const Column& column, std::span<const Constant> values) {
    const bool is_signed = type_row(column.type).is_signed;
    for (const Constant& value : values) {
        const auto [at, beyond] = ordinal_of(value, is_signed);
        const bool below = beyond == Beyond::below, above = beyond == Beyond::above;
        Interval all{0, UINT64_MAX};
        bool any = true;
        switch (term.compare) {
            case Compare::less:
            case Compare::at_most: {
                const bool open = term.compare == Compare::less && !above;
                any = !below && !(open && at == 0);
                all.high = above ? UINT64_MAX : at - open;
                break;
            }
            case Compare::greater:
            case Compare::at_least: {
                const bool open = term.compare == Compare::greater && !below;
                any = !above && !(open && at == UINT64_MAX);
                all.low = below ? 0 : at + open;
                break;
            }
            default: any = beyond == Beyond::within; all = {at, at};
        }
        DCHECK(!any || all.low <= all.high);
        if (any) term.intervals.push_back(all);
    }
    std::ranges::sort(term.intervals, {}, &Interval::low);
    const auto same = std::ranges::unique(term.intervals, {}, &Interval::low);
    term.intervals.erase(same.begin(), same.end());
    DCHECK(term.intervals.size() <= values.size());
}

Result<void> Filter::bind(Term& term, const Column& column, const Where& where) {
    const TypeRow& row = type_row(column.type);
    if (where.values.size() != 1 && where.compare != Compare::in)
        return wrong(where.column, "the condition needs one constant");
    const auto all_are = [&](auto... kinds) {
        return std::ranges::all_of(where.values,
                                   [&](const Constant& c) { return ((c.kind() == kinds) || ...); });
    };
    using enum Constant::Kind;
    if (row.integer()) {
        if (where.compare == Compare::prefix) return wrong(where.column, "a number has no prefix");
        if (!all_are(natural, negative)) return wrong(where.column, "it needs integers");
        bind_integers(term, column, where.values);
    } else if (row.number()) {
        if (where.compare == Compare::prefix) return wrong(where.column, "a number has no prefix");
        if (!all_are(natural, negative, real)) return wrong(where.column, "it needs numbers");
        for (const Constant& c : where.values)
            term.reals.push_back(c.kind() == real ? c.real()
                                 : c.kind() == negative
                                     ? static_cast<double>(static_cast<int64_t>(c.bits()))
                                     : static_cast<double>(c.bits()));
    } else {
        if (!all_are(text)) return wrong(where.column, "it needs texts");
        for (const Constant& c : where.values) term.texts.emplace_back(c.text());
    }
    return {};
}

Result<Filter> Filter::make(const Columns& columns, std::span<const Where> where) {
    Filter out;
    for (const Where& one : where) {
        const std::optional<size_t> place = columns.find(one.column);
        if (!place) return wrong(one.column, "there is no such column");
        const Column& column = columns.all()[*place];
        Term term{
            .column = static_cast<uint16_t>(*place), .type = column.type, .compare = one.compare};
        TRY(bind(term, column, one));
        const auto same = std::ranges::find(out.terms_, term.column, &Term::column);
        if (same != out.terms_.end() && type_row(column.type).integer())
            same->intervals = meet(same->intervals, term.intervals);
        else out.terms_.push_back(std::move(term));
    }
    return out;
}

std::vector<uint16_t> Filter::columns() const {
    std::vector<uint16_t> out;
    for (const Term& term : terms_) out.push_back(term.column);
    return out;
}

std::vector<KeyRange> Filter::ranges(const Columns& columns) const {
    std::vector<std::string> prefixes = {""};
    for (size_t i = 0; i < columns.all().size(); ++i) {
        const Column& column = columns.all()[i];
        if (column.place != ColumnPlace::key) continue;
        const TypeRow& row = type_row(column.type);
        const auto term = std::ranges::find(terms_, i, &Term::column);
        if (!row.integer() || term == terms_.end()) break;
        std::vector<KeyRange> next;
        const auto [least, most] = ordinals_of(row);
        bool points = true;
        for (const std::string& prefix : prefixes)
            for (const Interval& in : term->intervals) {
                const uint64_t low = std::max(in.low, least), high = std::min(in.high, most);
                if (low > high) continue;
                points &= low == high;
                next.push_back({prefix + key_part(low, row), prefix + key_part(high, row)});
            }
        if (points && next.size() <= kRangesMax) {
            DCHECK(std::ranges::is_sorted(next, {}, &KeyRange::low));
            prefixes.clear();
            for (KeyRange& range : next) prefixes.push_back(std::move(range.low));
            continue;
        }
        for (KeyRange& range : next) range.high = behind(std::move(range.high));
        return next;
    }
    std::vector<KeyRange> out;
    for (std::string& prefix : prefixes) {
        std::string high = behind(prefix);
        out.push_back({std::move(prefix), std::move(high)});
    }
    return out;
}

void Filter::filter_term(const Term& term, const ColumnData& data,
                         std::vector<uint32_t>& rows) const {
    if (data.nulls != 0) keep(rows, [&](uint32_t row) { return !data.is_null(row); });
    const TypeRow& type = type_row(term.type);
    const void* const numbers = data.data.as<char>();
    if (!type.number())
        return keep(rows, [&](uint32_t row) { return term.met_by(data.text(row)); });
    if (term.type == ColumnType::f64)
        return keep(rows, [&](uint32_t row) {
            return term.met_by(static_cast<const double*>(numbers)[row]);
        });
    if (term.type == ColumnType::f32)
        return keep(rows, [&](uint32_t row) {
            return term.met_by(double{static_cast<const float*>(numbers)[row]});
        });
    const auto with = [&](auto ordinal_in) {
        if (term.intervals.size() == 1) {
            const auto [low, high] = term.intervals[0];
            return keep(rows, [&](uint32_t row) {
                const uint64_t at = ordinal_in(numbers, row);
                return at >= low && at <= high;
            });
        }
        keep(rows, [&](uint32_t row) {
            const uint64_t at = ordinal_in(numbers, row);
            const auto next = std::ranges::upper_bound(term.intervals, at, {}, &Interval::low);
            return next != term.intervals.begin() && at <= std::prev(next)->high;
        });
    };
    switch (type.made) {
        case 1: return type.is_signed ? with(ordinal_at<int8_t>) : with(ordinal_at<uint8_t>);
        case 2: return type.is_signed ? with(ordinal_at<int16_t>) : with(ordinal_at<uint16_t>);
        case 4: return type.is_signed ? with(ordinal_at<int32_t>) : with(ordinal_at<uint32_t>);
        default: return type.is_signed ? with(ordinal_at<int64_t>) : with(ordinal_at<uint64_t>);
    }
}

void Filter::select(const BlockData& block, std::vector<uint32_t>& rows) const {
    rows.resize(block.rows);
    for (uint32_t i = 0; i < block.rows; ++i) rows[i] = i;
    DCHECK(block.rows <= kBlockRowsMax);
    for (const Term& term : terms_) filter_term(term, block.of(term.column), rows);
}

std::shared_ptr<const BlockData> pick(const BlockData& from, std::span<const uint16_t> columns,
                                      std::span<const uint32_t> rows) {
    DCHECK(std::ranges::is_sorted(columns) && from.has(columns) && !rows.empty());
    auto out = std::make_shared<BlockData>();
    out->columns.assign(columns.begin(), columns.end());
    out->data.resize(columns.size());
    out->rows = rows.size();
    for (size_t i = 0; i < columns.size(); ++i) {
        const ColumnData& data = from.of(columns[i]);
        ColumnData& to = out->data[i];
        const size_t width = data.width;
        if (!pick_nulls(data, rows, to) ||
            !(width == 0 ? pick_texts(data, rows, to) : pick_numbers(data, width, rows, to)))
            return nullptr;
        to.width = data.width;
    }
    out->assert_state();
    return out;
}

}  // namespace lockstep::sm::scan
