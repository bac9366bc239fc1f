// main.cc - `lockstep`: looks into a store from the command line.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"

namespace lockstep::cli {

int complain(const std::string& doing, const std::string& why) {
    fmt::print(stderr, "lockstep: {}: {}\n", doing, why);
    return 1;
}

}  // namespace lockstep::cli

int main(int argc, char** argv) {
    namespace cli = lockstep::cli;
    CLI::App app{"Looks into a Lockstep store."};
    app.require_subcommand(1);
    int status = 0;
    std::string path;

    auto* stat = app.add_subcommand(
        "stat", "Sizes, records, depth and fill of a closed store, which does not change");
    stat->footer(
        "Exit status: 0 the store is shown; 1 there is no store, another process has it open, or "
        "it "
        "is damaged; 3 it was not closed, so only files, superblock and log are shown.");
    bool json = false;
    stat->add_option("path", path, "Store directory")->required();
    stat->add_flag("--json", json, "Print JSON");
    stat->callback([&] { status = cli::stat(path, json); });

    auto* verify = app.add_subcommand(
        "verify", "Check every page and structure; exit status 1 if anything is wrong");
    uint64_t pool_bytes = 1ull << 30;
    verify->add_option("path", path, "Store directory")->required();
    verify->add_option("--pool", pool_bytes, "Buffer pool in bytes (suffixes K, M, G)")
        ->transform(CLI::AsSizeValue(false));
    verify->callback([&] { status = cli::verify(path, pool_bytes); });

    auto* table = app.add_subcommand("dump", "Records of an index or a heap, one a line");
    std::string name;
    uint64_t limit = 0;
    table->add_option("path", path, "Store directory")->required();
    table->add_option("table", name, "Name of the index or heap")->required();
    table->add_option("--limit", limit, "Stop after that many records (0 = all)");
    table->callback([&] { status = cli::dump_table(path, name, limit); });

    auto* log =
        app.add_subcommand("dump-log", "Log records, one a line, without opening the store");
    uint64_t from = 0, count = 0;
    log->add_option("path", path, "Store directory")->required();
    log->add_option("--from", from, "First LSN (default: the last checkpoint)");
    log->add_option("--count", count, "Stop after that many records (0 = all)");
    log->callback([&] { status = cli::dump_log(path, from, count); });

    auto* page =
        app.add_subcommand("dump-page", "One page as it lies on disk, without opening the store");
    uint32_t number = 0;
    bool bytes = false;
    page->add_option("path", path, "Store directory")->required();
    page->add_option("page", number, "Page number")->required();
    page->add_flag("--bytes", bytes, "All bytes in hexadecimal as well");
    page->callback([&] { status = cli::dump_page(path, number, bytes); });

    CLI11_PARSE(app, argc, argv);
    return status;
}
