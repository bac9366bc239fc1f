// say.h - formatted text on standard output and standard error.
//
// Concepts   fmt::print() throws if the disk is full or the pipe is closed. A run must not lose its
//            other results by that. So a failure of standard output is kept, and the program looks
//            at it before it ends (flushed()). What standard error does not take is lost.
// Blocking   Any kernel thread. Blocks it for the write.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep {

// The errno of the first write to standard output that failed; 0: each has succeeded. It belongs to
// the process, as standard output does.
inline std::atomic<int> output_failure{0};

inline void keep_output_failure(int error) {
    int none = 0;
    output_failure.compare_exchange_strong(none, error != 0 ? error : EIO);
}

inline void flush_output() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) keep_output_failure(errno);
}

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
    errno = 0;
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) keep_output_failure(errno);
}

template <class... Arguments>
void say_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    (void)std::fputs(fmt::format(format, std::forward<Arguments>(arguments)...).c_str(), stderr);
}

// At the end of a program: its exit status, or `failed` instead of 0 if a part of the output is
// lost. Then it says why.
inline int flushed(const char* program, int status, int failed) {
    flush_output();
    const int error = output_failure.load();
    if (error == 0) return status;
    say_error("{}: standard output: {}\n", program, std::strerror(error));
    return status == 0 ? failed : status;
}

// A program whose output fmt::print() may write: run()'s exit status, or `failed` as above.
template <class Run>
int run_flushed(const char* program, int failed, const Run& run) {
    try {
        return flushed(program, run(), failed);
    } catch (const std::system_error& error) {
        say_error("{}: {}\n", program, error.what());
        return failed;
    }
}

// "1 warehouse", "2 warehouses".
inline std::string count_text(uint64_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// "1503", "9.66": the pace of the specification is half a transaction a second and warehouse.
inline std::string rate_text(double rate) {
    return rate < 100 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate);
}

}  // namespace lockstep
