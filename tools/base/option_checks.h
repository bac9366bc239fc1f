// option_checks.h - what options of command lines have in common, for the driver and the tools.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <string>

#include "threads/base/check.h"

namespace lockstep {

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

// Help with one name of each option besides its letter. Further names are for who knows an option
// from another of the programs: --seconds is the driver's --duration.
class OneNameFormatter : public CLI::Formatter {
public:
    std::string make_option_name(const CLI::Option* option, bool positional) const override {
        if (positional || option->get_lnames().empty())
            return CLI::Formatter::make_option_name(option, positional);
        DCHECK(option->get_snames().size() <= 1);
        std::string name = "--" + option->get_lnames().front();
        for (const std::string& letter : option->get_snames())
            name.insert(0, ",").insert(0, letter).insert(0, "-");
        return name;
    }
};

// Of a program, before it adds commands, which inherit it; or of one command.
inline void show_one_name(CLI::App& app) { app.formatter(std::make_shared<OneNameFormatter>()); }

}  // namespace lockstep
