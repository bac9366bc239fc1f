// csv_report.h - the series and the histograms as tables for other programs.
#pragma once

#include "tpcc/report.h"

namespace lockstep::tpcc {

// Makes the directory if it does not exist, and replaces in it: series.csv, one row for each type
// and interval; histograms.csv, one row for each bucket; NewOrder.hgrm and so on, in HdrHistogram's
// text form. Times are in microseconds. Errors: bad_path, no_space, io_error.
Result<void> write_csv(const Results& results, const std::string& directory);

}  // namespace lockstep::tpcc
