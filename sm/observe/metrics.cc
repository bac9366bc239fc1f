// metrics.cc - walks over the tables of metrics_table.h and writes samples.
#include "sm/observe/metrics.h"

#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include <lockstep/c/version.h>
#include <lockstep/store.h>
#include "sm/observe/metrics_table.h"
#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

// A border of a printed bucket never cuts a bucket of the statistics.
constexpr bool is_border(unsigned bits) {
    const uint64_t border = (uint64_t{1} << bits) - 1;
    return StageBuckets::index(border) + 1 == StageBuckets::index(border + 1);
}
constexpr unsigned kSecondsFirst = 10, kSecondsLast = 34;  // 1 us to 17 s
constexpr unsigned kPlainFirst = 0, kPlainLast = 16;
static_assert(is_border(0) && is_border(1) && is_border(2) && is_border(3) && is_border(4));
static_assert(is_border(kSecondsFirst) && is_border(kSecondsLast) && is_border(kPlainLast));
static_assert(kSecondsLast < 40);  // StageBuckets counts longer times as 2^40 ns

// What one row is printed of, and the labels that say so.
template <class S>
struct Instance {
    const S* stats;
    std::string labels;
};

// Whole nanoseconds as seconds, exactly.
std::string seconds_text(uint64_t nanos) {
    std::string text = fmt::format("{}.{:09}", nanos / kSecond, nanos % kSecond);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}
std::string number_text(uint64_t value, MetricUnit unit) {
    return unit == MetricUnit::seconds ? seconds_text(value) : std::to_string(value);
}
std::string label(std::string_view name, std::string_view value) {
    return fmt::format("{}=\"{}\"", name, escaped_label(value));
}
std::string joined(std::string_view first, std::string_view second) {
    return std::string(first) + (first.empty() || second.empty() ? "" : ",") + std::string(second);
}

class Text {
public:
    void family(std::string_view name, std::string_view type, std::string_view help) {
        DCHECK(!help.empty() && help.find_first_of("\\\n") == std::string_view::npos);
        fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                       type);
    }
    void sample(std::string_view name, std::string_view labels, std::string_view value) {
        if (labels.empty()) fmt::format_to(std::back_inserter(text_), "{} {}\n", name, value);
        else fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
    }

    // All samples of a family stand together: the format demands it.
    template <class S>
    void metrics(std::span<const Metric<S>> rows, std::span<const Instance<S>> instances) {
        if (instances.empty()) return;
        for (size_t first = 0, end; first < rows.size(); first = end) {
            const std::string_view name = rows[first].name;
            for (end = first; end < rows.size() && rows[end].name == name;) ++end;
            DCHECK((rows[first].type == kCounter) == name.ends_with("_total"));
            family(name, rows[first].type == kCounter ? "counter" : "gauge", rows[first].help);
            for (const Instance<S>& of : instances)
                for (const Metric<S>& row : rows.subspan(first, end - first))
                    sample(name, joined(of.labels, row.labels),
                           number_text(of.stats->*row.value, row.unit));
        }
    }

    template <class S>
    void histograms(std::span<const HistogramMetric<S>> rows,
                    std::span<const Instance<S>> instances) {
        for (const HistogramMetric<S>& row : rows) {
            family(row.name, "histogram", row.help);
            for (const Instance<S>& of : instances)
                histogram(row.name, row.unit, of.labels, of.stats->*row.value);
            const std::string largest = std::string(row.name) + "_max";
            family(largest, "gauge", "The largest value of " + std::string(row.name) + ".");
            for (const Instance<S>& of : instances)
                sample(largest, of.labels, number_text((of.stats->*row.value).max, row.unit));
        }
    }

    std::string take() { return std::move(text_); }

private:
    // Borders are one less than a power of two. A bucket of the statistics never crosses one, so
    // every count is exact. +Inf and _count are the sum of all buckets, because the counts are read
    // while they grow, and the format demands that the two agree.
    void histogram(std::string_view name, MetricUnit unit, const std::string& labels,
                   const StageHistogram& of) {
        const unsigned lowest = unit == MetricUnit::seconds ? kSecondsFirst : kPlainFirst;
        const unsigned highest = unit == MetricUnit::seconds ? kSecondsLast : kPlainLast;
        const std::string bucket = std::string(name) + "_bucket";
        uint64_t below = 0;
        size_t at = 0;
        for (unsigned bits = lowest; bits <= highest; ++bits) {
            const uint64_t border = (uint64_t{1} << bits) - 1;
            for (; at < of.buckets.size() && at <= StageBuckets::index(border); ++at)
                below += of.buckets[at];
            sample(bucket, joined(labels, label("le", number_text(border, unit))),
                   std::to_string(below));
        }
        for (; at < of.buckets.size(); ++at) below += of.buckets[at];
        sample(bucket, joined(labels, "le=\"+Inf\""), std::to_string(below));
        sample(std::string(name) + "_sum", labels, number_text(of.sum, unit));
        sample(std::string(name) + "_count", labels, std::to_string(below));
    }

    std::string text_;
};

const char* mode_name(StepsMode mode) {
    switch (mode) {
        case StepsMode::off: return "off";
        case StepsMode::on: return "on";
        case StepsMode::grouping: return "grouping";
        case StepsMode::prefetch: return "prefetch";
        case StepsMode::ctx_only: return "ctx_only";
        case StepsMode::fastctx: return "fastctx";
        case StepsMode::ctx: return "ctx";
    }
    return "unknown";
}

void write_store(Text& text, const StoreStats& stats) {
    text.family("lockstep_store_info", "gauge",
                "Always 1. The labels say which version of the library it is, how input and output "
                "are done, and how a write of the log becomes durable.");
    text.sample(
        "lockstep_store_info",
        joined(label("version", fmt::format("{}.{}.{}", LOCKSTEP_VERSION_MAJOR,
                                            LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH)),
               joined(label("io_backend", stats.io_backend),
                      label("log_durability", stats.log_durability))),
        "1");
    const Instance<StoreStats> store[] = {{&stats, ""}};
    text.metrics<StoreStats>(kStoreMetrics, store);
    std::vector<Instance<WaitStats>> waits;
    for (size_t i = 0; i < kWaitCauses; ++i)
        waits.push_back({&stats.waits[i], label("cause", kWaitCauseNames[i])});
    text.metrics<WaitStats>(kWaitMetrics, waits);
    const Instance<StageStats> stages[] = {{&stats.admission_stage, label("stage", "admission")},
                                           {&stats.lock_stage, label("stage", "lock")},
                                           {&stats.io.stage, label("stage", "io")}};
    text.metrics<StageStats>(kStageMetrics, stages);
    text.histograms<StageStats>(kStageHistograms, stages);
    std::vector<Instance<threads::IoClassStats>> classes;
    for (size_t i = 0; i < threads::kIoClasses; ++i)
        classes.push_back({&stats.io.classes[i], label("class", threads::kIoClassNames[i])});
    text.metrics<threads::IoClassStats>(kIoClassMetrics, classes);
    const Instance<threads::IoStats> io[] = {{&stats.io, ""}};
    text.metrics<threads::IoStats>(kIoMetrics, io);
    text.histograms<threads::IoStats>(kIoHistograms, io);
}

void write_steps(Text& text, const StepsStats& stats) {
    std::vector<Instance<TeamStats>> teams;
    std::vector<Instance<TeamStats::Strays>> strays;
    for (const TeamStats& of : stats.teams) {
        const std::string labels = label("operation", of.operation);
        teams.push_back({&of, labels});
        strays.push_back({&of.strays, labels});
    }
    text.metrics<TeamStats>(kTeamMetrics, teams);
    text.metrics<TeamStats::Strays>(kStrayMetrics, strays);
    std::vector<Instance<CtxPointStats>> points;
    points.reserve(stats.points.size());
    for (const CtxPointStats& of : stats.points) points.push_back({&of, label("point", of.name)});
    text.metrics<CtxPointStats>(kCtxPointMetrics, points);
    if (stats.tuner.empty()) return;
    std::vector<Instance<TunerStats>> tuners;
    text.family("lockstep_tuner_team_max", "gauge",
                "Largest team that the tuner of a worker allows now, in the mode that it has set.");
    for (const TunerStats& of : stats.tuner) {
        const std::string worker = label("worker", std::to_string(tuners.size()));
        text.sample("lockstep_tuner_team_max", joined(worker, label("mode", mode_name(of.mode))),
                    std::to_string(of.team_max));
        tuners.push_back({&of, worker});
    }
    text.metrics<TunerStats>(kTunerMetrics, tuners);
}

// Length of the sound UTF-8 sequence at the begin of `text`; 0 if there is none.
// Source: RFC 3629, section 4.
size_t utf8_bytes(std::string_view text) {
    DCHECK(!text.empty());
    const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t first = at(0);
    const size_t bytes = first < 0x80   ? 1
                         : first < 0xc2 ? 0
                         : first < 0xe0 ? 2
                         : first < 0xf0 ? 3
                         : first < 0xf5 ? 4
                                        : 0;
    if (bytes > text.size()) return 0;
    for (size_t i = 1; i < bytes; ++i)
        if ((at(i) & 0xc0) != 0x80) return 0;
    if (bytes > 2) {
        const uint8_t second = at(1);
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
            (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
            return 0;
    }
    return bytes;
}

}  // namespace

std::string escaped_label(std::string_view value) {
    std::string text;
    while (!value.empty()) {
        const char c = value.front();
        const size_t bytes = utf8_bytes(value);
        DCHECK(bytes <= value.size() && bytes <= 4);
        if (c == '\\' || c == '"') {
            text += {'\\', c};
        } else if (bytes == 0 || static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
            fmt::format_to(std::back_inserter(text), "\\\\x{:02x}", static_cast<uint8_t>(c));
        } else {
            text += value.substr(0, bytes);
        }
        value.remove_prefix(std::max<size_t>(bytes, 1));
    }
    return text;
}

std::string metrics_text(const StoreStats& stats, const StepsStats& steps,
                         const ReportStats& reports) {
    Text text;
    write_store(text, stats);
    const Instance<ReportStats> of_reports[] = {{&reports, ""}};
    text.metrics<ReportStats>(kReportMetrics, of_reports);
    const Instance<AnswerStats> of_answers[] = {{&reports.answers, ""}};
    text.metrics<AnswerStats>(kAnswerMetrics, of_answers);
    write_steps(text, steps);
    return text.take();
}

}  // namespace lockstep::sm
