// attempt_secondary.cc - reads through secondary indexes, which must equal what the records say.
#include <fmt/format.h>

#include <lockstep/secondary.h>
#include "tests/sim/attempt.h"
#include "tests/sim/entries.h"

namespace lockstep::sim {

namespace {

// Secondary keys are the first three bytes of a value, or its last one.
std::string secondary_key(uint32_t number) {
    if (number % 3 == 0) return std::string(1, static_cast<char>('a' + number / 3 % 26));
    if (number % 3 == 1) return fmt::format("t{}", number / 3 % 100).substr(0, 3);
    return fmt::format("t{}.", number / 3 % 10);
}

}  // namespace

Result<void> Attempt::by_secondary(Txn& txn, const Op& op) {
    if (!shared_.config.secondary) return {};
    const std::string object = index_name(op.object), low = secondary_key(op.key);
    const Index by = TRY(host_->index("by." + object));
    if (op.kind == OpKind::by_get) return get_by_secondary(txn, by, object, low);
    std::string high = low;
    high.back() = static_cast<char>(high.back() + 1 + op.span % 4);
    read_entries(object, low, high, TRY(walk_entries(txn, by, low, high, op.span)));
    return {};
}

// The first record with this key: those before it are missing.
Result<void> Attempt::get_by_secondary(Txn& txn, Index by, const std::string& object,
                                       const std::string& key) {
    SecondaryRecord record;
    const bool found = TRY(get_by(txn, by, key, record));
    Rows entries;
    std::string high = key + '\1';
    if (found) {
        const std::string entry = entry_of(key, record.key);
        entries.emplace(entry, value_of(record.value));
        high = entry + '\0';
    }
    read_entries(object, key + '\0', high, std::move(entries));
    return {};
}

// Up, down, or there and back.
Result<Rows> Attempt::walk_entries(Txn& txn, Index by, const std::string& low,
                                   const std::string& high, uint32_t walk) {
    SecondaryCursor cursor = scan_by(txn, by, low, high);
    const bool up = walk % 2 == 0;
    Rows entries;
    std::string last;
    while (TRY(up ? cursor.next() : cursor.prev())) {
        std::string entry = entry_of(cursor.secondary_key(), cursor.key());
        Value value = value_of(std::string(cursor.value()));
        if (!entries.empty() && (up ? entry <= last : entry >= last))
            unexpected("scan_by", "entries out of order at " + show(entry));
        if (!has_entry(std::string(cursor.key()), value, entry, entry + '\0'))
            unexpected("scan_by", fmt::format("{} is no entry of {}", show(entry), show(value)));
        last = entry;
        entries.emplace(std::move(entry), std::move(value));
    }
    if (walk % 3 != 0 || !serializable() || entries.size() < 2) return entries;
    const bool back = TRY(up ? cursor.prev() : cursor.next());
    const auto& second = up ? *std::next(entries.rbegin()) : *std::next(entries.begin());
    if (!back || entry_of(cursor.secondary_key(), cursor.key()) != second.first)
        unexpected("scan_by", "turning it did not meet " + show(second.first));
    return entries;
}

// Its own records are compared and taken out.
void Attempt::read_entries(const std::string& object, const std::string& low,
                           const std::string& high, Rows entries) {
    for (const auto& [entry, value] : entries)
        shared_.digest.add(hash_of(entry), hash_of(*value), thread_);
    Observation observation{.of = Observation::Of::entries,
                            .object = object,
                            .low = low,
                            .high = high,
                            .point = false,
                            .seen = std::move(entries),
                            .own = {}};
    if (const auto touched = own_.find(object); touched != own_.end()) {
        Rows mine, seen;
        for (const auto& [key, value] : touched->second.rows) {
            add_entries(mine, key, value, low, high);
            observation.own.push_back(key);
        }
        std::erase_if(observation.seen, [&](const auto& entry) {
            const bool is_own = touched->second.rows.contains(record_key_of(entry.first));
            if (is_own) seen.insert(entry);
            return is_own;
        });
        if (const std::string fault =
                difference({{object, {.rows = mine}}}, {{object, {.rows = seen}}});
            !fault.empty())
            unexpected("entries of its own records", fault);
    }
    // Below serializable other entries may come and go.
    if (serializable() || is_snapshot()) note(std::move(observation), 0);
}

}  // namespace lockstep::sim
