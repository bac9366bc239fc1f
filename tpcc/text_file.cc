// text_file.cc - writes whole texts to files.
#include "tpcc/text_file.h"

#include <cerrno>
#include <cstdio>

#include "threads/base/error_detail.h"

namespace lockstep::tpcc {

namespace {

Unexpected not_written(const std::string& file, int error, const char* what) {
    const ErrorCode code = error == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error;
    Unexpected failed = fail_os(code, error, what);
    set_error_detail(failed.error(), file + " could not be written");
    return failed;
}

Unexpected not_opened(const std::string& file, int error, const char* what) {
    Unexpected refused = fail_os(ErrorCode::bad_path, error, what);
    set_error_detail(refused.error(), file + " cannot be written");
    return refused;
}

}  // namespace

Result<void> write_text_file(const std::string& file, std::string_view text, const char* what) {
    std::FILE* out = std::fopen(file.c_str(), "we");
    if (!out) return not_opened(file, errno, what);
    int error = std::fwrite(text.data(), 1, text.size(), out) == text.size() ? 0 : errno;
    if (std::fclose(out) != 0 && error == 0) error = errno;
    if (error != 0) return not_written(file, error, what);
    return {};
}

Result<void> require_writable(const std::string& file, const char* what) {
    if (file.empty()) return {};
    std::FILE* const out = std::fopen(file.c_str(), "ae");
    if (!out) return not_opened(file, errno, what);
    (void)std::fclose(out);
    return {};
}

}  // namespace lockstep::tpcc
