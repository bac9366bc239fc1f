// live_copy.cc - makes the copy through the control socket, and deletes it.
#include "tools/cli/live/live_copy.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "threads/base/try.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

LiveError of_error(const std::string& thing, const Error& error) {
    return {.code = error_name(error.code),
            .thing = thing,
            .reason = error.text(),
            .remedy = "let TMPDIR name a directory with as much space as the store needs"};
}

// What opens a backup makes a store of it. It is closed then, as the commands want it.
Result<void> make_store(const std::string& backup) {
    Store store = TRY(open_copy(backup));
    return store.close();
}

}  // namespace

Live<LiveCopy> LiveCopy::of(const std::string& store, bool live) {
    if (!live) return LiveCopy(store, {});
    auto client = LiveClient::connect(store);
    if (!client) return std::unexpected(client.error());
    const char* const wanted = std::getenv("TMPDIR");
    const std::string below = wanted != nullptr && *wanted != '\0' ? wanted : "/var/tmp";
    std::string place = std::filesystem::absolute(below) / "lockstep-live-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr)
        return std::unexpected(LiveError{.code = "no_directory",
                                         .thing = below,
                                         .reason = std::strerror(errno),
                                         .remedy = "let TMPDIR name a directory for the copy"});
    LiveCopy copy(place + "/store", place);
    Json request = command("backup");
    request["to"] = copy.directory();
    if (const auto answer = client->ask(request, -1); !answer)
        return std::unexpected(answer.error());
    if (const auto made = make_store(copy.directory()); !made)
        return std::unexpected(of_error(copy.directory(), made.error()));
    return copy;
}

LiveCopy::~LiveCopy() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove_all(made_, ignored);
}

CLI::Option* add_live_option(CLI::App& command, bool& live) {
    return command.add_flag("--live", live,
                            "Another process has the store open (Options::control): look at a copy "
                            "that it makes below $TMPDIR, or else below /var/tmp");
}

}  // namespace lockstep::cli
