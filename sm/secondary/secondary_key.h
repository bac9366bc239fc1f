// secondary_key.h - the stored entries of secondary indexes.
//
// Layout     unique: key = secondary key, value = primary key.
//            otherwise: key = secondary key with each zero byte as 0 FF, then 0 0, then the
//            primary key; empty value.
// Invariants SE-1 Entries sort by secondary key, then by primary key. Different pairs have
//                 different entries. [test: SecondaryKey]
//            SE-2 split_entry() takes apart what append_entry() put together, and nothing else.
#pragma once

#include <optional>
#include <string>

#include <lockstep/types.h>

namespace lockstep::sm {

struct EntryParts {
    std::string secondary_key, primary_key;
};

// Appends the key of the entry to `out`.
inline void append_entry(std::string& out, bool unique, Slice secondary_key, Slice primary_key) {
    if (unique) {
        out.append(secondary_key);
        return;
    }
    for (size_t zero; (zero = secondary_key.find('\0')) != Slice::npos;) {
        out.append(secondary_key.substr(0, zero + 1));
        out.push_back('\xff');
        secondary_key.remove_prefix(zero + 1);
    }
    out.append(secondary_key);
    out.append(2, '\0');
    out.append(primary_key);
}
inline std::string entry_of(bool unique, Slice secondary_key, Slice primary_key) {
    std::string out;
    append_entry(out, unique, secondary_key, primary_key);
    return out;
}
inline Slice entry_value(bool unique, Slice primary_key) { return unique ? primary_key : Slice{}; }

// The least entry that can have this secondary key or a larger one: a bound of scans.
inline std::string least_entry(bool unique, Slice secondary_key) {
    return entry_of(unique, secondary_key, {});
}
// The least entry that is above all entries of this secondary key.
inline std::string entry_above(bool unique, Slice secondary_key) {
    std::string bound = least_entry(unique, secondary_key);
    if (unique) bound.push_back('\0');
    else bound.back() = '\1';
    return bound;
}

// Nothing if it is no entry.
std::optional<EntryParts> split_entry(bool unique, Slice key, Slice value);

}  // namespace lockstep::sm
