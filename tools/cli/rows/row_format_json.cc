// row_format_json.cc - rows as JSON lines.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/cli/rows/row_format_impl.h"

namespace lockstep::cli {
namespace {

void append_bytes(std::string& out, Slice bytes) {
    if (!is_plain_text(bytes)) {
        out += R"({"hex":")";
        append_hex_bytes(out, bytes);
        out += "\"}";
        return;
    }
    out += '"';
    for (const char c : bytes) {  // no control characters here
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    out += '"';
}

// Bytes of a JSON value; the text says what is wrong.
std::string bytes_of(const char* name, nlohmann::json& value, std::string& bytes) {
    if (value.is_string()) {
        bytes = std::move(value.get_ref<std::string&>());
        return {};
    }
    if (!value.is_object() || value.size() != 1 || !value.contains("hex") ||
        !value["hex"].is_string())
        return fmt::format("{} is neither a string nor {{\"hex\": \"...\"}}", name);
    bytes = std::move(value["hex"].get_ref<std::string&>());
    if (!from_hex(bytes, bytes.data()))
        return fmt::format("{}: hex is not pairs of hexadecimal digits", name);
    bytes.resize(bytes.size() / 2);
    return {};
}

std::string parse_secondary(std::span<char> line, nlohmann::json& j, Row& row) {
    if (j.size() != 3 || !j.contains("of") || !j.contains("unique") || !j["unique"].is_boolean())
        return "a secondary index has exactly the members secondary, of and unique (true or false)";
    std::string name, of;
    if (auto wrong = bytes_of("secondary", j["secondary"], name); !wrong.empty()) return wrong;
    if (auto wrong = bytes_of("of", j["of"], of); !wrong.empty()) return wrong;
    row.kind = RowKind::secondary;
    row.unique = j["unique"].get<bool>();
    pack(line, row, name, of, {});
    return {};
}

std::string parse_record(std::span<char> line, nlohmann::json& j, const char* object, Row& row) {
    const char* const id = row.of_index ? "key" : "id";
    if (j.size() != 3 || !j.contains(id) || !j.contains("value"))
        return fmt::format("a record has exactly the members {}, {} and value", object, id);
    std::string name, key, value;
    if (auto wrong = bytes_of(object, j[object], name); !wrong.empty()) return wrong;
    if (auto wrong = bytes_of(id, j[id], key); !wrong.empty()) return wrong;
    if (auto wrong = bytes_of("value", j["value"], value); !wrong.empty()) return wrong;
    row.kind = RowKind::record;
    row.kind_known = true;
    pack(line, row, name, key, value);
    return {};
}

}  // namespace

void append_json(std::string& out, const Row& row) {
    switch (row.kind) {
        case RowKind::header: return;
        case RowKind::start: out += fmt::format("{{\"lockstep_dump\":{}", row.number); break;
        case RowKind::end: out += fmt::format("{{\"end\":{}", row.number); break;
        case RowKind::secondary:
            out += "{\"secondary\":";
            append_bytes(out, row.object);
            out += ",\"of\":";
            append_bytes(out, row.key);
            out += row.unique ? ",\"unique\":true" : ",\"unique\":false";
            break;
        case RowKind::index:
        case RowKind::heap:
        case RowKind::record: {
            const bool of_index =
                row.kind == RowKind::index || (row.kind == RowKind::record && row.of_index);
            out += of_index ? "{\"index\":" : "{\"heap\":";
            append_bytes(out, row.object);
            if (row.kind != RowKind::record) break;
            out += of_index ? ",\"key\":" : ",\"id\":";
            append_bytes(out, row.key);
            out += ",\"value\":";
            append_bytes(out, row.value);
        }
    }
    out += "}\n";
}

std::string parse_json(std::span<char> line, Row& row) {
    nlohmann::json j = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (j.is_discarded()) return "not a JSON text";
    if (!j.is_object()) return "not a JSON object";
    for (const char* name : {"lockstep_dump", "end"}) {
        if (!j.contains(name)) continue;
        if (j.size() != 1 || !j[name].is_number_unsigned())
            return fmt::format("{} is not a number that stands alone", name);
        row.kind = name[0] == 'e' ? RowKind::end : RowKind::start;
        row.number = j[name].get<uint64_t>();
        return {};
    }
    if (j.contains("secondary")) return parse_secondary(line, j, row);
    row.of_index = j.contains("index");
    if (row.of_index == j.contains("heap")) return "a row names either an index or a heap";
    const char* const object = row.of_index ? "index" : "heap";
    if (j.size() > 1) return parse_record(line, j, object, row);
    row.kind = row.of_index ? RowKind::index : RowKind::heap;
    std::string name;
    if (auto wrong = bytes_of(object, j[object], name); !wrong.empty()) return wrong;
    pack(line, row, name, {}, {});
    return {};
}

}  // namespace lockstep::cli
