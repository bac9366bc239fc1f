// compare.h - the difference of two sides, each with one or several results, or why they cannot be
// compared.
//
// Concepts   A side has one figure for each row, which its runs make together (figures.h). The
//            ratio is that of the two figures. From three runs of each side on, the ratio has an
//            interval (ratio.h) and a verdict. An interval that contains 1 means: no difference was
//            shown. With fewer runs, a row says at most that these runs differ.
//            Each run makes its database larger. So results with different run numbers, or with
//            different pools, are not comparable.
#pragma once

#include <string>
#include <vector>

namespace lockstep::tpcc {

// Prints the comparison of the results in `files_b` with those in `files_a`; neither is empty.
// Returns 0; 1 if the results are not comparable, which is explained; 2 if a file cannot be read as
// a result. With `force` it prints the ratios of results that are not comparable below a warning,
// and returns 0.
int compare_files(const std::vector<std::string>& files_a, const std::vector<std::string>& files_b,
                  bool force);

}  // namespace lockstep::tpcc
