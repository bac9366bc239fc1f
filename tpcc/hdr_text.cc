// hdr_text.cc - the text form of HdrHistogram.
#include "tpcc/hdr_text.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace lockstep::tpcc {

namespace {

constexpr double kStepsPerHalf = 5, kMicro = 1000;

struct Bucket {
    double value;     // in microseconds
    uint64_t counts;  // of this bucket and all before it
};

// From one percentile to the next one.
double next_level(double level) {
    const double halves = std::floor(std::log2(100 / (100 - level))) + 1;
    return level + 100 / (kStepsPerHalf * std::exp2(halves));
}

double deviation(const Histogram<6>& histogram) {
    double sum = 0;
    histogram.for_each([&](uint64_t greatest, uint64_t count) {
        const double off = static_cast<double>(greatest) - histogram.mean();
        sum += off * off * static_cast<double>(count);
    });
    return histogram.count() ? std::sqrt(sum / static_cast<double>(histogram.count())) : 0;
}

}  // namespace

std::string hdr_text(const Histogram<6>& histogram) {
    std::string text = fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile",
                                   "TotalCount", "1/(1-Percentile)");
    std::vector<Bucket> buckets;
    uint64_t seen = 0;
    histogram.for_each([&](uint64_t greatest, uint64_t count) {
        seen += count;
        buckets.push_back({static_cast<double>(greatest) / kMicro, seen});
    });
    const double all = static_cast<double>(seen);
    double level = 0;
    const auto line = [&](const Bucket& b) {
        text += fmt::format("{:12.3f} {:14.12f} {:10} {:14.2f}\n", b.value, level / 100, b.counts,
                            1 / (1 - level / 100));
    };
    for (const Bucket& b : buckets) {
        // The last bucket reaches all further levels; it is shown once, and again as 100%.
        if (b.counts == seen) line(b);
        else
            for (; 100 * static_cast<double>(b.counts) / all >= level; level = next_level(level))
                line(b);
    }
    if (!buckets.empty())
        text += fmt::format("{:12.3f} {:14.12f} {:10}\n", buckets.back().value, 1.0, seen);
    text += fmt::format("#[Mean    = {:12.3f}, StdDeviation   = {:12.3f}]\n",
                        histogram.mean() / kMicro, deviation(histogram) / kMicro);
    text += fmt::format("#[Max     = {:12.3f}, Total count    = {:12}]\n",
                        static_cast<double>(histogram.max()) / kMicro, seen);
    text += fmt::format("#[Buckets = {:12}, SubBuckets     = {:12}]\n", 35, 64);
    return text;
}

}  // namespace lockstep::tpcc
