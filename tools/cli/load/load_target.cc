// load_target.cc - filling indexes and heaps, with a note in the same transaction.
#include "tools/cli/load/load_target.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "threads/base/try.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

constexpr size_t kBatchPairs = 4096, kBatchBytes = 4u << 20;

Slice bytes_of(const uint64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
}
uint64_t number_of(Slice bytes) {
    uint64_t number = 0;
    std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
    return number;
}
std::string note_key(std::string_view what, const std::string& name) {
    return std::string(what) + "/" + name;
}

}  // namespace

std::string Target::text() const { return (is_index ? "index " : "heap ") + readable(name); }

Result<bool> LoadNotes::present(uint64_t& fingerprint) {
    const auto list = store_.list();
    if (std::ranges::find(list, kIndexName, &Store::Entry::name) == list.end()) return false;
    return store_.run([&](Txn& txn) -> Result<bool> {
        std::string value;
        TRY(TRY(store_.index(kIndexName)).get(txn, "input", value));
        fingerprint = number_of(value);
        return true;
    });
}

Result<void> LoadNotes::begin(uint64_t fingerprint) {
    return store_.run([&](Txn& txn) -> Result<void> {
        return TRY(store_.create_index(txn, kIndexName))
            .insert(txn, "input", bytes_of(fingerprint));
    });
}

std::string LoadNotes::refusal(const std::string& name) {
    const auto list = store_.list();
    const auto own = std::ranges::find(list, name, &Store::Entry::name);
    if (own == list.end()) return {};
    if (own->of != ObjectId{})
        return fmt::format(
            "{} is a secondary index of this store, so only the store changes it (leave it out of "
            "the input)",
            readable(name));
    const auto secondary = std::ranges::find(list, own->id, &Store::Entry::of);
    if (secondary == list.end()) return {};
    return fmt::format(
        "index {} of this store has the secondary index {}, whose key function only the "
        "application has (load into a new store; or drop {} in the application, load, and create "
        "it again there)",
        readable(name), readable(secondary->name), readable(secondary->name));
}

Result<Target> LoadNotes::declare(const std::string& name, bool is_index) {
    Target target{.name = name, .is_index = is_index};
    std::string mode, value;
    TRY(store_.run([&](Txn& txn) -> Result<void> {
        const Index notes = TRY(store_.index(kIndexName));
        TRY(notes.get(txn, note_key("mode", name), mode));
        target.done = TRY(notes.get(txn, note_key("done", name), value));
        value.clear();
        TRY(notes.get(txn, note_key("seen", name), value));
        target.inserted = number_of(value);
        if (is_index) TRY(store_.open_or_create_index(txn, name));
        else TRY(store_.open_or_create_heap(txn, name));
        return {};
    }));
    if (mode.empty()) {
        // A bulk load of nothing is refused if the index is not empty.
        const auto probe = [&](Txn& txn) -> Result<void> {
            return store_.bulk_load(txn, TRY(store_.index(name)),
                                    [](Slice&, Slice&) { return false; });
        };
        mode = is_index && store_.run(probe) ? "bulk" : "insert";
        TRY(store_.run([&](Txn& txn) -> Result<void> {
            return TRY(store_.index(kIndexName)).put(txn, note_key("mode", name), mode);
        }));
    }
    target.bulk = mode == "bulk";
    return target;
}

Result<void> LoadNotes::insert_batch(Txn& txn, const Target& target, std::span<const Pair> batch,
                                     bool replace) {
    if (!target.is_index) {
        const Heap heap = TRY(store_.heap(target.name));
        for (const Pair& pair : batch) TRY(heap.insert(txn, pair.value()));
    } else if (const Index index = TRY(store_.index(target.name)); replace) {
        for (const Pair& pair : batch) TRY(index.put(txn, pair.key(), pair.value()));
    } else {
        std::vector<NewRecord> records;
        for (const Pair& pair : batch) records.push_back({pair.key(), pair.value()});
        TRY(index.insert_many(txn, records));
    }
    return TRY(store_.index(kIndexName))
        .put(txn, note_key("seen", target.name), bytes_of(target.inserted + batch.size()));
}

Result<void> LoadNotes::insert(Target& target, bool replace) {
    const uint64_t first = target.seen - target.pairs.size();  // the number of pairs[0]
    size_t at = static_cast<size_t>(std::min<uint64_t>(
        target.inserted - std::min(target.inserted, first), target.pairs.size()));
    while (at < target.pairs.size()) {
        size_t end = at, bytes = 0;
        while (end < target.pairs.size() && end - at < kBatchPairs && bytes < kBatchBytes) {
            bytes += target.pairs[end].key_bytes + size_t{target.pairs[end].value_bytes};
            ++end;
        }
        const std::span batch(&target.pairs[at], end - at);
        TRY(store_.run([&](Txn& txn) { return insert_batch(txn, target, batch, replace); }));
        target.inserted += batch.size();
        at = end;
    }
    target.pairs.clear();
    return {};
}

Result<void> LoadNotes::build(Target& target, PairSource& source, uint32_t fill_percent) {
    // A source is read once: no second attempt. Nothing competes with this transaction.
    bool read = false;
    TRY(store_.run([&](Txn& txn) -> Result<void> {
        if (std::exchange(read, true)) return fail(ErrorCode::bad_argument, "second bulk load");
        TRY(store_.bulk_load(
            txn, TRY(store_.index(target.name)),
            [&](Slice& key, Slice& value) { return source.next(key, value); }, fill_percent));
        if (!source.error().empty()) return fail(ErrorCode::bad_argument, "input of the bulk load");
        return TRY(store_.index(kIndexName)).put(txn, note_key("done", target.name), "");
    }));
    target.done = true;
    return {};
}

Result<void> LoadNotes::end() {
    return store_.run([&](Txn& txn) { return store_.drop(txn, kIndexName); });
}

}  // namespace lockstep::cli
