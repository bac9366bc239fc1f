// csv_report.cc - the series and the histograms as tables.
#include "tpcc/csv_report.h"

#include <fmt/format.h>

#include <filesystem>

#include "threads/base/try.h"
#include "tools/base/text_file.h"
#include "tpcc/hdr_text.h"
#include "tpcc/units.h"

namespace lockstep::tpcc {

namespace {

std::string row(const SeriesPoint& p, const char* type, const PointLatency& latency) {
    return fmt::format("{:.6f},{:.6f},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{}\n",
                       seconds(p.begin), seconds(p.end - p.begin), p.measured ? 1 : 0, type,
                       latency.count, p.per_second(latency.count), micros(latency.p50),
                       micros(latency.p90), micros(latency.p99), micros(latency.p999),
                       micros(latency.max), p.aborts_sum(), p.checkpoints);
}

std::string series_csv(const Series& series) {
    std::string text =
        "begin_s,length_s,measured,type,count,tx_per_s,p50_us,p90_us,p99_us,p999_us,max_us,"
        "retries_of_all_types,checkpoints\n";
    for (const SeriesPoint& p : series.points()) {
        text += row(p, "all", p.all);
        for (size_t t = 0; t < kTxnTypes; ++t) text += row(p, kTxnNames[t], p.types[t]);
    }
    return text;
}

std::string histograms_csv(const WorkerStats& stats) {
    std::string text = "type,at_most_us,count\n";
    for (size_t t = 0; t < kTxnTypes; ++t)
        stats.types[t].latency.for_each([&](uint64_t greatest, uint64_t count) {
            text += fmt::format("{},{:.3f},{}\n", kTxnNames[t], micros(greatest), count);
        });
    return text;
}

}  // namespace

Result<void> write_csv(const Results& results, const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return fail_os(ErrorCode::bad_path, error.value(), "--csv");
    const RunReport& run = *results.run;
    TRY(write_text_file(directory + "/series.csv", series_csv(run.series), "--csv"));
    TRY(write_text_file(directory + "/histograms.csv", histograms_csv(run.stats), "--csv"));
    for (size_t t = 0; t < kTxnTypes; ++t)
        TRY(write_text_file(fmt::format("{}/{}.hgrm", directory, kTxnNames[t]),
                            hdr_text(run.stats.types[t].latency), "--csv"));
    return {};
}

}  // namespace lockstep::tpcc
