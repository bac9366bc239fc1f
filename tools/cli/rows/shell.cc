// shell.cc - `lockstep shell`: commands on a store, one after the other.
//
// Concepts   The shell is a module of the Python package (tools/python/lockstep/shell.py), because
//            that has the prompt with history and completion, and SQL.
#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/live/live_copy.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/python.h"

namespace lockstep::cli {
namespace {

struct ShellOptions {
    std::string path;
    std::optional<std::string> archive;
    bool live = false;
};

constexpr const char* kShell = R"(
import sys
try:
    from lockstep.shell import main
except ImportError as error:
    print(f"lockstep: shell: {error}: it needs Lockstep's Python package in the environment whose "
          "python3 comes first in PATH: pip install './tools/python[shell]'", file=sys.stderr)
    sys.exit(3)
sys.exit(main(sys.argv[1:]))
)";

int run_shell(const ShellOptions& o) {
    if (const auto there = require_store(o.path); !there)
        return complain(o.path, there.error().text());
    const auto copy = LiveCopy::of(o.path, o.live);
    if (!copy) return live_failed(copy.error(), false);
    std::vector<std::string> words = {copy->directory()};
    if (o.live) words.emplace_back("--read-only");
    if (o.archive) words.insert(words.end(), {"--archive", *o.archive});
    return run_python("shell", kShell, words,
                      "Lockstep's Python package: pip install './tools/python[shell]'");
}

}  // namespace

void add_shell(CLI::App& app, int& status) {
    auto* command =
        app.add_subcommand("shell",
                           "Perform commands on a store: get, put, erase, scan, begin, commit, "
                           "rollback, sql and more; "
                           "help lists them. Reads a terminal, with history and completion, or a "
                           "pipe, which ends with "
                           "the first command that fails. Needs the Python package.\n"
                           "Exit status: 0 done; 1 failed; 3 the package is not installed.");
    auto o = std::make_shared<ShellOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    add_archive_option(*command, o->archive);
    add_live_option(*command, o->live);
    command->callback([o, &status] { status = run_shell(*o); });
}

}  // namespace lockstep::cli
