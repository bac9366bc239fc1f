// build_info.h - which program measured, and on which machine: part of every result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep {

// Of the sources, at the last build. tools/cmake/commit.cmake makes the file that defines them.
const char* built_version();
const char* built_commit();

// How this program was built.
struct BuildInfo {
    std::string version;   // of the project
    std::string commit;    // with "+changes" if files differed from it; "unknown" outside git
    std::string compiler;  // name and version
    // Words such as "optimised", "assertions", "debug checks", "address sanitizer".
    std::string kind;
};
BuildInfo build_info();
// One line for --version of a program.
std::string version_text(const char* program);

// The machine that this process runs on, as the kernel describes it.
struct MachineInfo {
    std::string processor;
    unsigned processors = 0;          // that this process may use
    std::vector<std::string> caches;  // of processor 0, such as "L1 instruction 32 KB"
    uint64_t memory_bytes = 0;
    std::string kernel;
};
MachineInfo machine_info();

nlohmann::ordered_json build_json();
nlohmann::ordered_json machine_json();

}  // namespace lockstep
