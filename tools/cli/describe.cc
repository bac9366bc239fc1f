// describe.cc - `lockstep describe`: what the bytes of an index's or heap's records mean.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <lockstep/columns.h>

#include "threads/base/try.h"
#include "tools/cli/commands.h"
#include "tools/cli/json_text.h"
#include "tools/cli/opening.h"

namespace lockstep::cli {
namespace {

struct DescribeOptions {
    std::string path;
    std::string object;
    std::optional<std::string> text;
    std::optional<std::string> archive;
    bool json = false;
};

nlohmann::ordered_json json_of(const std::string& object, const Columns& columns) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Column& c : columns.all())
        list.push_back({{"name", c.name},
                        {"arrow", c.arrow_format()},
                        {"scale", c.scale},
                        {"nullable", c.nullable()}});
    return {{"object", object}, {"text", columns.text()}, {"columns", list}};
}

void print(const DescribeOptions& o, const std::string& object, const Columns& columns) {
    if (o.json) fmt::print("{}\n", json_text(json_of(object, columns)));
    else if (o.object.empty()) fmt::print("# {}\n{}\n", object, columns.text());
    else fmt::print("{}", columns.text());
}

// Every object that is described, by name.
Result<void> print_all(Store& store, const DescribeOptions& o) {
    for (const Store::Entry& entry : store.list()) {
        if (entry.of != ObjectId{}) continue;
        const Result<Columns> columns = store.columns(entry.name);
        if (columns) print(o, entry.name, *columns);
        else if (columns.error().code != ErrorCode::no_such_record)
            return std::unexpected(columns.error());
    }
    return {};
}

Result<void> describe(Store& store, const DescribeOptions& o) {
    if (o.object.empty()) return print_all(store, o);
    if (o.text) return store.describe(o.object, *o.text);
    print(o, o.object, TRY(store.columns(o.object)));
    return {};
}

int run_describe(const DescribeOptions& o) {
    const OpenHow how{.archive = o.archive};
    auto store = o.text ? open_store(o.path, how) : open_to_look(o.path, how, true);
    if (!store)
        return complain(o.path, store.error(), o.json, text_of_failed_open(o.path, store.error()));
    const auto done = describe(*store, o);
    if (!done) return complain(o.object.empty() ? o.path : o.object, done.error(), o.json);
    const auto closed = store->close();
    return closed ? 0 : complain(o.path, closed.error(), o.json);
}

}  // namespace

void add_describe(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "describe",
        "Columns of an index or heap, for reports: shows them, or sets them if TEXT is given. "
        "Opens (and recovers) the store.\n"
        "Exit status: 0 done; 1 failed, or the object is not described.");
    auto o = std::make_shared<DescribeOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("object", o->object, "Name of an index or heap (default: all)");
    command->add_option("text", o->text,
                        "One column a line, or behind a comma: NAME TYPE PLACE, as 'id u32 key, "
                        "name text8 value 0'; an empty text removes it");
    add_archive_option(*command, o->archive);
    command->add_flag("--json", o->json, "Print JSON lines, with the types of Apache Arrow");
    command->callback([o, &status] { status = run_describe(*o); });
}

}  // namespace lockstep::cli
