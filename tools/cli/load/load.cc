// load.cc - `lockstep load`: a dump becomes a store again, a table of another program an index.
#include <fmt/core.h>
#include <tbb/global_control.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/base/say.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/load/loading.h"
#include "tools/cli/number_options.h"
#include "tools/cli/rows/plain_rows.h"

namespace lockstep::cli {
namespace {

Store open_target(const LoadOptions& options) {
    return need(open_store(options.path, {.create = !options.forget,
                                          .pool_bytes = options.pool,
                                          .workers = options.jobs,
                                          .archive = options.archive}),
                options.path);
}

void forget_load(const LoadOptions& options) {
    Store store = open_target(options);
    LoadNotes notes(store);
    uint64_t fingerprint = 0;
    LoadFolder(options.path).remove();
    if (need(notes.present(fingerprint), options.path)) need(notes.end(), options.path);
    need(store.close(), options.path);
}

std::string wrong_options(const LoadOptions& o) {
    const bool given =
        !o.object.empty() || !o.rejects.empty() || o.describe || o.columns || !o.ignore.empty();
    if (!o.plain && given)
        return "--object, --describe, --columns, --ignore and --rejects are for --plain";
    if (!o.plain && !o.format.empty() && !format_of(o.format))
        return "--format " + o.format + " is for --plain";
    if (o.plain && o.format == "hex") return "--format hex is not for --plain: csv, tsv or jsonl";
    if (o.plain && o.object.empty() && !o.forget) return "--plain needs --object, which it fills";
    if (lies_in(o.rejects, o.path))
        return "--rejects " + o.rejects + " lies in the store's directory; name another file";
    return {};
}

// Names between commas.
std::vector<std::string> split_names(std::string_view text) {
    std::vector<std::string> names;
    for (size_t comma = 0; comma != std::string_view::npos;) {
        comma = text.find(',');
        names.emplace_back(text.substr(0, comma));
        if (comma != std::string_view::npos) text.remove_prefix(comma + 1);
    }
    return names;
}

void set_plain(const LoadOptions& o, Store& store, LoadInput& input) {
    input.plain = find_plain_target(store, o.object, o.describe);
    PlainOptions plain{.format = plain_format_of(o.format), .columns = {}, .ignore = o.ignore};
    if (o.columns) plain.columns = split_names(*o.columns);
    auto syntax = std::make_unique<PlainSyntax>(input.reader, plain, input.plain->columns,
                                                input.plain->is_index);
    if (!o.rejects.empty())
        input.rejects = std::make_unique<Rejects>(o.rejects, input.reader, syntax->header());
    input.syntax = std::move(syntax);
}

void print_result(const LoadOptions& options, const Load& load, uint64_t refused,
                  const std::vector<LeftOut>& left_out, double seconds) {
    if (options.json)
        fmt::print("{}\n", nlohmann::ordered_json{{"records", load.records()},
                                                  {"objects", load.targets()},
                                                  {"refused", refused},
                                                  {"seconds", seconds},
                                                  {"secondaries_left_out", json_of(left_out)}}
                               .dump());
    else
        fmt::print("{}: {} into {}, {:.1f} s\n", options.path,
                   counted(load.records(), "record", "records"),
                   counted(load.targets(), "index or heap", "indexes and heaps"), seconds);
}

int run_load(const LoadOptions& options) try {
    const auto began = std::chrono::steady_clock::now();
    tbb::global_control cores_used(tbb::global_control::max_allowed_parallelism, options.jobs);
    if (const auto wrong = wrong_options(options); !wrong.empty()) throw Failed(wrong);
    if (options.forget) {
        forget_load(options);
        return 0;
    }
    LoadInput input{.reader = RowReader(options.input)};
    // What is no dump makes no store.
    if (!options.plain) input.syntax = dump_syntax(input.reader, format_of(options.format));
    Store store = open_target(options);
    if (options.plain) set_plain(options, store, input);
    Load load(options, store, input);
    try {
        load.run();
    } catch (const std::exception&) {
        load.forget_if_empty();
        throw;
    }
    const std::vector<LeftOut> left_out = load.left_out();
    need(store.close(), options.path);
    for (const LeftOut& secondary : left_out) say_error("{}\n", secondary.text());
    const uint64_t refused = input.rejects ? input.rejects->refused() : 0;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    print_result(options, load, refused, left_out, seconds);
    return refused == 0 ? 0 : kUnsound;
} catch (const std::exception& error) {
    return complain("load", error.what(), options.json);
}

void add_plain_options(CLI::App& command, LoadOptions& o) {
    command.add_flag("--plain", o.plain, "The input is a table of another program");
    command.add_option("--object", o.object, "Plain: the index or heap to fill");
    command.add_option("--describe", o.describe,
                       "Plain: columns of a new index, or with no key of a new heap, as 'id u32 "
                       "key, name text8 value 0'");
    command.add_option("--columns", o.columns,
                       "Plain: names of the fields, between commas, for a table whose first line "
                       "does not have them; an empty name leaves a field out");
    command.add_option("--ignore", o.ignore, "Plain: columns of the table to leave out")
        ->delimiter(',');
    command.add_option("--rejects", o.rejects,
                       "Plain: keep lines that are no record in this file, with the reasons in "
                       "FILE.why, and go on");
}

}  // namespace

void add_load(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "load",
        "Fill a store from a dump of any size, in bounded memory, on all cores. Makes the store "
        "and "
        "its indexes and heaps if they do not exist. An empty index is filled by a bulk load, in "
        "one "
        "transaction; other indexes and heaps get inserts. Heap records get new ids. After an "
        "error "
        "or a kill, --resume goes on with the same input; each record comes in once. A secondary "
        "index of the dump "
        "is left out and named: the application makes it again.\n"
        "With --plain the input is a table of another program: CSV, TSV or JSON lines. Its rows "
        "are "
        "records of one index or heap, whose description (lockstep describe) names the columns and "
        "their types. CSV: an empty field has no value where the description allows null, else it "
        "is an empty text; \"\" is an empty text. TSV: \\N is no value; \\t, \\n, \\r and \\\\ "
        "stand "
        "for "
        "themselves. JSON: null, or a missing member, is no value. Compressed files come through a "
        "pipe: zcat FILE | lockstep load DIR - --plain --object NAME. One wrong line ends the "
        "load, "
        "which has changed nothing if the index was empty: correct the line and repeat the "
        "command. "
        "With --rejects the load goes on; correct the lines in FILE and load FILE.\n"
        "Exit status: 0 done; 1 failed, and the message names the line of the input; 2 done, but "
        "lines were refused (--rejects).");
    auto o = std::make_shared<LoadOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("input", o->input, "File to read (default: standard input)");
    command
        ->add_option("--format", o->format,
                     "Format of the input: json, csv or hex (default: its first line tells). With "
                     "--plain: csv, tsv or jsonl (default: the file's ending or its first line)")
        ->check(CLI::IsMember({"json", "csv", "hex", "tsv", "jsonl"}));
    add_plain_options(*command, *o);
    command->add_option("--memory", o->memory, "Memory for sorting in bytes (suffixes K, M, G, T)")
        ->transform(size_in(1, 1ull << 40, "1 - 1T"))
        ->default_str("1G");
    command->add_option("--pool", o->pool, "Buffer pool in bytes (suffixes K, M, G, T)")
        ->transform(pool_size())
        ->default_str("256M");
    add_archive_option(*command, o->archive);
    command->add_option("--jobs", o->jobs, "Cores to use (default: all)")->check(CLI::Range(1, 64));
    command->add_option("--fill", o->fill, "Fill pages of a bulk load to this percentage")
        ->check(CLI::Range(50, 100))
        ->capture_default_str();
    command->add_flag("--replace", o->replace,
                      "Replace records whose key an index that is not empty already has");
    command->add_flag("--resume", o->resume, "Go on with an unfinished load of the same input");
    command->add_flag("--forget", o->forget,
                      "Only end an unfinished load; what it has committed stays");
    command->add_option("--progress", o->progress, "Progress bar on stderr")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->capture_default_str();
    command->add_flag("--json", o->json, "Print the result as JSON");
    command->callback([o, &status] { status = run_load(*o); });
}

}  // namespace lockstep::cli
