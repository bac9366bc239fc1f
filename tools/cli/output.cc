// output.cc - writing, with every error kept.
#include "tools/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::cli {

Output::Output(const std::string& path) : path_(path.empty() ? "-" : path) {
    if (path_ == "-") {
        path_ = "standard output";
        fd_ = STDOUT_FILENO;
    } else {
        fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd_ < 0) error_ = path_ + ": " + std::strerror(errno);
    }
    text_.reserve(kPiece + kPiece / 8);
}

Output::~Output() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
}

bool Output::flush() {
    const char* at = text_.data();
    for (size_t left = text_.size(); left > 0 && error_.empty();) {
        const ssize_t n = ::write(fd_, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            error_ = path_ + ": " + std::strerror(n < 0 ? errno : ENOSPC);
            break;
        }
        at += n;
        left -= static_cast<size_t>(n);
    }
    text_.clear();
    return error_.empty();
}

std::string Output::finish() {
    flush();
    // Pipes and terminals cannot be synced: EINVAL.
    if (error_.empty() && ::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS)
        error_ = path_ + ": " + std::strerror(errno);
    return error_;
}

}  // namespace lockstep::cli
