// figures.h - the figures of one result that --json wrote, and of several results together.
//
// Concepts   A throughput is a number of transactions divided by the seconds in which they were
//            counted. Both are sums over the measured intervals. So a long interval weighs more
//            than a short one, and a stall counts in full. A throughput of several runs divides the
//            sums of all of them.
//            A percentile comes from the histogram of the whole measured interval. That of several
//            runs comes from the sum of their histograms.
//            So a figure of one run is the one that the run itself has reported.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tpcc/histogram.h"
#include "tpcc/input.h"
#include "tpcc/least_run.h"

namespace lockstep::tpcc {

// Of one type, or of all types.
struct TypeFigures {
    double transactions = 0;
    Histogram<6> histogram;  // nanoseconds; empty if the result has none
};

struct Figures {
    double seconds = 0;
    TypeFigures all;
    TypeFigures types[kTxnTypes];

    // Both 0 if there is nothing to compute them from.
    double per_second(const TypeFigures& of) const;
    static double micros(const TypeFigures& of, double share);
    bool enough() const { return enough_for_throughput(seconds, all.transactions); }
    void add(const Figures& other);
};

// Too large for the stack of a user thread. Throws Json::exception if the document is no result.
std::unique_ptr<Figures> figures_of(const nlohmann::json& result);

}  // namespace lockstep::tpcc
