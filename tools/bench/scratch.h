// scratch.h - the directory in which a program measures: the user's, or a temporary one.
//
// Concepts   A temporary directory holds gigabytes, so it is removed however the program ends. A
//            process of its own waits until the last descriptor of a pipe is closed. The system
//            closes it at Ctrl-C, at a kill and at a crash, too.
// Blocking   Blocks the kernel thread.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "threads/base/check.h"

namespace lockstep::bench {

class Scratch {
public:
    // `given` is the user's directory, which is made if it is missing, and stays. Empty: a
    // temporary one below `base` with the program's name. Call it before there are kernel threads.
    Scratch(std::string given, const std::filesystem::path& base, const char* program)
        : path_(std::move(given)), temporary_(path_.empty()) {
        DCHECK(program != nullptr && *program != '\0');
        if (temporary_) path_ = (base / fmt::format("{}.XXXXXX", program)).string();
        std::filesystem::create_directories(temporary_ ? base : std::filesystem::path(path_),
                                            error_);
        if (!temporary_ || error_) return;
        // A new one, because it is removed: processes of two containers have equal numbers.
        if (mkdtemp(path_.data()) == nullptr) error_ = {errno, std::generic_category()};
        else start_guard();
    }
    ~Scratch() {
        if (guard_ <= 0) {
            remove();
            return;
        }
        close(alive_);
        waitpid(guard_, nullptr, 0);
    }
    Scratch(const Scratch&) = delete;

    const std::string& path() const { return path_; }
    // Why the directory could not be made.
    const std::error_code& error() const { return error_; }

private:
    void remove() const {
        std::error_code ignored;
        if (temporary_ && !error_) std::filesystem::remove_all(path_, ignored);
    }

    // A session of its own: the terminal's signals do not reach it.
    void start_guard() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return;
        guard_ = fork();
        if (guard_ == 0) {
            close(ends[1]);
            setsid();
            char byte = 0;
            while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {}
            remove();
            _exit(0);
        }
        close(ends[0]);
        alive_ = ends[1];
    }

    std::string path_;
    const bool temporary_;
    std::error_code error_;
    pid_t guard_ = 0;
    int alive_ = -1;
};

}  // namespace lockstep::bench
