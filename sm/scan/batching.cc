// batching.cc - estimates, packs and begins batches of scans.
#include "sm/scan/batching.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace lockstep::sm::scan {

namespace {

constexpr double kZ = 1.645;        // of a normal distribution, for errors of 5%
constexpr double kRowsMin = 500;    // of an estimate
constexpr double kFewRows = 0.001;  // share of the rows that leaves the cache alone
constexpr double kMostRows = 0.8;   // share of the rows whose groups must fit
// The paper's margins below and above these two shares. Their sum decides how many rows it takes.
constexpr double kFewBelow = 0.001, kFewAbove = 0.099;
constexpr double kMostBelow = 0.05, kMostAbove = 0.10;

// Rows that tell two hypotheses so far apart from each other with both errors at most 5%.
double rows_for(double deviation, double apart) {
    DCHECK(deviation >= 0 && apart > 0);
    return std::max(std::pow(2 * deviation * kZ / apart, 2), kRowsMin);
}

struct Share {
    double mean, deviation;
};
Share share_of(size_t rows, FunctionRef<std::optional<uint64_t>(size_t)> group_of) {
    DCHECK(rows > 1);
    size_t meet = 0;
    for (size_t row = 0; row < rows; ++row) meet += group_of(row).has_value();
    const double n = static_cast<double>(rows), mean = static_cast<double>(meet) / n;
    return {mean, std::sqrt(mean * (1 - mean) * n / (n - 1))};
}

// Does the scan leave so few rows that its groups do not matter?
std::optional<bool> leaves_few(size_t rows, FunctionRef<std::optional<uint64_t>(size_t)> group_of) {
    if (static_cast<double>(rows) < kRowsMin) return {};
    const Share pilot = share_of(static_cast<size_t>(kRowsMin), group_of);
    const double n = std::ceil(rows_for(pilot.deviation, kFewBelow + kFewAbove));
    if (n > static_cast<double>(rows)) return {};
    const Share share = share_of(static_cast<size_t>(n), group_of);
    const double margin = std::max(0.0, share.deviation * kZ / std::sqrt(n) - kFewAbove);
    return share.mean <= kFewRows - margin;
}

// How much of a growing sample falls into groups that it has seen: 1 less the share of groups that
// were seen once (Turing), with the deviation of that.
class Coverage {
public:
    void add(uint64_t group) {
        ++rows_;
        const size_t before = seen_[group]++;
        once_ += before == 0 ? 1 : before == 1 ? -1 : 0;
        twice_ += before == 1 ? 1 : before == 2 ? -1 : 0;
        DCHECK(once_ >= 0 && twice_ >= 0);
    }
    size_t groups() const { return seen_.size(); }
    bool enough() const {
        const double n = static_cast<double>(rows_), once = once_ / n, twice = twice_ / n;
        const double deviation = std::sqrt(std::max(0.0, once + 2 * twice - once * once));
        if (n < rows_for(deviation, kMostBelow + kMostAbove)) return false;
        return 1 - once >= kMostRows + std::max(0.0, deviation * kZ / std::sqrt(n) - kMostAbove);
    }

private:
    std::unordered_map<uint64_t, size_t> seen_;
    size_t rows_ = 0;
    double once_ = 0, twice_ = 0;  // groups seen so often
};

// May `scan` join those of `waiting` in the batch?
bool has_room(const Admission& by, std::span<const Waiting> waiting, uint32_t batch,
              const Waiting& scan) {
    uint64_t bytes = scan.cache_bytes, shortest = scan.run_time, longest = scan.run_time;
    bool alone = true;
    for (const Waiting& other : waiting) {
        if (other.batch != batch) continue;
        alone = false;
        bytes += other.cache_bytes;
        shortest = std::min(shortest, other.run_time);
        longest = std::max(longest, other.run_time);
    }
    DCHECK(shortest <= longest);
    // What is too large for the cache has a batch of its own.
    return alone || (bytes <= by.cache_bytes &&
                     static_cast<double>(longest) < by.run_ratio * static_cast<double>(shortest));
}

}  // namespace

GroupEstimate estimate_groups(size_t rows, size_t groups_max,
                              FunctionRef<std::optional<uint64_t>(size_t row)> group_of) {
    const std::optional<bool> few = leaves_few(rows, group_of);
    if (!few) return {};
    if (*few) return {.company = Company::all};
    Coverage coverage;
    for (size_t row = 0; row < rows; ++row) {
        const std::optional<uint64_t> group = group_of(row);
        if (!group) continue;
        coverage.add(*group);
        if (coverage.groups() > groups_max) return {};
        if (coverage.enough()) return {.company = Company::batch, .groups = coverage.groups()};
    }
    return {};
}

void form_batches(const Admission& by, bool idle, std::span<Waiting> waiting) {
    const auto late = [&](const Waiting& scan) { return scan.waited > by.wait_max; };
    if (waiting.empty() || (!idle && std::ranges::none_of(waiting, late))) return;
    uint32_t end = by.next_batch;
    for (size_t packed = 0; packed < waiting.size(); ++packed) {
        Waiting* largest = nullptr;
        for (Waiting& scan : waiting)
            if (scan.batch == kNoBatch &&
                (largest == nullptr || scan.cache_bytes > largest->cache_bytes))
                largest = &scan;
        DCHECK(largest != nullptr);
        uint32_t batch = by.next_batch;
        while (!has_room(by, waiting, batch, *largest)) ++batch;
        largest->batch = batch;
        end = std::max(end, batch + 1);
        DCHECK(end - by.next_batch <= waiting.size());
    }
    const auto begins = [&](uint32_t batch) {
        return std::ranges::any_of(
            waiting, [&](const Waiting& scan) { return scan.batch == batch && late(scan); });
    };
    const bool any_late = std::ranges::any_of(waiting, late);
    const auto drawn = by.next_batch + static_cast<uint32_t>(by.random % (end - by.next_batch));
    for (uint32_t batch = by.next_batch; batch < end; ++batch) {
        if (any_late ? begins(batch) : batch == drawn) continue;
        for (Waiting& scan : waiting)
            if (scan.batch == batch) scan.batch = kNoBatch;
    }
}

}  // namespace lockstep::sm::scan
