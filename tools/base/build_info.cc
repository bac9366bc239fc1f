// build_info.cc - the build and the machine.
#include "tools/base/build_info.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "threads/base/sanitized.h"

namespace lockstep {

namespace {

// The first line of a file; empty if it cannot be read.
std::string line_of(const std::string& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    return line;
}

std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

unsigned usable_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
    return static_cast<unsigned>(CPU_COUNT(&set));
}

std::vector<std::string> cache_names() {
    std::vector<std::string> caches;
    for (unsigned i = 0;; ++i) {
        const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
        const std::string size = line_of(folder + "size");
        if (size.empty()) return caches;
        std::string type = line_of(folder + "type");
        type = type == "Unified" ? "" : type == "Data" ? " data" : " instruction";
        caches.push_back(fmt::format("L{}{} {}B", line_of(folder + "level"), type, size));
    }
}

std::string compiler_name() {
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

std::string build_kind() {
    std::vector<const char*> words;
#ifdef __OPTIMIZE__
    words.push_back("optimised");
#else
    words.push_back("not optimised");
#endif
#ifdef LOCKSTEP_DEBUG_CHECKS
    words.push_back("debug checks");
#endif
    if (kAddressSanitizer) words.push_back("address sanitizer");
    if (kThreadSanitizer) words.push_back("thread sanitizer");
    return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

BuildInfo build_info() { return {built_version(), built_commit(), compiler_name(), build_kind()}; }

std::string version_text(const char* program) {
    const BuildInfo build = build_info();
    return fmt::format("{} {} (commit {}; {}; {})", program, build.version, build.commit,
                       build.compiler, build.kind);
}

MachineInfo machine_info() {
    MachineInfo machine;
    machine.processor = processor_name();
    machine.processors = usable_processors();
    machine.caches = cache_names();
    machine.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    utsname kernel{};
    if (uname(&kernel) == 0)
        machine.kernel = fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine);
    return machine;
}

nlohmann::ordered_json build_json() {
    const BuildInfo build = build_info();
    return {{"version", build.version},
            {"commit", build.commit},
            {"compiler", build.compiler},
            {"kind", build.kind}};
}

nlohmann::ordered_json machine_json() {
    const MachineInfo machine = machine_info();
    return {{"processor", machine.processor},
            {"processors", machine.processors},
            {"caches", machine.caches},
            {"memory_bytes", machine.memory_bytes},
            {"kernel", machine.kernel}};
}

}  // namespace lockstep
