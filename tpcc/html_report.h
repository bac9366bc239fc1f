// html_report.h - one page with figures of a run. It contains all that it shows: it opens without
// network, and needs no script.
#pragma once

#include "tpcc/report.h"

namespace lockstep::tpcc {

// The whole page.
std::string html_page(const Results& results);
// Replaces the file. Errors: bad_path, no_space, io_error.
Result<void> write_html(const Results& results, const std::string& file);

}  // namespace lockstep::tpcc
