// plain_rows.cc - names of columns, and records made of rows.
#include "tools/cli/rows/plain_rows.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "threads/base/check.h"
#include "tools/base/parse_failure.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

using State = PlainField::State;

// A file of another kind whose first bytes tell it.
std::string refusal_of(Slice head) {
    if (head.starts_with("\x1f\x8b"))
        return "is compressed (zcat FILE | lockstep load DIR - reads it)";
    if (head.starts_with("\x28\xb5\x2f\xfd"))
        return "is compressed (zstd -dc FILE | lockstep load DIR - reads it)";
    if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff"))
        return "is UTF-16 (iconv -f UTF-16 -t UTF-8 FILE | lockstep load DIR - reads it)";
    return {};
}

}  // namespace

PlainSyntax::PlainSyntax(RowReader& reader, const PlainOptions& options, const Columns& columns,
                         bool is_index)
    : columns_(columns), maker_(columns, is_index), ignore_(options.ignore) {
    if (!maker_.refusal().empty())
        throw Failed("no record can be made of the described columns: " + maker_.refusal());
    if (const auto wrong = refusal_of(reader.head()); !wrong.empty())
        throw Failed(reader.path() + ": " + wrong);
    if (reader.head().starts_with("\xef\xbb\xbf")) reader.skip_to({.bytes = 3, .lines = 0});
    const Slice first = reader.head().substr(0, reader.head().find('\n'));
    const auto by_name = plain_format_of_file(reader.path());
    format_ = options.format ? *options.format : by_name ? *by_name : detect_plain_format(first);
    if (format_ == PlainFormat::jsonl) {
        if (options.columns) throw Failed("--columns: a table of JSON lines names its columns");
    } else {
        take_header(reader, options);
        require_columns(reader.path());
    }
}

size_t PlainSyntax::place_of(const std::string& name, const std::string& where) const {
    if (name.empty() || std::ranges::find(ignore_, name) != ignore_.end()) return kIgnored;
    if (const auto place = columns_.find(name)) return *place;
    std::vector<std::string> names;
    for (const Column& column : columns_.all()) names.push_back(column.name);
    const std::string nearest = nearest_name(name, names);
    throw Failed(
        fmt::format("{}: no column '{}' is described, but {}{} (--ignore '{}' leaves it "
                    "out)",
                    where, readable(name), fmt::join(names, ", "),
                    nearest.empty() ? "" : "; did you mean " + nearest + "?", readable(name)));
}

void PlainSyntax::take_header(RowReader& reader, const PlainOptions& options) {
    std::vector<std::string> names;
    std::string where = "--columns";
    if (options.columns) {
        names = *options.columns;
    } else {
        const size_t end = plain_record_end(format_, reader.head());
        header_ = reader.head().substr(0, end);
        std::string line = header_;
        where = reader.path() + ": line 1";
        std::vector<PlainField> fields;
        const auto wrong = split_plain(format_, without_line_end(line), fields);
        if (!wrong.empty()) throw Failed(where + ": " + wrong);
        if (end == Slice::npos && reader.head().size() > 65535)
            throw Failed(where + " does not end within 64 KB, so it does not name the columns");
        for (PlainField& field : fields) {
            while (field.text.starts_with(' ')) field.text.remove_prefix(1);
            while (field.text.ends_with(' ')) field.text.remove_suffix(1);
            names.emplace_back(field.text);
        }
        const auto lines = static_cast<uint64_t>(std::ranges::count(header_, '\n'));
        reader.skip_to({.bytes = reader.place().bytes + header_.size(), .lines = lines});
    }
    for (const std::string& name : names) {
        const size_t place = place_of(name, where);
        if (place != kIgnored && std::ranges::find(places_, place) != places_.end())
            throw Failed(fmt::format("{}: a second column {}", where, name));
        places_.push_back(place);
    }
}

// What every row would lack is told once.
void PlainSyntax::require_columns(const std::string& path) const {
    for (size_t i = 0; i < columns_.all().size(); ++i) {
        const Column& column = columns_.all()[i];
        if (column.nullable() || column.place == ColumnPlace::id) continue;
        if (std::ranges::find(places_, i) == places_.end())
            throw Failed(
                fmt::format("{}: the column {} is missing, and its description has no "
                            "null (line 1 or --columns names the columns)",
                            path, column.name));
    }
}

size_t PlainSyntax::whole(Slice text) const {
    if (format_ != PlainFormat::csv) return text.rfind('\n') + 1;
    size_t whole = 0;
    for (size_t bytes; (bytes = plain_record_end(format_, text.substr(whole))) != Slice::npos;)
        whole += bytes;
    return whole;
}

std::string PlainSyntax::fields_of(std::span<char> record, std::vector<PlainField>& fields,
                                   std::vector<PlainMember>& members) const {
    std::vector<PlainField> given;
    const auto wrong = format_ == PlainFormat::jsonl
                           ? split_json({record.data(), record.size()}, members)
                           : split_plain(format_, record, given);
    if (!wrong.empty()) return wrong;
    fields.assign(columns_.all().size(), {});
    for (const PlainMember& member : members) try {
            const size_t place = place_of(member.name, "member");
            if (place != kIgnored && !member.absent) fields[place] = {State::text, member.text};
        } catch (const Failed& failed) {
            return failed.what();
        }
    if (format_ == PlainFormat::jsonl) return {};
    if (given.size() != places_.size())
        return fmt::format("{} fields; line 1 or --columns names {}", given.size(), places_.size());
    for (size_t i = 0; i < given.size(); ++i)
        if (places_[i] != kIgnored) fields[places_[i]] = given[i];
    return {};
}

void PlainSyntax::parse(RowBlock& block) const {
    std::string made, scratch;
    std::vector<PlainField> fields;
    std::vector<PlainMember> members;
    std::vector<std::pair<size_t, size_t>> sizes;  // of each row: key and value
    const bool one_column = format_ != PlainFormat::jsonl && places_.size() == 1;
    uint32_t line = 0;
    for (Slice rest(block.bytes.data(), block.bytes.size()), record; !rest.empty();
         rest.remove_prefix(record.size())) {
        record = rest.substr(0, plain_record_end(format_, rest));
        scratch = record;  // fields are decoded in place
        const std::span<char> row = without_line_end(scratch);
        if (!row.empty() || one_column) {
            const size_t begin = made.size();
            size_t key_bytes = 0;
            std::string why = fields_of(row, fields, members);
            if (why.empty()) why = maker_.make(fields, made, key_bytes);
            if (why.empty()) {
                sizes.emplace_back(key_bytes, made.size() - begin - key_bytes);
                block.line_of.push_back(line);
            } else {
                made.resize(begin);
                block.refused.push_back({line, std::move(why), std::string(record)});
            }
        }
        line += static_cast<uint32_t>(std::ranges::count(record, '\n'));
    }
    block.bytes.assign(made.begin(), made.end());
    const char* at = block.bytes.data();
    for (const auto& [key_bytes, value_bytes] : sizes) {
        block.rows.push_back({.kind = RowKind::record,
                              .ordinal = 0,
                              .key = {at, key_bytes},
                              .value = {at + key_bytes, value_bytes}});
        at += key_bytes + value_bytes;
    }
    DCHECK(block.rows.size() == block.line_of.size());
}

}  // namespace lockstep::cli
