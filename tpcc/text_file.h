// text_file.h - writes a whole text to a file, and finds out in time whether it will be possible.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/result.h>

namespace lockstep::tpcc {

// Replaces the file. `what` names the option in errors: bad_path, no_space or io_error with the
// errno. Blocks.
Result<void> write_text_file(const std::string& file, std::string_view text, const char* what);

// Before a long run, whose results must not be lost because of their file: makes it if it is
// missing. Nothing happens if the name is empty. `what` as above. Error: bad_path. Blocks.
Result<void> require_writable(const std::string& file, const char* what);

}  // namespace lockstep::tpcc
