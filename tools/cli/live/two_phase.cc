// two_phase.cc - `lockstep prepared`, `commit` and `rollback`: the operator in place of a lost
// coordinator, for an open store and for a closed one.
#include <fmt/format.h>

#include "sm/observe/control_json.h"
#include "sm/observe/gid_text.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/live/live_text.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

Json json_of_prepared(const std::vector<PreparedInfo>& all) {
    Json list = Json::array();
    for (const PreparedInfo& of : all)
        list.push_back({{"gid", sm::gid_text(of.gid)},
                        {"transaction", of.id.value},
                        {"age_nanos", of.age},
                        {"locks", of.locks}});
    return {{"prepared", list}};
}

int show(const Json& answer, bool json) {
    if (json) {
        fmt::print("{}\n", json_text(answer, 2));
        return 0;
    }
    const Json& all = answer["prepared"];
    if (!all.empty()) fmt::print("{:>10} {:>8} {:>6}  {}\n", "ID", "AGE", "LOCKS", "GID");
    for (const Json& of : all)
        fmt::print("{:>10} {:>8} {:>6}  {}\n", of["transaction"].get<uint64_t>(),
                   time_text(of["age_nanos"].get<uint64_t>()), of["locks"].get<uint64_t>(),
                   of["gid"].get<std::string>());
    fmt::print("{} in doubt\n", counted(all.size(), "transaction", "transactions"));
    return 0;
}

int show_end(bool ended, const std::string& gid, bool commits, bool json) {
    const char* const outcome = commits ? "committed" : "rolled back";
    if (json) fmt::print("{}\n", json_text({{"gid", gid}, {"ended", ended}}, 2));
    else if (ended) fmt::print("{} is {}\n", gid, outcome);
    else complain(gid, "is not in doubt: it has ended, or it was never prepared here");
    return ended ? 0 : 1;
}

// Asks the process that has the store open. Empty: none has.
std::optional<Live<Json>> ask_live(const std::string& path, const Json& request) {
    auto client = LiveClient::connect(path);
    if (!client && client.error().code == "not_open") return std::nullopt;
    if (!client) return Live<Json>(std::unexpected(client.error()));
    return client->ask(request, -1);
}

int failed(const std::string& doing, const Error& error, bool json) {
    if (!json) return complain(doing, error.text());
    fmt::print("{}\n", json_text(sm::json_of(error), 2));
    return 1;
}

// Opens the closed store for `work`, which recovers it.
template <class Work>
int in_closed_store(const TwoPhaseSettings& o, Work work) {
    auto store = open_store(o.path, {.archive = o.archive});
    if (!store) return failed(o.path, store.error(), o.json);
    const int status = work(*store);
    const auto closed = store->close();
    return closed ? status : failed(o.path, closed.error(), o.json);
}

}  // namespace

int list_prepared(const TwoPhaseSettings& o) {
    if (const auto answer = ask_live(o.path, command("prepared")))
        return *answer ? show(**answer, o.json) : live_failed(answer->error(), o.json);
    return in_closed_store(
        o, [&](Store& store) { return show(json_of_prepared(store.prepared()), o.json); });
}

int end_prepared(const TwoPhaseSettings& o, const std::string& text, bool commits) {
    const auto gid = sm::gid_of_text(text);
    if (!gid)
        return live_failed(
            {"bad_argument", text,
             fmt::format("a gid has 1 to {} bytes, and a backslash only in \\xNN", kGidBytesMax),
             "`lockstep prepared` lists the gids"},
            o.json);
    Json request = command(commits ? "commit" : "rollback");
    request["gid"] = text;
    if (const auto answer = ask_live(o.path, request))
        return *answer ? show_end((**answer)["ended"].template get<bool>(), text, commits, o.json)
                       : live_failed(answer->error(), o.json);
    return in_closed_store(o, [&](Store& store) {
        const auto ended = commits ? store.commit_prepared(*gid) : store.rollback_prepared(*gid);
        return ended.has_value() ? show_end(*ended, text, commits, o.json)
                                 : failed(text, ended.error(), o.json);
    });
}

}  // namespace lockstep::cli
