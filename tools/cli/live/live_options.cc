// live_options.cc - the command line of the sub-commands for an open store.
#include <CLI/CLI.hpp>

#include <memory>

#include "tools/base/option_checks.h"
#include "tools/cli/commands.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/number_options.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

// What the options are read into; lives as long as the callbacks.
struct Given {
    std::string path;
    bool json = false;
    uint64_t id = 0;
    std::string gid;
    std::optional<std::string> archive;
    TopSettings top;
};

constexpr const char* kFooter =
    "The store must be open in a process with Options::control (lockstep-tpcc: --control).\n"
    "Exit status: 0, or 1 if the command failed, or 2 if no process answers for the store.";

std::shared_ptr<Given> common(CLI::App& sub, bool json) {
    auto given = std::make_shared<Given>();
    sub.add_option("path", given->path, "Store directory")->required();
    if (json) sub.add_flag("--json", given->json, "Print JSON, also of an error");
    sub.footer(kFooter);
    return given;
}

void add_top(CLI::App& app, int& status) {
    auto* sub = app.add_subcommand(
        "top", "What an open store does: rates, waits, oldest transactions, hot locks; q leaves");
    auto given = common(*sub, false);
    sub->add_option("--interval", given->top.interval, "Seconds between two screens")
        ->check(number_in(0.1, 3600))
        ->capture_default_str();
    sub->add_flag("--once", given->top.once, "One screen after the first interval, then exit");
    sub->add_flag("--json", given->top.json, "A line of JSON in each interval, no screen");
    sub->footer(std::string(kFooter) +
                "\nAfter a signal it is 128 and the signal's number: 130 after Ctrl-C.");
    sub->callback([given, &status] { status = top(given->path, given->top); });
}

constexpr const char* kTwoPhaseFooter =
    "Asks the process that has the store open (Options::control; lockstep-tpcc: --control). If "
    "none has, opens and recovers the store.\n"
    "Exit status: 0, or 1 if the command failed or no transaction in doubt has that gid, or 2 if a "
    "process has the store open and does not answer.";

void add_two_phase(CLI::App& app, int& status) {
    auto* prepared = app.add_subcommand(
        "prepared", "Transactions in doubt, which wait for the decision of their coordinator");
    auto given = common(*prepared, true);
    prepared->footer(kTwoPhaseFooter);
    add_archive_option(*prepared, given->archive);
    prepared->callback([given, &status] {
        status = list_prepared({given->path, given->archive, given->json});
    });
    for (const bool commits : {true, false}) {
        auto* sub = app.add_subcommand(
            commits ? "commit" : "rollback",
            std::string(commits ? "Commit" : "Roll back") +
                " a transaction in doubt, in place of its coordinator. If the coordinator has "
                "decided otherwise, the global transaction is no longer atomic");
        given = common(*sub, true);
        sub->add_option("gid", given->gid, "Its gid (`lockstep prepared`)")->required();
        sub->footer(kTwoPhaseFooter);
        add_archive_option(*sub, given->archive);
        sub->callback([given, commits, &status] {
            status = end_prepared({given->path, given->archive, given->json}, given->gid, commits);
        });
    }
}

}  // namespace

void add_live_commands(CLI::App& app, int& status) {
    add_top(app, status);

    auto* locks = app.add_subcommand(
        "locks", "Who waits for which lock now, and the locks waited for in the last seconds");
    auto given = common(*locks, true);
    locks->callback([given, &status] { status = live_locks(given->path, given->json); });

    auto* transactions =
        app.add_subcommand("transactions", "Transactions of an open store, the oldest first");
    given = common(*transactions, true);
    transactions->callback(
        [given, &status] { status = live_transactions(given->path, given->json); });

    auto* end = app.add_subcommand(
        "end", "End a transaction: it is rolled back, its calls return ended_by_operator");
    given = common(*end, true);
    end->add_option("id", given->id, "Number of the transaction (`lockstep transactions`)")
        ->required()
        ->check(number_from_one("number of a transaction"));
    end->callback([given, &status] { status = live_end(given->path, given->id, given->json); });

    add_two_phase(app, status);

    auto* checkpoint =
        app.add_subcommand("checkpoint", "Write all dirty pages and recycle the log before them");
    given = common(*checkpoint, true);
    checkpoint->callback([given, &status] { status = live_checkpoint(given->path, given->json); });

    auto* metrics = app.add_subcommand("metrics", "Metrics of an open store as Prometheus text");
    given = common(*metrics, false);
    metrics->callback([given, &status] { status = live_metrics(given->path); });
}

}  // namespace lockstep::cli
