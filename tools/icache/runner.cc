// runner.cc - child processes: address space layout fixed, environment fixed, results through a
// file.
#include "tools/icache/runner.h"
#include "threads/base/try.h"
#include "tools/base/option_names.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep::icache {

namespace {

constexpr const char* kValgrind = "/usr/bin/valgrind";
constexpr const char* kTracerName = "lockstep-tracer";

std::vector<std::string> child_arguments(const RunnerSettings& s, bool native,
                                         const std::string& result) {
    std::vector<std::string> plan;
    plan.reserve(s.child.plan.size());
    for (const Part& part : s.child.plan) plan.push_back(part.text());
    const WorkloadSettings& w = s.child.workload;
    std::vector<std::string> words = {"child",
                                      "--plan",
                                      fmt::format("{}", fmt::join(plan, ",")),
                                      "--result",
                                      result,
                                      "--path",
                                      s.directory,
                                      "--seed",
                                      std::to_string(w.seed),
                                      "--rounds",
                                      std::to_string(w.rounds),
                                      "--warm-rounds",
                                      std::to_string(w.warm_rounds),
                                      "--transactions",
                                      std::to_string(w.transactions),
                                      "--warm-transactions",
                                      std::to_string(w.warm_transactions),
                                      "--warehouses",
                                      std::to_string(w.warehouses),
                                      "--seconds",
                                      fmt::format("{}", s.child.seconds),
                                      "--team-max",
                                      std::to_string(s.child.team_max),
                                      "--team-policy",
                                      name_of(kTeamPolicies, s.child.team_policy),
                                      "--team-gate",
                                      name_of(kTeamGates, s.child.team_gate),
                                      "--lock-policy",
                                      name_of(kLockPolicies, s.child.lock_stage.policy),
                                      "--lock-bypass",
                                      std::to_string(s.child.lock_stage.bypass_max)};
    if (s.child.float_state) words.push_back("--float-state");
    if (native) words.push_back("--native");
    if (!s.child.points.empty()) words.insert(words.end(), {"--points", s.child.points});
    return words;
}

// Same environment whoever calls: its size moves the initial stack.
int run(std::vector<std::string> words) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        personality(ADDR_NO_RANDOMIZE);
        std::string launcher = std::string("VALGRIND_LAUNCHER=") + kValgrind, locale = "LC_ALL=C";
        char* environment[] = {launcher.data(), locale.data(), nullptr};
        execve(argv[0], argv.data(), environment);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

Result<nlohmann::ordered_json> read_result(int status, const std::string& path, const char* who) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail(ErrorCode::io_error, who, static_cast<uint64_t>(status));
    std::ifstream in(path);
    auto json = nlohmann::ordered_json::parse(in, nullptr, false);
    if (json.is_discarded()) return fail(ErrorCode::io_error, "the child wrote no result");
    return json;
}

}  // namespace

Result<std::string> find_tracer(const std::string& self) {
    const auto folder = std::filesystem::path(self).parent_path();
    std::string tracer = (folder / kTracerName).string();
    if (access(tracer.c_str(), X_OK) != 0)  // an installed program
        tracer = (folder.parent_path() / "libexec" / "lockstep" / kTracerName).string();
    if (access(tracer.c_str(), X_OK) != 0)
        return fail(ErrorCode::unsupported,
                    "the tracer lockstep-tracer was not built: install valgrind (Debian: apt-get "
                    "install valgrind) and build again");
    if (access(kValgrind, X_OK) != 0)
        return fail(ErrorCode::unsupported,
                    "valgrind is missing; install it (Debian: apt-get install valgrind)");
    return tracer;
}

Result<Traced> trace_child(const RunnerSettings& settings, const std::string& trace_path) {
    const std::string tracer = TRY(find_tracer(settings.self)),
                      result = settings.directory + "/traced.json";
    std::vector<std::string> words = {tracer, "--tool=lockstep-tracer", "-q",
                                      "--trace-file=" + trace_path, settings.self};
    for (auto& word : child_arguments(settings, false, result)) words.push_back(word);
    auto info =
        TRY(read_result(run(words), result, "the traced child failed; its message stands above"));
    return Traced{TRY(TraceFile::open(trace_path)), std::move(info)};
}

Result<nlohmann::ordered_json> time_child(const RunnerSettings& settings) {
    const std::string result = settings.directory + "/native.json";
    std::vector<std::string> words = {settings.self};
    for (auto& word : child_arguments(settings, true, result)) words.push_back(word);
    const int status = run(words);
    std::error_code ignored;
    std::filesystem::remove_all(settings.directory + "/native", ignored);
    return read_result(status, result, "the native child failed; its message stands above");
}

}  // namespace lockstep::icache
