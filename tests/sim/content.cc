// content.cc - applying changes, and telling two contents apart.
#include "tests/sim/content.h"

#include <fmt/format.h>

#include <cctype>

namespace lockstep::sim {

void apply(Content& content, const Change& change) {
    switch (change.kind) {
        case Change::create_index: content[change.object] = {.is_index = true, .rows = {}}; break;
        case Change::create_heap: content[change.object] = {.is_index = false, .rows = {}}; break;
        case Change::drop: content.erase(change.object); break;
        case Change::row:
            if (change.value) content[change.object].rows[change.key] = change.value;
            else content[change.object].rows.erase(change.key);
    }
}

std::string show(std::string_view bytes) {
    std::string out;
    for (const char c : bytes.substr(0, 40)) {
        if (std::isprint(static_cast<unsigned char>(c))) out += c;
        else out += fmt::format("\\{:02x}", static_cast<unsigned char>(c));
    }
    if (bytes.size() > 40) out += fmt::format("...({} bytes)", bytes.size());
    return out;
}

std::string show(const Value& value) { return value ? "\"" + show(*value) + "\"" : "nothing"; }

std::string difference(const Content& expected, const Content& seen) {
    std::string out;
    int left = 4;
    const auto add = [&](std::string text) {
        if (left-- > 0) out += (out.empty() ? "" : "; ") + text;
    };
    for (const auto& [name, object] : expected) {
        const auto found = seen.find(name);
        if (found == seen.end()) {
            add(name + " is missing");
            continue;
        }
        if (found->second.is_index != object.is_index) add(name + " is of another kind");
        for (const auto& [key, value] : object.rows) {
            const auto row = found->second.rows.find(key);
            const Value now = row == found->second.rows.end() ? nullptr : row->second;
            if (!same(now, value))
                add(fmt::format("{}[{}] is {}, expected {}", name, show(key), show(now),
                                show(value)));
        }
        for (const auto& [key, value] : found->second.rows)
            if (!object.rows.contains(key))
                add(fmt::format("{}[{}] is {}, expected nothing", name, show(key), show(value)));
    }
    for (const auto& [name, object] : seen)
        if (!expected.contains(name)) add(name + " should not exist");
    return out;
}

}  // namespace lockstep::sim
