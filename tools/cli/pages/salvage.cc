// salvage.cc - `lockstep salvage`: everything that can still be read of a damaged store, and a list
// of what is lost.
#include <fmt/core.h>
#include <tbb/global_control.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "tools/base/say.h"
#include "tools/cli/backup_directory.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/opening.h"
#include "tools/cli/output.h"
#include "tools/cli/pages/page_source.h"
#include "tools/cli/pages/rebuild.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

constexpr int kSomethingLost = 2;

struct SalvageOptions {
    std::string path, into, output, format = "json";
    uint32_t jobs = cores();
    bool json = false;
};

std::string write_dump(Survey& survey, const SalvageOptions& o,
                       const std::vector<LeftOut>& secondaries, uint64_t& records) {
    Output out(o.output);
    if (!out.error().empty()) return out.error();
    const Format format = *format_of(o.format);
    append_row(out.text(), format, {.kind = RowKind::header});
    append_row(out.text(), format, {.kind = RowKind::start, .number = kDumpVersion});
    uint32_t ordinal = 0;
    for (const auto& [id, object] : survey.objects) {
        if (object.of != 0) continue;
        const std::string name = survey.name_of(id);
        Row row{.kind = object.is_index ? RowKind::index : RowKind::heap, .object = name};
        append_row(out.text(), format, row);
        row.kind = RowKind::record;
        row.of_index = object.is_index;
        row.ordinal = ordinal++;
        const auto source =
            object.is_index ? read_leaves(survey, object) : read_heap(survey, object);
        for (; source->next(row.key, row.value); ++records) {
            append_row(out.text(), format, row);
            if (!out.flush_if_full()) return out.error();
        }
    }
    for (const LeftOut& s : secondaries)
        append_row(out.text(), format,
                   {.kind = RowKind::secondary, .unique = s.unique, .object = s.name, .key = s.of});
    append_row(out.text(), format, {.kind = RowKind::end, .number = records});
    return out.finish();
}

std::string write_store(Survey& survey, const SalvageOptions& o, uint64_t& records) {
    std::error_code error;
    if (std::filesystem::exists(o.into, error)) return o.into + ": exists already";
    auto store = open_store(o.into, {.create = true, .workers = o.jobs});
    if (!store) return o.into + ": " + store.error().text();
    const Rebuilt done = rebuild(*store, survey, o.jobs, 90, false);
    records = done.records;
    if (!done.error.empty()) return o.into + ": " + done.error;
    const auto closed = store->close();
    return closed ? "" : o.into + ": " + closed.error().text();
}

std::string report(const Survey& survey, const SalvageOptions& o,
                   const std::vector<LeftOut>& secondaries, uint64_t records) {
    const size_t lost = count_losses(survey.losses),
                 objects = survey.objects.size() - secondaries.size();
    if (o.json) {
        nlohmann::ordered_json losses = nlohmann::ordered_json::array();
        for (const Loss& loss : survey.losses) losses.push_back(loss.json());
        return nlohmann::ordered_json{{"records", records},
                                      {"objects", objects},
                                      {"closed_properly", survey.clean},
                                      {"lost", lost},
                                      {"losses", losses},
                                      {"secondaries_left_out", json_of(secondaries)}}
                   .dump() +
               "\n";
    }
    std::string text;
    for (const Loss& loss : survey.losses) text += loss.text() + "\n";
    for (const LeftOut& secondary : secondaries) text += secondary.text() + "\n";
    return text + fmt::format("{}: {} of {} saved, {}\n", o.path,
                              counted(records, "record", "records"),
                              counted(objects, "index or heap", "indexes and heaps"),
                              counted(lost, "loss", "losses"));
}

// Of what salvage cannot make records; empty: it can.
std::string refusal(const std::string& path) {
    if (!is_backup(path)) return {};
    const auto backup = read_backup(path);
    if (!backup || backup->since == kLsnNone) return {};
    return fmt::format(
        "an incremental backup, which has only what has changed since another backup; `lockstep "
        "restore FULL {} DIR` makes a store of both",
        path);
}

int run_salvage(const SalvageOptions& o) {
    const bool to_stdout = o.into.empty() && (o.output.empty() || o.output == "-");
    tbb::global_control cores_used(tbb::global_control::max_allowed_parallelism, o.jobs);
    if (lies_in(o.output, o.path))
        return complain(o.output, "lies in the store's directory; name a file outside of it");
    if (const std::string refused = refusal(o.path); !refused.empty())
        return complain(o.path, refused);
    const auto file = PageFile::open(o.path);
    if (!file) return complain(o.path, file.error().text());
    Survey survey(**file);
    survey.run();
    if (survey.in_doubt > 0)
        survey.lose({.what = "warning",
                     .why = counted(survey.in_doubt, "transaction is", "transactions are") +
                            " in doubt, and the records have their changes as if they had "
                            "committed. If the store can be opened, 'lockstep commit' or "
                            "'lockstep rollback' ends them first"});
    else if (!survey.clean)
        survey.lose({.what = "warning",
                     .why =
                         "the store was not closed properly: the data file may be older than the "
                         "log, and salvage does not replay the log. If the store can be opened, "
                         "'lockstep dump' gives all committed records"});
    if (!survey.names_complete)
        survey.lose({.what = "warning",
                     .why =
                         "part of the catalog is lost: an index or heap without a name is called "
                         "object-N. It may have been dropped before, and it may be a secondary "
                         "index, whose records are entries"});
    const auto secondaries = survey.leave_out_secondaries();
    uint64_t records = 0;
    const std::string wrong = o.into.empty() ? write_dump(survey, o, secondaries, records)
                                             : write_store(survey, o, records);
    survey.add_unnamed();
    const std::string told = report(survey, o, secondaries, records);
    to_stdout ? say_error("{}", told) : say("{}", told);
    if (!wrong.empty()) return complain("salvage", wrong);
    return count_losses(survey.losses) == 0 ? 0 : kSomethingLost;
}

}  // namespace

void add_salvage(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "salvage",
        "Save everything readable of a damaged store, past its bad pages, and list what is lost: "
        "key ranges, values, records, pages. Reads the files only; the store need not open. Writes "
        "a dump, or a new store (--into). First try to open the store: recovery repairs pages from "
        "the log, salvage does not read the log. Secondary indexes are left out and named: the "
        "application makes them again.\n"
        "Exit status: 0 nothing is lost; 1 failed; 2 done, and something is lost.");
    auto o = std::make_shared<SalvageOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    auto* into = command->add_option("--into", o->into, "Directory of a new store, to be made");
    command->add_option("--output,-o", o->output, "Dump file (default: standard output)")
        ->excludes(into);
    command->add_option("--format", o->format, "Format of the dump, as of 'dump'")
        ->check(CLI::IsMember({"json", "csv", "hex"}))
        ->capture_default_str();
    command->add_option("--jobs", o->jobs, "Cores to use (default: all)")->check(CLI::Range(1, 64));
    command->add_flag("--json", o->json,
                      "Print the list of losses as JSON (on stderr if the dump is on stdout)");
    command->callback([o, &status] { status = run_salvage(*o); });
}

}  // namespace lockstep::cli
