// text_file.h - writes a whole text to a file, and finds out in time whether it will be possible.
#pragma once

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

#include <lockstep/result.h>

#include "threads/base/error_detail.h"

namespace lockstep {

namespace text_file {

inline Unexpected not_written(const std::string& file, int error, const char* what) {
    const ErrorCode code = error == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error;
    Unexpected failed = fail_os(code, error, what);
    set_error_detail(failed.error(), file + " could not be written");
    return failed;
}

inline Unexpected not_opened(const std::string& file, int error, const char* what) {
    Unexpected refused = fail_os(ErrorCode::bad_path, error, what);
    set_error_detail(refused.error(), file + " cannot be written");
    return refused;
}

}  // namespace text_file

// Replaces the file. `what` names the option in errors: bad_path, no_space or io_error with the
// errno. Blocks.
inline Result<void> write_text_file(const std::string& file, std::string_view text,
                                    const char* what) {
    std::FILE* out = std::fopen(file.c_str(), "we");
    if (!out) return text_file::not_opened(file, errno, what);
    int error = std::fwrite(text.data(), 1, text.size(), out) == text.size() ? 0 : errno;
    if (std::fclose(out) != 0 && error == 0) error = errno;
    if (error != 0) return text_file::not_written(file, error, what);
    return {};
}

// Before a long run, whose results must not be lost because of their file: makes it if it is
// missing. Nothing happens if the name is empty. `what` as above. Error: bad_path. Blocks.
inline Result<void> require_writable(const std::string& file, const char* what) {
    if (file.empty()) return {};
    std::FILE* const out = std::fopen(file.c_str(), "ae");
    if (!out) return text_file::not_opened(file, errno, what);
    (void)std::fclose(out);
    return {};
}

}  // namespace lockstep
