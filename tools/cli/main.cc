// main.cc - `lockstep`: looks into a store from the command line.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "threads/base/check.h"
#include "tools/base/build_info.h"
#include "tools/base/option_checks.h"
#include "tools/base/parse_failure.h"
#include "tools/base/say.h"
#include "tools/base/standard_files.h"
#include "tools/cli/commands.h"
#include "tools/cli/json_text.h"

namespace lockstep::cli {

static int print_error(const char* code, const std::string& thing, const std::string& reason) {
    DCHECK(code != nullptr && !reason.empty());
    const nlohmann::ordered_json why = {
        {"code", code}, {"thing", thing}, {"reason", reason}, {"remedy", ""}};
    fmt::print("{}\n", json_text({{"error", why}}));
    return 1;
}

int complain(const std::string& doing, const std::string& why, bool json) {
    if (json) return print_error("failed", doing, why);
    say_error("lockstep: {}: {}\n", doing, why);
    return 1;
}

int complain(const std::string& doing, const Error& error, bool json, const std::string& why) {
    const std::string text = why.empty() ? error.text() : why;
    return json ? print_error(error_name(error.code), doing, text) : complain(doing, text);
}

namespace {

// What is read of the command line for the commands below; lives as long as the callbacks.
struct RawSettings {
    std::string path;
    bool json = false, bytes = false;
    std::optional<uint64_t> from;
    uint64_t count = UINT64_MAX;
    uint32_t page = 0;
};

bool is_command(const CLI::App& app, const std::string& name) {
    const auto names = command_names(app);
    return std::ranges::find(names, name) != names.end();
}

std::string unknown_command(const CLI::App& app, const std::string& name) {
    return fmt::format("no command '{}'; {}", name, or_nearest(name, command_names(app)));
}

void add_stat(CLI::App& app, int& status) {
    auto* stat = app.add_subcommand(
        "stat",
        "Sizes, records, depth and fill of a closed store, which does not change; statistics of an "
        "open one; what a backup is");
    stat->footer(
        "Exit status: 0 the store or backup is shown; 1 there is no store, or it is damaged; 2 "
        "another "
        "process has it open and does not answer (Options::control); 3 it was not closed, or has "
        "transactions in doubt, so only files, superblock and log are shown.");
    auto o = std::make_shared<RawSettings>();
    stat->add_option("path", o->path, "Store directory")->required();
    stat->add_flag("--json", o->json, "Print JSON");
    stat->callback([o, &status] { status = cli::stat(o->path, o->json); });
}

void add_raw_files(CLI::App& app, int& status) {
    auto* log = app.add_subcommand("dump-log",
                                   "Log records, one a line, without opening the store.\n"
                                   "Exit status: 0 done; 1 failed, or the log is damaged.");
    auto o = std::make_shared<RawSettings>();
    log->add_option("path", o->path, "Store directory")->required();
    log->add_option("--from", o->from, "First LSN (default: the last checkpoint)")
        ->check(kNotNegative);
    log->add_option("--count", o->count, "Stop after that many records (default: all)")
        ->check(kNotNegative);
    log->add_flag("--json", o->json, "Print JSON lines");
    log->callback([o, &status] { status = dump_log(o->path, o->from, o->count, o->json); });

    auto* page = app.add_subcommand(
        "dump-page",
        "One page as it lies on disk, without opening the store.\nExit status: 0 done; 1 failed; "
        "2 its checksum is wrong.");
    page->add_option("path", o->path, "Store directory")->required();
    page->add_option("page", o->page, "Page number")->required();
    page->add_flag("--bytes", o->bytes, "All bytes in hexadecimal as well");
    page->add_flag("--json", o->json, "Print JSON");
    page->callback([o, &status] { status = dump_page(o->path, o->page, o->bytes, o->json); });
}

// What a shell makes of a variable that is not set names no file.
void refuse_empty_paths(CLI::App& app) {
    constexpr const char* kPaths[] = {"path", "paths",   "to",       "full",
                                      "next", "backups", "--backup", "--since",
                                      "--to", "--into",  "--output", "--rejects"};
    for (CLI::App* command : app.get_subcommands({}))
        for (const char* name : kPaths)
            if (CLI::Option* option = command->get_option_no_throw(name)) {
                DCHECK(option->get_type_name().starts_with("TEXT"));
                option->check(kNotEmpty);
            }
}

// `help` is --help, and `help COMMAND` is COMMAND --help: CLI11 shows the help of a command that it
// has met, which must not be `help`.
void take_help(CLI::App& app, std::vector<std::string>& words) {
    app.add_subcommand("help", "The same as --help; help COMMAND is COMMAND --help");
    if (words.empty() || words[0] != "help") return;
    words.erase(words.begin());
    words.insert(words.begin() + (words.empty() ? 0 : 1), "--help");
}

// The exit status. What fmt::print() cannot write ends the command, whose result would be lost.
int run(CLI::App& app, const int& status, std::vector<std::string> words) {
    try {
        std::ranges::reverse(words);  // as parse() wants them
        app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
        return flushed("lockstep", app.exit(error), 1);
    } catch (const std::system_error& error) {
        return complain("failed", error.what());
    }
    return flushed("lockstep", status, 1);
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
    namespace cli = lockstep::cli;
    lockstep::hold_standard_files();
    CLI::App app{
        "Looks into a Lockstep store, checks it, copies it, and saves what is left of it."};
    app.name("lockstep");
    app.failure_message(lockstep::parse_failure);
    app.set_version_flag("--version", lockstep::version_text("lockstep"));
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.require_subcommand(1);
    int status = 0;
    cli::add_stat(app, status);
    cli::add_verify(app, status);
    cli::add_describe(app, status);
    cli::add_sql(app, status);
    cli::add_shell(app, status);
    cli::add_dump(app, status);
    cli::add_tail(app, status);
    cli::add_one_record(app, status);
    cli::add_load(app, status);
    cli::add_salvage(app, status);
    cli::add_compact(app, status);
    cli::add_backup(app, status);
    cli::add_archive(app, status);
    cli::add_size(app, status);
    cli::add_raw_files(app, status);
    cli::add_live_commands(app, status);
    cli::refuse_empty_paths(app);
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    cli::take_help(app, words);
    if (words.empty()) {
        lockstep::say_error("lockstep: no command given; --help lists them\n");
        return static_cast<int>(CLI::ExitCodes::RequiredError);
    }
    if (words[0][0] != '-' && !cli::is_command(app, words[0])) {
        lockstep::say_error("lockstep: {}\n", cli::unknown_command(app, words[0]));
        return static_cast<int>(CLI::ExitCodes::ExtrasError);
    }
    return cli::run(app, status, std::move(words));
}
