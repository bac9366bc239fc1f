// ledger_names.cc - reads of names and of secondary indexes, compared with the serial order.
#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/entries.h"
#include "tests/sim/ledger.h"

namespace lockstep::sim {

std::string Ledger::check_name(const Observation& read, const std::string& who) {
    report_.add(Count::names_checked);
    const bool exists = model_.contains(read.object);
    if (exists == !read.seen.empty()) return {};
    return fmt::format("{} was told that {} {}, the serial order says {}", who, read.object,
                       read.seen.empty() ? "does not exist" : "exists",
                       exists ? "it exists" : "it does not");
}

// The entries that the records of the model have in the range, without those of the transaction's
// own records.
std::string Ledger::check_entries(const Observation& read, const std::string& who) {
    report_.add(Count::entry_ranges_checked);
    Rows expected;
    for (const auto& [key, value] : rows(read.object))
        if (!std::binary_search(read.own.begin(), read.own.end(), key))
            add_entries(expected, key, value, read.low, read.high);
    report_.add(Count::entries_checked, expected.size());
    auto wanted = expected.begin();
    auto seen = read.seen.begin();
    for (;; ++wanted, ++seen) {
        const bool more = wanted != expected.end(), met = seen != read.seen.end();
        if (!more && !met) return {};
        if (more && met && wanted->first == seen->first && same(wanted->second, seen->second))
            continue;
        return fmt::format("{} read entries of {} [{}, {}) and met {}, the serial order says {}",
                           who, read.object, show(read.low), show(read.high),
                           met ? show(seen->first) + " = " + show(seen->second) : "the end",
                           more ? show(wanted->first) + " = " + show(wanted->second) : "the end");
    }
}

// The newest version of each record that has an entry there, or had one before it.
void Ledger::note_sources_of_entries(const Observation& read, std::vector<size_t>& sources) const {
    const auto of_object = history_.find(read.object);
    if (of_object == history_.end()) return;
    for (const auto& [key, all] : of_object->second) {
        if (all.empty() || std::binary_search(read.own.begin(), read.own.end(), key)) continue;
        const bool now = has_entry(key, all.back().value, read.low, read.high);
        const bool before =
            all.size() > 1 && has_entry(key, all[all.size() - 2].value, read.low, read.high);
        if (now || before) sources.push_back(all.back().commit);
    }
}

}  // namespace lockstep::sim
