// main.cc - `lockstep`: looks into a store from the command line.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"
#include "tpcc/build_info.h"

namespace lockstep::cli {

int complain(const std::string& doing, const std::string& why) {
    fmt::print(stderr, "lockstep: {}: {}\n", doing, why);
    return 1;
}

static bool is_command(const CLI::App& app, const std::string& name) {
    return !app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == name; })
                .empty();
}

}  // namespace lockstep::cli

int main(int argc, char** argv) {
    namespace cli = lockstep::cli;
    CLI::App app{
        "Looks into a Lockstep store, checks it, copies it, and saves what is left of it."};
    app.set_version_flag("--version", lockstep::tpcc::version_text("lockstep"));
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.require_subcommand(1);
    int status = 0;
    std::string path;

    auto* stat = app.add_subcommand(
        "stat",
        "Sizes, records, depth and fill of a closed store, which does not change; statistics of an "
        "open one");
    stat->footer(
        "Exit status: 0 the store is shown; 1 there is no store, or it is damaged; 2 another "
        "process has it open and does not answer (Options::control); 3 it was not closed, so only "
        "files, superblock and log are shown.");
    bool json = false;
    stat->add_option("path", path, "Store directory")->required();
    stat->add_flag("--json", json, "Print JSON");
    stat->callback([&] { status = cli::stat(path, json); });

    cli::add_verify(app, status);
    cli::add_dump(app, status);
    cli::add_load(app, status);
    cli::add_salvage(app, status);
    cli::add_compact(app, status);
    cli::add_backup(app, status);

    auto* log = app.add_subcommand("dump-log",
                                   "Log records, one a line, without opening the store.\n"
                                   "Exit status: 0 done; 1 failed, or the log is damaged.");
    uint64_t from = 0, count = 0;
    log->add_option("path", path, "Store directory")->required();
    log->add_option("--from", from, "First LSN (default: the last checkpoint)");
    log->add_option("--count", count, "Stop after that many records (0 = all)");
    log->add_flag("--json", json, "Print JSON lines");
    log->callback([&] { status = cli::dump_log(path, from, count, json); });

    auto* page = app.add_subcommand(
        "dump-page",
        "One page as it lies on disk, without opening the store.\nExit status: 0 done; 1 failed; "
        "2 its checksum is wrong.");
    uint32_t number = 0;
    bool bytes = false;
    page->add_option("path", path, "Store directory")->required();
    page->add_option("page", number, "Page number")->required();
    page->add_flag("--bytes", bytes, "All bytes in hexadecimal as well");
    page->add_flag("--json", json, "Print JSON");
    page->callback([&] { status = cli::dump_page(path, number, bytes, json); });

    cli::add_live_commands(app, status);

    if (argc > 1 && argv[1][0] != '-' && !cli::is_command(app, argv[1])) {
        fmt::print(stderr, "lockstep: no command '{}'; --help lists them\n", argv[1]);
        return static_cast<int>(CLI::ExitCodes::ExtrasError);
    }
    if (argc == 1) {
        fmt::print(stderr, "lockstep: no command given; --help lists them\n");
        return static_cast<int>(CLI::ExitCodes::RequiredError);
    }
    CLI11_PARSE(app, argc, argv);
    return status;
}
