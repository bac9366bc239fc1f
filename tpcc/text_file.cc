// text_file.cc - writes a whole text to a file.
#include "tpcc/text_file.h"

#include <cerrno>
#include <cstdio>

namespace lockstep::tpcc {

Result<void> write_text_file(const std::string& file, std::string_view text, const char* what) {
    std::FILE* out = std::fopen(file.c_str(), "we");
    if (!out) return fail_os(ErrorCode::bad_path, errno, what);
    int error = std::fwrite(text.data(), 1, text.size(), out) == text.size() ? 0 : errno;
    if (std::fclose(out) != 0 && error == 0) error = errno;
    if (error == 0) return {};
    return fail_os(error == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error, error, what);
}

}  // namespace lockstep::tpcc
