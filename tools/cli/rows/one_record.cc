// one_record.cc - `lockstep get`, `put`, `erase` and `scan`: single records of an index.
//
// Concepts   A key is a text, `hex:00ff`, `raw:hex:` for a text that looks otherwise, or parts as
//            an application composes them with Key: `u64:7` or `u32:1,text:a`. A value is a text or
//            hexadecimal. get and scan only look: a store that was closed stays as it was.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "threads/base/try.h"
#include "tools/base/option_checks.h"
#include "tools/cli/commands.h"
#include "tools/cli/opening.h"
#include "tools/cli/output.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

// Exit status of a command whose key is not there.
constexpr int kNotFound = 3;

std::unexpected<Error> bad_key(const char* what) { return fail(ErrorCode::bad_argument, what); }

Result<std::string> from_hex_text(std::string_view digits) {
    std::string bytes(digits);
    if (!from_hex(digits, bytes.data())) return bad_key("hexadecimal digits of a key or value");
    bytes.resize(digits.size() / 2);
    return bytes;
}

template <class T>
Result<T> number_of(std::string_view digits) {
    T number = 0;
    const auto [end, wrong] = std::from_chars(digits.begin(), digits.end(), number);
    if (wrong != std::errc() || end != digits.end()) return bad_key("number of a part of a key");
    return number;
}

Result<void> append_part(Key& key, std::string_view type, std::string_view value) {
    if (type == "u8") key.u8(TRY(number_of<uint8_t>(value)));
    else if (type == "u16") key.u16(TRY(number_of<uint16_t>(value)));
    else if (type == "u32") key.u32(TRY(number_of<uint32_t>(value)));
    else if (type == "u64") key.u64(TRY(number_of<uint64_t>(value)));
    else if (type == "i32") key.i32(TRY(number_of<int32_t>(value)));
    else if (type == "i64") key.i64(TRY(number_of<int64_t>(value)));
    else if (type == "text") key.text(value);
    else return bad_key("type of a part of a key: not u8, u16, u32, u64, i32, i64 or text");
    return {};
}

bool is_type(std::string_view word) {
    for (const char* type : {"u8", "u16", "u32", "u64", "i32", "i64", "text"})
        if (word == type) return true;
    return false;
}

// The bytes of a key as the command line spells it.
Result<std::string> key_of(std::string_view spelled) {
    if (spelled.starts_with("hex:")) return from_hex_text(spelled.substr(4));
    if (spelled.starts_with("raw:")) return std::string(spelled.substr(4));
    const size_t first = spelled.find(':');
    if (first == std::string_view::npos || !is_type(spelled.substr(0, first)))
        return std::string(spelled);
    Key key;
    for (bool more = true; more;) {
        const size_t comma = spelled.find(',');
        const std::string_view part = spelled.substr(0, comma);
        const size_t colon = std::min(part.find(':'), part.size());
        TRY(append_part(key, part.substr(0, colon), part.substr(std::min(colon + 1, part.size()))));
        more = comma != std::string_view::npos;
        if (more) spelled.remove_prefix(comma + 1);
    }
    return std::string(Slice(key));
}
Result<std::string> value_of(std::string_view spelled) {
    if (spelled.starts_with("hex:")) return from_hex_text(spelled.substr(4));
    if (spelled.starts_with("raw:")) return std::string(spelled.substr(4));
    return std::string(spelled);
}

struct OneRecord {
    enum class What : uint8_t { get, put, erase, scan };

    What what = What::get;
    std::string path, index, key, value, low, high;
    std::optional<std::string> prefix, archive;
    uint64_t limit = UINT64_MAX;
    bool hex = false, create = false;

    int run() const;
    Result<bool> work(Store& store, Output& out) const;
    Result<Index> find(Store& store) const;
    Result<void> scan(const Index& in, Output& out) const;
    std::string shown(Slice bytes) const { return hex ? to_hex(bytes) : std::string(bytes); }
};

Result<Index> OneRecord::find(Store& store) const {
    if (!create) return store.index(index);
    return store.run(
        [&](Txn& txn) -> Result<Index> { return store.open_or_create_index(txn, index); });
}

Result<void> OneRecord::scan(const Index& in, Output& out) const {
    if (limit == 0) return {};
    uint64_t rows = 0;
    const auto each = [&](Slice k, Slice v) {
        out.text() += hex ? to_hex(k) : readable(k);
        out.text() += '\t';
        out.text() += hex ? to_hex(v) : readable(v);
        out.text() += '\n';
        return out.flush_if_full() && ++rows < limit;
    };
    if (prefix) TRY(in.scan_prefix(TRY(key_of(*prefix)), each));
    else TRY(in.scan(TRY(key_of(low)), TRY(key_of(high)), each));
    return {};
}

// False: there is no such key.
Result<bool> OneRecord::work(Store& store, Output& out) const {
    const Index in = TRY(find(store));
    switch (what) {
        case What::get: {
            std::string found;
            if (!TRY(in.get(TRY(key_of(key)), found))) return false;
            out.text() += shown(found) + '\n';
            return true;
        }
        case What::put: TRY(in.put(TRY(key_of(key)), TRY(value_of(value)))); return true;
        case What::erase: return in.erase(TRY(key_of(key)));
        case What::scan: TRY(scan(in, out)); return true;
    }
    return true;
}

int OneRecord::run() const {
    const bool looks = what == What::get || what == What::scan;
    auto store = looks ? open_to_look(path, {.archive = archive}, true)
                       : open_store(path, {.create = create, .archive = archive});
    if (!store) return complain(path, text_of_failed_open(path, store.error()));
    Output out("");
    const Result<bool> done = work(*store, out);
    const std::string wrong = out.finish();
    const auto closed = store->close();
    if (!done.has_value())
        return complain(path + ", index " + readable(index), done.error().text());
    if (!wrong.empty()) return complain("standard output", wrong);
    if (!closed) return complain(path, closed.error().text());
    return *done ? 0 : kNotFound;
}

constexpr const char* kSpelling =
    "A key or value is a text, hex:00ff, or raw:text for a text that looks otherwise. A key may "
    "also have typed parts, as u64:7 or u32:1,text:a (u8, u16, u32, u64, i32, i64, text).\n"
    "Exit status: 0 done; 1 an error; 3 there is no such key.";

CLI::App* add_one(CLI::App& app, int& status, OneRecord::What what, const char* name,
                  const char* about, const std::shared_ptr<OneRecord>& o) {
    auto* command = app.add_subcommand(name, about);
    o->what = what;
    command->footer(kSpelling);
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("index", o->index, "Name of the index")->required();
    if (what != OneRecord::What::scan) command->add_option("key", o->key, "The key")->required();
    add_archive_option(*command, o->archive);
    command->callback([o, &status] { status = o->run(); });
    return command;
}

}  // namespace

void add_one_record(CLI::App& app, int& status) {
    using enum OneRecord::What;
    const auto get_options = std::make_shared<OneRecord>();
    add_one(app, status, get, "get", "Print the value of a key of an index", get_options)
        ->add_flag("--hex", get_options->hex, "Print hexadecimal digits");
    const auto put_options = std::make_shared<OneRecord>();
    auto* put_command =
        add_one(app, status, put, "put", "Add a record to an index or replace its value, durably",
                put_options);
    put_command->add_option("value", put_options->value, "The value")->required();
    put_command->add_flag("--create", put_options->create,
                          "Make the store and the index if they are not there");
    add_one(app, status, erase, "erase", "Erase a record of an index, durably",
            std::make_shared<OneRecord>());
    const auto scan_options = std::make_shared<OneRecord>();
    auto* scan_command =
        add_one(app, status, scan, "scan",
                "Print records of an index, one a line: key, tabulator, value. Bytes that are not "
                "printable are \\xNN.",
                scan_options);
    auto* low = scan_command->add_option("--from", scan_options->low, "The first key");
    auto* high = scan_command->add_option("--to", scan_options->high, "The key behind the last");
    scan_command->add_option("--prefix", scan_options->prefix, "Only keys that begin so")
        ->excludes(low)
        ->excludes(high);
    scan_command->add_option("--limit", scan_options->limit, "At most so many records")
        ->check(kNotNegative);
    scan_command->add_flag("--hex", scan_options->hex, "Print hexadecimal digits");
}

}  // namespace lockstep::cli
