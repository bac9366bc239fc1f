// runner.h - starts this program again as a child: under the tracer, or natively.
#pragma once

#include "tools/icache/child.h"
#include "tools/icache/trace_file.h"

namespace lockstep::icache {

struct RunnerSettings {
    std::string self;       // this program
    std::string directory;  // scratch space
    ChildSettings child;
};

// The tracer beside this program, usable. unsupported: valgrind is not installed, or the tracer was
// not built (what and why in `what`).
Result<std::string> find_tracer(const std::string& self);

struct Traced {
    TraceFile trace;
    nlohmann::ordered_json info;  // what run_traced() gave
};
// `trace_path`: where the trace goes; the caller removes it. Errors: those of find_tracer; io_error
// if the child failed.
Result<Traced> trace_child(const RunnerSettings& settings, const std::string& trace_path);
Result<nlohmann::ordered_json> time_child(const RunnerSettings& settings);

}  // namespace lockstep::icache
