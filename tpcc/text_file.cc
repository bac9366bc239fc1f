// text_file.cc - writes whole texts to files.
#include "tpcc/text_file.h"

#include <cerrno>
#include <cstdio>

#include "threads/base/error_detail.h"

namespace lockstep::tpcc {

Result<void> write_text_file(const std::string& file, std::string_view text, const char* what) {
    std::FILE* out = std::fopen(file.c_str(), "we");
    if (!out) return fail_os(ErrorCode::bad_path, errno, what);
    int error = std::fwrite(text.data(), 1, text.size(), out) == text.size() ? 0 : errno;
    if (std::fclose(out) != 0 && error == 0) error = errno;
    if (error == 0) return {};
    return fail_os(error == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error, error, what);
}

Result<void> require_writable(const std::string& file, const char* what) {
    if (file.empty()) return {};
    if (std::FILE* const out = std::fopen(file.c_str(), "ae")) {
        (void)std::fclose(out);
        return {};
    }
    Unexpected refused = fail_os(ErrorCode::bad_path, errno, what);
    set_error_detail(refused.error(), file + " cannot be written");
    return refused;
}

}  // namespace lockstep::tpcc
