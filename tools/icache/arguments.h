// arguments.h - the command line of lockstep-icache.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/icache/runner.h"

namespace lockstep::icache {

struct Arguments {
    RunnerSettings runner;
    std::vector<std::string> what;
    std::vector<uint32_t> threads = {10};
    std::vector<std::string> geometry_texts;
    bool sweep = false, no_time = false, native = false, as_cachegrind = false;
    std::vector<uint32_t> pads;
    std::string mode = "ctx", json, out, plan, result, trace;
    std::string command;      // as it was typed
    std::string points_name;  // --points, before a file is read
    std::vector<std::string> program;
};

void add_workload_options(CLI::App& app, Arguments& a);
void add_geometry_options(CLI::App& app, Arguments& a);

}  // namespace lockstep::icache
