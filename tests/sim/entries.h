// entries.h - what the secondary indexes of the simulator contain, computed from the records.
//
// Concepts   An entry is a text: the secondary key, a zero byte, the key of the record. Secondary
//            keys have no zero bytes. So entries as texts have the order of the index, and a bound
//            of secondary keys is a bound of entries.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/secondary.h>
#include "tests/sim/content.h"

namespace lockstep::sim {

// The key function. Two entries for most records, which others share; none for an empty value.
void entry_keys(Slice key, Slice value, SecondaryKeys& keys);

std::string entry_of(std::string_view secondary_key, std::string_view key);
std::string_view record_key_of(std::string_view entry);
// Adds the entries of a record in [low, high) to `entries`, with its value. An empty `high`: to the
// end.
void add_entries(Rows& entries, const std::string& key, const Value& value, std::string_view low,
                 std::string_view high);
// Has the record an entry in [low, high)?
bool has_entry(const std::string& key, const Value& value, std::string_view low,
               std::string_view high);

}  // namespace lockstep::sim
