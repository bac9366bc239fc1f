// option_checks.h - what options of command lines have in common, for the driver and the tools.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>

namespace lockstep::tpcc {

// CLI::Range takes a NaN, which is in no range.
inline CLI::Validator number_in(double least, double most) {
    const CLI::Range range(least, most);
    return {[range](std::string& text) {
                double number = 0;
                const bool parsed = CLI::detail::lexical_cast(text, number);
                return parsed && std::isnan(number) ? text + " is not a number" : range(text);
            },
            range.get_description()};
}

// For paths and times: what a shell makes of a variable that is not set is no choice.
inline const CLI::Validator kNotEmpty(
    [](std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); }, "");

// CLI11 makes a large number of a negative one.
inline const CLI::Validator kNotNegative(
    [](std::string& text) { return text.starts_with('-') ? text + " is negative" : std::string(); },
    "");

}  // namespace lockstep::tpcc
