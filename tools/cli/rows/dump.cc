// dump.cc - `lockstep dump`: indexes, heaps and their records as text.
//
// Concepts   The dump holds the store's lock, so no other process changes the store meanwhile. One
//            read-only transaction reads everything. Memory does not grow with the store. Of a
//            secondary index the dump has no entries, only a row behind all records.
//            A store that was closed is opened read-only: no file changes, nor must be writable.
//            Transactions in doubt keep their locks until somebody decides. So the transaction is a
//            snapshot then: it sees none of their changes and waits for none of their locks.
//            With --plain it is no dump but a table of one index or heap (plain_dump.h).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sm/api/engine_of.h"
#include "sm/catalog/catalog.h"
#include "sm/observe/gid_text.h"
#include "threads/base/try.h"
#include "tools/base/option_checks.h"
#include "tools/base/say.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/live/live_commands.h"
#include "tools/cli/live/live_copy.h"
#include "tools/cli/opening.h"
#include "tools/cli/output.h"
#include "tools/cli/rows/plain_dump.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

struct Dump {
    std::string path, format_name, output;
    std::optional<std::string> archive;
    std::vector<std::string> objects;
    uint64_t limit = UINT64_MAX;
    Format format = Format::json;
    PlainFormat table = PlainFormat::csv;
    bool live = false, plain = false;

    int run();
    std::string set_format();
    std::string unknown_object(const std::vector<Store::Entry>& known) const;
    Result<void> write(Store& store, Txn& txn, Output& out, uint64_t& records) const;
    bool wanted(const std::string& name) const {
        return objects.empty() || std::ranges::find(objects, name) != objects.end();
    }
    void describe_secondaries(Store& store, Output& out) const;
    template <class Each>
    Result<void> scan_object(Store& store, Txn& txn, const Store::Entry& entry, Each each) const;
    Result<void> write_object(Store& store, Txn& txn, const Store::Entry& entry, Row row,
                              Output& out, uint64_t& records) const;
    Result<void> write_plain(Store& store, Txn& txn, PlainDump& to, const Output& out) const;
    Result<std::string> dump_plain(Store& store, const TxnOptions& how, Output& out) const;
};

// Fails because the output does; its own text says why.
std::unexpected<Error> cannot_write() { return fail(ErrorCode::io_error, "output of the dump"); }

// Calls each(key, value, id) with at most `limit` records, as long as it gives true.
template <class Each>
Result<void> Dump::scan_object(Store& store, Txn& txn, const Store::Entry& entry, Each each) const {
    uint64_t shown = 0;
    if (limit == 0) return {};
    if (entry.is_index) {
        const Index index = TRY(store.index(entry.name));
        for (Cursor c = index.scan(txn); TRY(c.next());)
            if (!each(c.key(), c.value(), RecordId{}) || ++shown == limit) break;
        return {};
    }
    const Heap heap = TRY(store.heap(entry.name));
    return heap.scan(txn, [&](RecordId id, Slice record) {
        return each(Slice(), record, id) && ++shown < limit;
    });
}

Result<void> Dump::write_object(Store& store, Txn& txn, const Store::Entry& entry, Row row,
                                Output& out, uint64_t& records) const {
    TRY(scan_object(store, txn, entry, [&](Slice key, Slice value, RecordId id) {
        std::string place;
        if (!entry.is_index) key = place = fmt::format("{}.{}", id.page.value, id.slot.value);
        row.key = key;
        row.value = value;
        append_row(out.text(), format, row);
        ++records;
        return out.flush_if_full();
    }));
    if (!out.error().empty()) return cannot_write();
    return {};
}

Result<void> Dump::write_plain(Store& store, Txn& txn, PlainDump& to, const Output& out) const {
    const auto list = store.list();
    const auto entry = std::ranges::find(list, objects[0], &Store::Entry::name);
    if (entry == list.end()) return fail(ErrorCode::no_such_object, "object of the dump");
    TRY(scan_object(store, txn, *entry,
                    [&](Slice key, Slice value, RecordId id) { return to.add(key, value, id); }));
    if (to.wrong().empty()) to.finish();
    if (!out.error().empty()) return cannot_write();
    return {};
}

// What is wrong with a record, or nothing.
Result<std::string> Dump::dump_plain(Store& store, const TxnOptions& how, Output& out) const {
    const Columns columns = TRY(store.columns(objects[0]));
    const auto list = store.list();
    const auto entry = std::ranges::find(list, objects[0], &Store::Entry::name);
    PlainDump to(columns, entry->is_index, table, out);
    TRY(store.run([&](Txn& txn) { return write_plain(store, txn, to, out); }, how));
    if (const std::string loss = to.loss(); !loss.empty())
        say_error("note: {}: {}\n", readable(objects[0]), loss);
    return to.wrong().empty() ? std::string() : readable(objects[0]) + ": " + to.wrong();
}

// Those that are named, and those of an index that is named.
void Dump::describe_secondaries(Store& store, Output& out) const {
    sm::Catalog& catalog = *sm::engine_of(store).catalog;
    for (const sm::CatalogEntry& entry : catalog.list()) {
        const auto primary = entry.of == ObjectId{} ? std::nullopt : catalog.find(entry.of);
        if (!primary || (!wanted(entry.name) && !wanted(primary->name))) continue;
        append_row(out.text(), format,
                   {.kind = RowKind::secondary,
                    .unique = entry.unique,
                    .object = entry.name,
                    .key = primary->name});
    }
}

Result<void> Dump::write(Store& store, Txn& txn, Output& out, uint64_t& records) const {
    append_row(out.text(), format, {.kind = RowKind::header});
    append_row(out.text(), format, {.kind = RowKind::start, .number = kDumpVersion});
    uint32_t ordinal = 0;
    for (const Store::Entry& entry : store.list()) {
        if (!wanted(entry.name) || entry.of != ObjectId{}) continue;
        Row row{.kind = entry.is_index ? RowKind::index : RowKind::heap, .object = entry.name};
        append_row(out.text(), format, row);
        row.kind = RowKind::record;
        row.of_index = entry.is_index;
        row.ordinal = ordinal++;
        TRY(write_object(store, txn, entry, row, out, records));
    }
    describe_secondaries(store, out);
    append_row(out.text(), format, {.kind = RowKind::end, .number = records});
    if (!out.flush_if_full()) return cannot_write();
    return {};
}

// What the dump lacks, if it lacks anything.
void warn_of_doubt(const std::string& path, const std::vector<PreparedInfo>& in_doubt) {
    if (in_doubt.empty()) return;
    constexpr size_t kNamed = 5;
    std::string gids;
    for (size_t i = 0; i < in_doubt.size() && i < kNamed; ++i)
        gids += (i == 0 ? "" : ", ") + sm::gid_text(in_doubt[i].gid);
    if (in_doubt.size() > kNamed) gids += ", ...";
    say_error(
        "note: {}: {} in doubt ({}), and the dump has none of their changes (`lockstep prepared` "
        "lists them, `lockstep commit` and `lockstep rollback` end them)\n",
        path, counted(in_doubt.size(), "transaction is", "transactions are"), gids);
}

// What is wrong with the options.
std::string Dump::set_format() {
    if (!plain) {
        const auto found = format_of(format_name.empty() ? "json" : format_name);
        if (!found) return "--format " + format_name + " is for --plain";
        format = *found;
        return {};
    }
    if (objects.size() != 1) return "--plain writes one index or heap; name it";
    const auto by_name = format_name.empty() ? plain_format_of_file(output).value_or(table)
                                             : plain_format_of(format_name);
    if (!by_name) return "--format hex is not for --plain: csv, tsv or jsonl";
    table = *by_name;
    return {};
}

std::string Dump::unknown_object(const std::vector<Store::Entry>& known) const {
    for (const std::string& name : objects)
        if (std::ranges::find(known, name, &Store::Entry::name) == known.end())
            return "there is no index or heap " + readable(name) + " (lockstep stat lists them)";
    return {};
}

int Dump::run() {
    if (const auto wrong = set_format(); !wrong.empty()) return complain("dump", wrong);
    if (lies_in(output, path))
        return complain(output, "lies in the store's directory; name a file outside of it");
    const auto copy = LiveCopy::of(path, live);
    if (!copy) return live_failed(copy.error(), false);
    auto store = open_to_look(copy->directory(), {.archive = archive}, true);
    if (!store) return complain(path, text_of_failed_open(path, store.error()));
    if (const auto wrong = unknown_object(store->list()); !wrong.empty())
        return complain(path, wrong);
    Output out(output);
    if (!out.error().empty()) return complain("dump", out.error());
    uint64_t records = 0;
    const std::vector<PreparedInfo> in_doubt = store->prepared();
    warn_of_doubt(path, in_doubt);
    const TxnOptions how{
        .isolation = in_doubt.empty() ? Isolation::read_committed : Isolation::snapshot,
        .read_only = true};
    Result<std::string> done = std::string();
    if (plain) done = dump_plain(*store, how, out);
    else if (const auto written =
                 store->run([&](Txn& txn) { return write(*store, txn, out, records); }, how);
             !written)
        done = std::unexpected(written.error());
    const std::string wrong = out.finish();
    if (!wrong.empty()) return complain("dump", wrong);
    if (!done) return complain(path, done.error().text());
    if (!done->empty()) return complain(path, *done);
    const auto closed = store->close();
    return closed ? 0 : complain(path, closed.error().text());
}

}  // namespace

void add_dump(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "dump",
        "Write indexes, heaps and their records as text, which 'load' reads. Reads a closed store, "
        "and recovers one that was not closed; no other process may have it open for writing. The "
        "last row has the number of records, so "
        "'load' notices a dump that was cut short. A heap's record ids are in the dump, but 'load' "
        "gives new ones. A secondary index is described, without its entries; it is described "
        "with its primary, too. Of transactions in doubt the dump has no changes; a note names "
        "them.\n"
        "With --plain: the described columns (lockstep describe) of one index or heap, as a table "
        "for other programs, which load --plain reads. CSV: an empty field has no value, \"\" is "
        "an "
        "empty text. TSV: \\N is no value; \\t, \\n, \\r, \\\\ stand for themselves. Times are "
        "in UTC, "
        "bytes hexadecimal. A note tells of records that have bytes which no column describes.\n"
        "Exit status: 0 done; 1 failed, and the output is not complete.");
    auto dump = std::make_shared<Dump>();
    command->add_option("path", dump->path, "Store directory")->required();
    command->add_option("objects,--object", dump->objects,
                        "Names of indexes and heaps (default: all)");
    auto* format =
        command
            ->add_option(
                "--format", dump->format_name,
                "json: JSON lines; csv: RFC 4180; hex: words of hexadecimal digits (default: "
                "json). With --plain: csv, tsv or jsonl (default: by the ending of the "
                "output, else csv)")
            ->check(CLI::IsMember({"json", "csv", "hex", "tsv", "jsonl"}));
    command->add_flag("--plain", dump->plain,
                      "Write the described columns of one index or heap, for other programs");
    command
        ->add_flag_callback(
            "--json", [dump] { dump->format_name = "json"; }, "The same as --format json")
        ->excludes(format);
    add_archive_option(*command, dump->archive);
    add_live_option(*command, dump->live);
    command->add_option("--output,-o", dump->output, "File to write (default: standard output)");
    command
        ->add_option("--limit", dump->limit,
                     "Stop after that many records of each index or heap (default: all)")
        ->check(kNotNegative);
    command->callback([dump, &status] { status = dump->run(); });
}

}  // namespace lockstep::cli
