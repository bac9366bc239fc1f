// live_commands.cc - one question, one answer.
#include "tools/cli/live/live_commands.h"

#include <fmt/format.h>

#include "tools/base/say.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kWide = 1000;  // lists that scroll are not cut
constexpr size_t kHotLocksShown = 20;

Live<Json> ask(const std::string& path, const Json& request,
               int timeout_ms = LiveClient::kAnswerMs) {
    auto client = LiveClient::connect(path);
    if (!client) return std::unexpected(client.error());
    return client->ask(request, timeout_ms);
}

// Prints the answer, as JSON or by `show`.
template <class Show>
int print(const Live<Json>& answer, bool json, Show show) {
    if (!answer) return live_failed(answer.error(), json);
    if (json) fmt::print("{}\n", json_text(*answer, 2));
    else show(*answer);
    return 0;
}

}  // namespace

int live_failed(const LiveError& error, bool json) {
    if (json) fmt::print("{}\n", json_text(error.json(), 2));
    else say_error("lockstep: {}\n", error.text());
    return error.not_live() ? 2 : 1;
}

int live_locks(const std::string& path, bool json) {
    return print(ask(path, command("locks")), json, [](const Json& answer) {
        const Json& waits = answer["waits"];
        fmt::print("{} for a lock.\n",
                   counted(waits.size(), "transaction waits", "transactions wait"));
        if (!waits.empty()) fmt::print("{}", transactions_text(waits, kWide));
        fmt::print("\n{}", hot_locks_text(answer["hot_locks"], kWide, kHotLocksShown));
    });
}

int live_transactions(const std::string& path, bool json) {
    return print(ask(path, command("transactions")), json, [](const Json& answer) {
        fmt::print("{}", transactions_text(answer["transactions"], kWide));
        fmt::print("{}; + of the store itself, * ended from outside\n",
                   counted(answer["count"].get<uint64_t>(), "transaction", "transactions"));
    });
}

int live_end(const std::string& path, uint64_t id, bool json) {
    Json request = command("end");
    request["transaction"] = id;
    return print(ask(path, request), json, [](const Json& answer) {
        fmt::print("transaction {} is ended: its next call returns ended_by_operator\n",
                   answer["transaction"].get<uint64_t>());
    });
}

int live_checkpoint(const std::string& path, bool json) {
    return print(ask(path, command("checkpoint"), -1), json, [](const Json& answer) {
        fmt::print("checkpoint {} took {}; the log uses {} of {}\n",
                   answer["checkpoints"].get<uint64_t>(),
                   time_text(answer["took_nanos"].get<uint64_t>()),
                   bytes_text(answer["log_used_bytes"].get<double>()),
                   bytes_text(answer["log_capacity_bytes"].get<double>()));
    });
}

int live_metrics(const std::string& path) {
    return print(ask(path, command("metrics")), false,
                 [](const Json& answer) { fmt::print("{}", answer["text"].get<std::string>()); });
}

Live<std::optional<Json>> live_stat(const std::string& path) {
    auto answer = ask(path, command("stat"));
    if (answer) return *std::move(answer);
    if (answer.error().code == "not_open") return std::nullopt;
    return std::unexpected(answer.error());
}

void print_live_stat(const Json& answer, bool json) {
    if (json) {
        fmt::print("{}\n", json_text(answer, 2));
        return;
    }
    Json head = answer;
    head.erase("stats");
    head.erase("hot_locks");
    fmt::print("{}{}", fields_text(head), fields_text(answer["stats"]));
    for (const Json& of : answer["steps"]["teams"])
        fmt::print("{:<28} {}, {}\n", "team " + of["operation"].get<std::string>(),
                   counted(of["teams"].get<uint64_t>(), "team", "teams"),
                   counted(of["entered"].get<uint64_t>(), "thread", "threads"));
    fmt::print("\n{}", hot_locks_text(answer["hot_locks"], kWide, kHotLocksShown));
}

}  // namespace lockstep::cli
