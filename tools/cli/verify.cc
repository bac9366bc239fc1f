// verify.cc - `lockstep verify`: checks every page and every structure.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"
#include "tools/cli/number_options.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

struct VerifyOptions {
    std::string path;
    std::optional<std::string> archive;
    uint64_t pool = 1ull << 30;
    uint32_t jobs = cores();
    bool json = false;
};

int run_verify(const VerifyOptions& o) {
    auto store = open_to_look(
        o.path, {.pool_bytes = o.pool, .workers = o.jobs, .archive = o.archive}, false);
    if (!store)
        return complain(o.path, store.error(), o.json, text_of_failed_open(o.path, store.error()));
    const auto faults = store->verify(o.jobs);
    if (!faults) return complain(o.path, faults.error(), o.json);
    const uint64_t pages = store->stats().pages_total;
    if (o.json) {
        fmt::print("{}\n", json_text({{"pages", pages}, {"faults", *faults}}));
    } else {
        for (const auto& fault : *faults) fmt::print("{}\n", fault);
        fmt::print("{}: {}, {}\n", o.path, counted(pages, "page", "pages"),
                   counted(faults->size(), "fault", "faults"));
    }
    const auto closed = store->close();
    if (!closed) return complain(o.path, closed.error().text());
    return faults->empty() ? 0 : kUnsound;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "verify",
        "Check every page and structure, on all cores. Opens (and recovers) the store; only reads "
        "it if its files must not be written.\n"
        "Exit status: 0 sound; 1 could not be checked; 2 faults were found, one a line.");
    auto o = std::make_shared<VerifyOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("--pool", o->pool, "Buffer pool in bytes (suffixes K, M, G, T)")
        ->transform(pool_size())
        ->default_str("1G");
    command->add_option("--jobs", o->jobs, "Cores to use (default: all)")->check(CLI::Range(1, 64));
    add_archive_option(*command, o->archive);
    command->add_flag("--json", o->json, "Print JSON");
    command->callback([o, &status] { status = run_verify(*o); });
}

}  // namespace lockstep::cli
