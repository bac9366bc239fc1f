// load_state.cc - reading and replacing state.json.
#include "tools/cli/load/load_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/cli/output.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string name_of(const json& hex) {
    auto text = hex.get<std::string>();
    if (!from_hex(text, text.data())) throw Failed("a name is not hexadecimal");
    text.resize(text.size() / 2);
    return text;
}

Target target_of(const json& j, const std::string& folder) {
    Target target{.name = name_of(j.at("name")),
                  .is_index = j.at("index").get<bool>(),
                  .bulk = j.at("bulk").get<bool>(),
                  .seen = j.at("seen").get<uint64_t>()};
    for (const json& run : j.at("runs"))
        target.runs.push_back({.path = folder + "/" + run.at("file").get<std::string>(),
                               .bytes = run.at("bytes").get<uint64_t>(),
                               .pairs = run.at("pairs").get<uint64_t>()});
    return target;
}

json json_of_target(const Target& target) {
    json runs = json::array();
    for (const RunFile& run : target.runs)
        runs.push_back({{"file", fs::path(run.path).filename().string()},
                        {"bytes", run.bytes},
                        {"pairs", run.pairs}});
    return {{"name", to_hex(target.name)},
            {"index", target.is_index},
            {"bulk", target.bulk},
            {"seen", target.seen},
            {"runs", runs}};
}

LeftOut secondary_of(const json& j) {
    return {.name = name_of(j.at("name")),
            .of = name_of(j.at("of")),
            .unique = j.at("unique").get<bool>()};
}

json json_of_left_out(const LeftOut& secondary) {
    return {{"name", to_hex(secondary.name)},
            {"of", to_hex(secondary.of)},
            {"unique", secondary.unique}};
}

void sync_folder(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = fd >= 0 && ::fsync(fd) == 0;
    const int err = errno;
    if (fd >= 0) ::close(fd);
    if (!synced) throw Failed(path + ": " + std::strerror(err));
}

}  // namespace

std::string LoadFolder::new_run() {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw Failed(path_ + ": " + error.message());
    std::string name;
    do name = path_ + "/run." + std::to_string(next_run_++);
    while (fs::exists(name, error));
    return name;
}

std::optional<LoadState> LoadFolder::read(uint64_t fingerprint) {
    const std::string file = path_ + "/state.json";
    std::ifstream in(file);
    if (!in) return std::nullopt;
    try {
        const json j = json::parse(in);
        if (j.at("fingerprint").get<uint64_t>() != fingerprint)
            throw Failed("it belongs to another input");
        LoadState state;
        state.place = {j.at("bytes").get<uint64_t>(), j.at("lines").get<uint64_t>()};
        state.records = j.at("records").get<uint64_t>();
        state.ended = j.at("ended").get<bool>();
        for (const json& target : j.at("targets"))
            state.targets.push_back(target_of(target, path_));
        for (const json& secondary : j.at("secondaries"))
            state.secondaries.push_back(secondary_of(secondary));
        const json& rejects = j.at("rejects");
        state.rejects = {rejects.at(0), rejects.at(1), rejects.at(2)};
        return state;
    } catch (const std::exception& error) {
        throw Failed(file + ": " + error.what() + " (--forget and load again)");
    }
}

void LoadFolder::write(const LoadState& state, uint64_t fingerprint) {
    json targets = json::array(), secondaries = json::array();
    for (const Target& target : state.targets) targets.push_back(json_of_target(target));
    for (const LeftOut& secondary : state.secondaries)
        secondaries.push_back(json_of_left_out(secondary));
    const json j = {
        {"fingerprint", fingerprint},
        {"bytes", state.place.bytes},
        {"lines", state.place.lines},
        {"records", state.records},
        {"ended", state.ended},
        {"targets", targets},
        {"secondaries", secondaries},
        {"rejects", {state.rejects.refused, state.rejects.bytes, state.rejects.why_bytes}}};
    std::error_code error;
    fs::create_directories(path_, error);
    const std::string fresh = path_ + "/state.new", file = path_ + "/state.json";
    Output out(fresh);
    out.text() = j.dump();
    if (const std::string wrong = out.finish(); !wrong.empty()) throw Failed(wrong);
    fs::rename(fresh, file, error);
    if (error) throw Failed(file + ": " + error.message());
    sync_folder(path_);
}

void LoadFolder::remove() {
    std::error_code error;
    fs::remove_all(path_, error);
    if (error) throw Failed(path_ + ": " + error.message());
}

}  // namespace lockstep::cli
