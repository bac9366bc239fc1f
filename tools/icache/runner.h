// runner.h - starts this program again as a child, under the tracer or natively.
#pragma once

#include "tools/icache/child.h"
#include "tools/icache/trace_file.h"

namespace lockstep::icache {

struct RunnerSettings {
    std::string self;       // this program
    std::string directory;  // scratch space
    ChildSettings child;
};

// Path of a usable tracer: beside this program, or in ../libexec/lockstep of its folder. Errors:
// unsupported if valgrind is not installed or the tracer was not built; `what` says which.
Result<std::string> find_tracer(const std::string& self);

struct Traced {
    TraceFile trace;
    nlohmann::ordered_json info;  // result of run_traced()
};
// `trace_path`: the file for the trace; the caller removes it. Errors: those of find_tracer(),
// io_error if the child failed.
Result<Traced> trace_child(const RunnerSettings& settings, const std::string& trace_path);
Result<nlohmann::ordered_json> time_child(const RunnerSettings& settings);

}  // namespace lockstep::icache
