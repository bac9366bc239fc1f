// parse_failure.h - what a program says about a command line that it cannot use: its name, what is
// wrong, and the option or command that was probably meant.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Characters to insert, erase or replace until both are equal (Levenshtein).
inline size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i);
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
        }
    }
    return row.back();
}

// The name that differs least from what was typed. A name that it begins differs by nothing. Empty:
// all differ by more than a third.
inline std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
    std::string nearest;
    size_t least = typed.size() / 3 + 1;
    for (const std::string& name : names) {
        const bool begins = typed.size() > 3 && name.starts_with(typed);
        const size_t distance = begins ? 0 : edit_distance(typed, name);
        if (distance < least) nearest = name;
        least = std::min(least, distance);
    }
    return nearest;
}

inline std::string or_nearest(std::string_view typed, const std::vector<std::string>& names) {
    const std::string nearest = nearest_name(typed, names);
    return nearest.empty() ? "--help lists them" : fmt::format("did you mean {}?", nearest);
}

inline std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

inline std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

// Of the first word that `app` does not know; empty: it knows all.
inline std::string unknown_text(const CLI::App& app) {
    const std::vector<std::string> unknown = app.remaining();
    if (unknown.empty()) return {};
    const auto option =
        std::ranges::find_if(unknown, [](const auto& word) { return word.starts_with('-'); });
    if (option == unknown.end())
        return fmt::format("unexpected argument '{}'; --help shows what it takes", unknown[0]);
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("no option {}; {}", name, or_nearest(name, option_names(app)));
}

// For CLI::App::failure_message().
inline std::string parse_failure(const CLI::App* app, const CLI::Error& error) {
    std::string name = app->get_name();
    std::string what = unknown_text(*app);
    while (!app->get_subcommands().empty()) {
        app = app->get_subcommands().front();
        name += ": " + app->get_name();
        if (what.empty()) what = unknown_text(*app);
    }
    if (what.empty()) what = fmt::format("{} (--help lists the options)", error.what());
    return fmt::format("{}: {}\n", name, what);
}

}  // namespace lockstep
