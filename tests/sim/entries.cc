// entries.cc - entries of secondary indexes as texts.
#include "tests/sim/entries.h"

#include "threads/base/check.h"

namespace lockstep::sim {

void entry_keys(Slice, Slice value, SecondaryKeys& keys) {
    if (value.empty()) return;
    keys.add(value.substr(0, 3));
    keys.add(value.substr(value.size() - 1));
}

std::string entry_of(std::string_view secondary_key, std::string_view key) {
    DCHECK(secondary_key.find('\0') == std::string_view::npos);
    return std::string(secondary_key) + '\0' + std::string(key);
}

std::string_view record_key_of(std::string_view entry) {
    const size_t end = entry.find('\0');
    CHECK(end != std::string_view::npos);  // entry_of() has made it
    return entry.substr(end + 1);
}

void add_entries(Rows& entries, const std::string& key, const Value& value, std::string_view low,
                 std::string_view high) {
    if (value == nullptr) return;
    SecondaryKeys keys;
    entry_keys(key, *value, keys);
    for (size_t n = 0; n < keys.size(); ++n) {
        std::string entry = entry_of(keys[n], key);
        if (entry >= low && (high.empty() || entry < high)) entries.emplace(entry, value);
    }
}

bool has_entry(const std::string& key, const Value& value, std::string_view low,
               std::string_view high) {
    Rows entries;
    add_entries(entries, key, value, low, high);
    return !entries.empty();
}

}  // namespace lockstep::sim
