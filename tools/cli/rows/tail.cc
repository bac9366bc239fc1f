// tail.cc - `lockstep tail`: the committed changes of a store as JSON lines.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "sm/api/engine_of.h"
#include "sm/observe/control_json.h"
#include "tools/base/option_checks.h"
#include "tools/cli/commands.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // between two looks

struct Tail {
    std::string path, from = "oldest";
    std::optional<std::string> archive;
    bool follow = false;
    uint64_t left = UINT64_MAX;  // lines that may still be printed

    int run();
    int run_live(LiveClient& client);
    int run_closed();
    bool print(Json change);
};

// Bytes that are text, as a dump spells them.
void spell(Json& bytes) {
    std::string text;
    if (!bytes.is_object()) return;
    text = bytes["hex"].get<std::string>();
    if (!from_hex(text, text.data())) return;
    text.resize(text.size() / 2);
    if (is_plain_text(text)) bytes = text;
}

// False: no more lines are wanted, or they cannot be written.
bool Tail::print(Json change) {
    if (left == 0) return false;
    for (const char* const field : {"index", "heap", "key", "value", "old"})
        if (const auto at = change.find(field); at != change.end()) spell(*at);
    fmt::print("{}\n", json_text(change));
    from = change["position"].get<std::string>();
    return --left != 0;
}

int Tail::run_live(LiveClient& client) {
    for (;;) {
        Json request = command("changes");
        request["from"] = from;
        const auto answer = client.ask(request, -1);
        if (!answer) return live_failed(answer.error(), false);
        for (const Json& change : (*answer)["changes"])
            if (!print(change)) return 0;
        const auto position = (*answer)["position"].get<std::string>();
        const bool all = (*answer)["changes"].empty();
        from = position;
        if (std::fflush(stdout) != 0) return complain("tail", "the output cannot be written");
        if (all && !follow) return 0;
        if (all) std::this_thread::sleep_for(kPause);
    }
}

int Tail::run_closed() {
    auto store = open_to_look(path, {.archive = archive}, true);
    if (!store) return complain(path, text_of_failed_open(path, store.error()));
    const auto end = sm::engine_of(*store).read_changes(
        from == "now" ? "" : from, [&](const Change& change, const std::string& position) {
            Json line = {{"position", position}};
            line.update(sm::json_of(change));
            return print(std::move(line));
        });
    if (!end.has_value()) return complain(path, end.error(), false);
    const auto closed = store->close();
    return closed ? 0 : complain(path, closed.error().text());
}

int Tail::run() {
    auto client = LiveClient::connect(path);
    if (!client && (client.error().code != "not_open" || follow))
        return live_failed(client.error(), false);
    if (!client) return run_closed();
    if (from == "now") from.clear();
    return run_live(*client);
}

}  // namespace

void add_tail(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "tail",
        "Committed changes of a store in the order of their commits, a line of JSON each. Asks the "
        "process that has the store open (Options::control); else opens a closed store, and "
        "recovers one that was not closed. Each line has the position behind its change: a later "
        "call goes on there with --from, and gives each change once.\n"
        "Exit status: 0, or 1 if the command failed, also if the log that it needs is gone "
        "(Options::changes_log_bytes); 2 a process has the store open and does not answer, or none "
        "has it and --follow was given. After a signal it is 128 and the signal's number.");
    auto tail = std::make_shared<Tail>();
    command->add_option("path", tail->path, "Store directory")->required();
    command
        ->add_option("--from", tail->from,
                     "Position of a line; oldest: as far back as the log is known to reach; now")
        ->capture_default_str();
    command->add_flag("--follow,-f", tail->follow, "Wait for further changes of an open store");
    command->add_option("--limit", tail->left, "Stop after that many lines (default: all)")
        ->check(kNotNegative);
    add_archive_option(*command, tail->archive);
    command->callback([tail, &status] { status = tail->run(); });
}

}  // namespace lockstep::cli
