// sql.cc - `lockstep sql`: a query over the described indexes and heaps of a store, by DuckDB.
//
// Concepts   The engine has no SQL. The Python package connects DuckDB with reports
//            (tools/python/lockstep/_report.py), so this command runs an interpreter that calls it,
//            or says how to install it.
#include <CLI/CLI.hpp>

#include "tools/cli/commands.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/live/live_copy.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/python.h"

namespace lockstep::cli {
namespace {

struct SqlOptions {
    std::string path, query;
    bool json = false, csv = false, live = false;
};

// What the interpreter runs; its arguments are directory, query and form.
constexpr const char* kProgram = R"(
import sys
try:
    import duckdb
    from lockstep._command import main
except ImportError as error:
    print(f"lockstep: sql: {error}: it needs Lockstep's Python package and DuckDB, in the "
          "environment whose python3 comes first in PATH: pip install ./tools/python duckdb",
          file=sys.stderr)
    sys.exit(3)
sys.exit(main(*sys.argv[1:]))
)";

int run_sql(const SqlOptions& o) {
    if (const auto there = require_store(o.path); !there)
        return complain(o.path, there.error().text());
    const auto copy = LiveCopy::of(o.path, o.live);
    if (!copy) return live_failed(copy.error(), o.json);
    const char* const form = o.json ? "json" : o.csv ? "csv" : "table";
    return run_python("sql", kProgram, {copy->directory(), o.query, form},
                      "Lockstep's Python package and DuckDB: pip install ./tools/python duckdb");
}

}  // namespace

void add_sql(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "sql",
        "Answer a query of DuckDB over the described indexes and heaps of a store (lockstep "
        "describe), which are its tables. Needs the Python package with DuckDB.\n"
        "Exit status: 0 done; 1 failed; 3 the package is not installed.");
    auto o = std::make_shared<SqlOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("query", o->query, "The query, as 'select count(*) from orders'")
        ->required();
    auto* json = command->add_flag("--json", o->json, "Print JSON lines");
    command->add_flag("--csv", o->csv, "Print CSV")->excludes(json);
    add_live_option(*command, o->live);
    command->callback([o, &status] { status = run_sql(*o); });
}

}  // namespace lockstep::cli
