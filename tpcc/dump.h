// dump.h - writes every table as a CSV file.
#pragma once

#include <string>

#include "tpcc/database.h"

namespace lockstep::tpcc {

// Creates `directory` if it does not exist and writes <table>.csv for the nine tables, in key order
// (history: in storage order). Money has two decimals, rates four, null is empty. Blocks. Errors:
// bad_path, no_space, errors of the store.
Result<void> dump_tables(Database& db, const std::string& directory);

}  // namespace lockstep::tpcc
