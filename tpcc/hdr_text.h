// hdr_text.h - a histogram in the text form of HdrHistogram, which its plotters read.
//
// Concepts   Lines "Value Percentile TotalCount 1/(1-Percentile)". The percentiles come in steps
//            that get finer towards 100%: five for each halving of what is left. Values are the
//            greatest of their bucket, in microseconds.
// Source     HdrHistogram, AbstractHistogram.outputPercentileDistribution().
#pragma once

#include <string>

#include "tpcc/histogram.h"

namespace lockstep::tpcc {

std::string hdr_text(const Histogram<6>& histogram);

}  // namespace lockstep::tpcc
