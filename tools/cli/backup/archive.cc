// archive.cc - `lockstep archive prune`: removes log that no kept backup needs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "sm/backup/archive_prune.h"
#include "tools/base/option_checks.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/json_text.h"

namespace lockstep::cli {

namespace {

struct PruneSettings {
    std::string archive;
    std::vector<std::string> keep;
    bool dry = false, json = false;
};

int run_prune(const PruneSettings& o) {
    const auto disk = threads::make_disk(threads::IoBackend::pool);
    const auto done = sm::prune_archive(*disk, o.archive, o.keep, o.dry);
    if (!done) return complain(o.archive, done.error(), o.json);
    if (o.json) {
        fmt::print("{}\n", json_text({{"path", o.archive},
                                      {"dry_run", o.dry},
                                      {"pieces", done->pieces},
                                      {"bytes", done->bytes},
                                      {"notes", done->notes},
                                      {"pieces_left", done->pieces_left},
                                      {"pieces_other", done->pieces_other}},
                                     2));
        return 0;
    }
    fmt::print("{}: {} of {} bytes {}; {} left\n", o.archive,
               counted(done->pieces, "piece", "pieces"), done->bytes,
               o.dry ? "would go" : "removed", counted(done->pieces_left, "piece", "pieces"));
    if (done->pieces_other > 0)
        fmt::print("{} of histories without a named backup stay\n",
                   counted(done->pieces_other, "piece", "pieces"));
    return 0;
}

}  // namespace

void add_archive(CLI::App& app, int& status) {
    auto* archive = app.add_subcommand("archive", "What to do with a log archive");
    archive->require_subcommand(1);
    auto* prune = archive->add_subcommand(
        "prune",
        "Remove the log that no kept backup needs: what ends before the oldest of them. The store "
        "may be open. Stores that share the archive need a kept backup each; the log of others "
        "stays.\n"
        "Exit status: 0 done; 1 failed, and the archive still serves each kept backup.");
    auto o = std::make_shared<PruneSettings>();
    prune->add_option("archive", o->archive, "Directory of the log archive")
        ->required()
        ->check(kNotEmpty);
    prune->add_option("--keep", o->keep, "Directory of a backup that you keep, repeated for each")
        ->required()
        ->check(kNotEmpty);
    prune->add_flag("--dry-run", o->dry, "Only say what would go");
    prune->add_flag("--json", o->json, "Print JSON");
    prune->callback([o, &status] { status = run_prune(*o); });
}

}  // namespace lockstep::cli
