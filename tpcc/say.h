// say.h - formatted text on standard output.
//
// Concepts   fmt::print() throws if the disk is full or the pipe is closed. A run must not lose its
//            other results by that. So a failure leaves its mark in the stream only, and the
//            program looks at it before it ends (flushed() in main.cc).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace lockstep::tpcc {

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

// "1 warehouse", "2 warehouses".
inline std::string count_text(uint64_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace lockstep::tpcc
