// json_report.h - the results for scripts: one JSON document.
#pragma once

#include "tpcc/report.h"

namespace lockstep::tpcc {

// Replaces the file. Errors: bad_path, no_space or io_error with the errno.
Result<void> write_json(const Results& results, const std::string& file);

}  // namespace lockstep::tpcc
