// plain_dump.cc - rows of CSV, TSV and JSON lines out of records.
#include "tools/cli/rows/plain_dump.h"

#include <fmt/core.h>

#include <numeric>

#include "sm/scan/column_types.h"
#include "tools/cli/counted.h"
#include "tools/cli/rows/plain_value.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

using State = PlainField::State;
using sm::scan::ColumnData;

constexpr size_t kDecodedRecords = 1024, kDecodedBytes = 1 << 20;

template <class Unsigned, class Signed>
uint64_t number_at(const ColumnData& data, size_t row, bool is_signed) {
    const Unsigned number = data.data.as<Unsigned>()[row];
    return is_signed ? static_cast<uint64_t>(int64_t{static_cast<Signed>(number)}) : number;
}

uint64_t bits_at(const ColumnData& data, size_t row, bool is_signed) {
    switch (data.width) {
        case 1: return number_at<uint8_t, int8_t>(data, row, is_signed);
        case 2: return number_at<uint16_t, int16_t>(data, row, is_signed);
        case 4: return number_at<uint32_t, int32_t>(data, row, is_signed);
        default: return number_at<uint64_t, int64_t>(data, row, is_signed);
    }
}

std::vector<uint16_t> places_of(const Columns& columns) {
    std::vector<uint16_t> places(columns.all().size());
    std::iota(places.begin(), places.end(), uint16_t{0});
    return places;
}

std::string name_of(const sm::scan::RecordBytes& record, bool by_key) {
    if (by_key) return "the key " + readable(record.key);
    return fmt::format("the record {}.{}", record.id >> 16, record.id & 0xffff);
}

}  // namespace

PlainDump::PlainDump(const Columns& columns, bool is_index, PlainFormat format, Output& out)
    : columns_(columns),
      maker_(columns, is_index),
      format_(format),
      out_(out),
      all_(places_of(columns_)),
      builder_(columns_, all_),
      texts_(all_.size()),
      fields_(all_.size()) {
    if (format_ == PlainFormat::jsonl) return;
    for (const Column& column : columns_.all()) {
        if (&column != columns_.all().data())
            out_.text() += format_ == PlainFormat::csv ? ',' : '\t';
        out_.text() += column.name;
    }
    out_.text() += '\n';
}

bool PlainDump::add(Slice key, Slice value, RecordId id) {
    batch_.push_back(
        {bytes_.size(), key.size(), value.size(), uint64_t{id.page.value} << 16 | id.slot.value});
    bytes_.append(key).append(value);
    return (batch_.size() < kDecodedRecords && bytes_.size() < kDecodedBytes) || write_batch();
}

bool PlainDump::write_batch() {
    std::vector<sm::scan::RecordBytes> records;
    for (const Kept& kept : batch_) {
        const Slice both = Slice(bytes_).substr(kept.at, kept.key_bytes + kept.value_bytes);
        records.push_back({both.substr(0, kept.key_bytes), both.substr(kept.key_bytes), kept.id});
    }
    const auto added = builder_.add({.records = records});
    if (!added) {
        wrong_ = added.error().text();
        find_wrong(records);
        return false;
    }
    const auto block = builder_.finish();
    for (size_t row = 0; row < records.size(); ++row) {
        write_row(*block, row);
        compare(records[row]);
    }
    batch_.clear();
    bytes_.clear();
    return out_.flush_if_full();
}

void PlainDump::find_wrong(std::span<const sm::scan::RecordBytes> records) {
    for (size_t i = 0; i < records.size(); ++i) {
        builder_.reset();
        const auto added = builder_.add({.records = records.subspan(i, 1)});
        if (added) continue;
        wrong_ = fmt::format(
            "{}: {} (lockstep describe changes the columns; a dump without --plain has all bytes)",
            name_of(records[i], !records[i].key.empty()), added.error().text());
        return;
    }
}

void PlainDump::write_row(const sm::scan::BlockData& block, size_t row) {
    const bool json = format_ == PlainFormat::jsonl;
    std::string& out = out_.text();
    for (size_t i = 0; i < all_.size(); ++i) {
        const Column& column = columns_.all()[i];
        const auto& type = sm::scan::type_row(column.type);
        const ColumnData& data = block.data[i];
        PlainField& field = fields_[i];
        const bool null = data.is_null(row);
        const uint64_t bits = null || !type.number() ? 0 : bits_at(data, row, type.is_signed);
        texts_[i].clear();
        if (!null && type.number()) append_number(texts_[i], column, bits);
        else if (!null)
            texts_[i] = type.is_text ? std::string(data.text(row)) : to_hex(data.text(row));
        field = {null ? State::absent : State::text, texts_[i]};
        if (!json) {
            if (i > 0) out += format_ == PlainFormat::csv ? ',' : '\t';
            append_plain(out, format_, field);
            continue;
        }
        out += i > 0 ? "," : "{";
        append_json_text(out, column.name);
        out += ':';
        if (null) out += "null";
        else if (is_json_number(column, bits)) out += field.text;
        else append_json_text(out, field.text);
    }
    out += json ? "}\n" : "\n";
}

void PlainDump::compare(const sm::scan::RecordBytes& record) {
    made_.clear();
    size_t key_bytes = 0;
    if (maker_.refusal().empty() && maker_.make(fields_, made_, key_bytes).empty() &&
        Slice(made_).substr(0, key_bytes) == record.key &&
        Slice(made_).substr(key_bytes) == record.value)
        return;
    if (lossy_++ == 0) first_lossy_ = name_of(record, !record.key.empty());
}

std::string PlainDump::loss() const {
    if (lossy_ == 0) return {};
    const std::string why =
        maker_.refusal().empty() ? "bytes that no column describes" : maker_.refusal();
    return fmt::format(
        "{} not whole in the table: {} (the first is {}; a dump without --plain has "
        "all bytes)",
        counted(lossy_, "record is", "records are"), why, first_lossy_);
}

}  // namespace lockstep::cli
