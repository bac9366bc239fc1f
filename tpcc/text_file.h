// text_file.h - writes a whole text to a file.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/result.h>

namespace lockstep::tpcc {

// Replaces the file. `what` names the option in errors: bad_path, no_space or io_error with the
// errno. Blocks.
Result<void> write_text_file(const std::string& file, std::string_view text, const char* what);

}  // namespace lockstep::tpcc
