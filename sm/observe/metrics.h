// metrics.h - statistics as Prometheus text.
//
// Concepts   A *family* is one metric name with its help text and type. Its samples differ by their
//            labels. metrics_table.h describes every family; metrics.cc only walks over the tables.
// Source     https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4;
//            https://prometheus.io/docs/practices/naming/ for the names.
// Blocking   Never.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/report.h>
#include <lockstep/stats.h>

namespace lockstep::sm {

// Every value of all, as Store::metrics() says; of the open reports the sums only.
std::string metrics_text(const StoreStats& stats, const StepsStats& steps,
                         const ReportStats& reports);

// `value` as it stands between the quotes of a label. What is not printable ASCII or part of
// sound UTF-8 becomes \x00 with its number: the text format must be UTF-8.
std::string escaped_label(std::string_view value);

}  // namespace lockstep::sm
