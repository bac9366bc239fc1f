// rebuild.cc - one transaction for each index, batches for heaps. Secondary indexes come last.
#include "tools/cli/pages/rebuild.h"

#include <fmt/core.h>

#include <atomic>

#include "sm/api/engine_of.h"
#include "sm/api/operation.h"
#include "sm/catalog/catalog.h"
#include "threads/base/try.h"
#include "tools/cli/pages/page_source.h"

namespace lockstep::cli {
namespace {

constexpr size_t kRebuiltBytes = 4u << 20;

Result<void> fill_index(Store& store, const std::string& name, PairSource& source,
                        uint32_t fill_percent, uint64_t& records) {
    // In a transaction of its own: the long one logs nothing until its end, so the log is recycled.
    TRY(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.create_index(txn, name));
        return {};
    }));
    bool read = false;
    return store.run([&](Txn& txn) -> Result<void> {
        // A source is read once. Nothing competes with this transaction.
        if (std::exchange(read, true)) return fail(ErrorCode::bad_argument, "second bulk load");
        return store.bulk_load(
            txn, TRY(store.index(name)),
            [&](Slice& key, Slice& value) {
                const bool more = source.next(key, value);
                records += more;
                return more;
            },
            fill_percent);
    });
}

// The engine makes a secondary index from a key function. This makes one from its entries.
Result<void> fill_secondary(Store& store, const std::string& name, const std::string& of,
                            bool unique, PairSource& source, uint32_t fill_percent,
                            uint64_t& entries) {
    sm::Engine& engine = sm::engine_of(store);
    TRY(store.run([&](Txn& txn) -> Result<void> {
        txn::Transaction* const t = TRY(sm::schema_txn(&engine, txn));
        return sm::finish(*t, [&]() -> Result<void> {
            sm::BTree* const primary = TRY(engine.catalog->index(*t, of));
            bool made = false;
            TRY(engine.catalog->make_secondary(*t, name, *primary, unique, false, made));
            return {};
        });
    }));
    bool read = false;
    return store.run([&](Txn& txn) -> Result<void> {
        if (std::exchange(read, true)) return fail(ErrorCode::bad_argument, "second bulk load");
        txn::Transaction* const t = TRY(sm::schema_txn(&engine, txn));
        return sm::finish(*t, [&]() -> Result<void> {
            sm::BTree* const tree = TRY(engine.catalog->index(name));
            TRY(engine.locks->lock_object(t->locks, tree->lock(), txn::LockMode::X));
            const auto next = [&](Slice& key, Slice& value) {
                const bool more = source.next(key, value);
                entries += more;
                return more;
            };
            return tree->bulk_load(*t, next, fill_percent);
        });
    });
}

Result<void> fill_heap(Store& store, const std::string& name, PairSource& source,
                       uint64_t& records) {
    TRY(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.create_heap(txn, name));
        return {};
    }));
    const Heap heap = TRY(store.heap(name));
    Slice id, record;
    for (bool more = source.next(id, record); more;)
        TRY(store.run([&](Txn& txn) -> Result<void> {
            for (size_t bytes = 0; more && bytes < kRebuiltBytes; more = source.next(id, record)) {
                TRY(heap.insert(txn, record));
                bytes += record.size();
                ++records;
            }
            return {};
        }));
    return {};
}

Result<void> fill(Store& store, Survey& survey, const FoundObject& object, uint32_t fill_percent,
                  Rebuilt& done) {
    const std::string name = survey.name_of(object.id);
    const auto source = object.is_index ? read_leaves(survey, object) : read_heap(survey, object);
    if (object.of != 0)
        return fill_secondary(store, name, survey.name_of(object.of), object.unique, *source,
                              fill_percent, done.entries);
    if (object.is_index) return fill_index(store, name, *source, fill_percent, done.records);
    return fill_heap(store, name, *source, done.records);
}

Rebuilt fill_all(Store& store, Survey& survey, const std::vector<const FoundObject*>& due,
                 uint32_t workers, uint32_t fill_percent) {
    std::vector<Rebuilt> parts(due.size());
    std::atomic<size_t> next{0};
    const auto fill_some = [&]() -> Result<void> {
        for (size_t i; (i = next.fetch_add(1)) < due.size();) {
            const auto done = fill(store, survey, *due[i], fill_percent, parts[i]);
            if (!done) parts[i].error = due[i]->text() + ": " + done.error().text();
        }
        return {};
    };
    std::vector<Handle<void>> threads;
    for (uint32_t worker = 0; worker < workers; ++worker)
        threads.push_back(store.start(fill_some, static_cast<int>(worker)));
    Rebuilt all;
    for (auto& thread : threads)
        if (const auto done = thread.join(); !done && all.error.empty())
            all.error = done.error().text();
    for (const Rebuilt& part : parts) {
        all.records += part.records;
        all.entries += part.entries;
        if (all.error.empty()) all.error = part.error;
    }
    return all;
}

}  // namespace

Rebuilt rebuild(Store& store, Survey& survey, uint32_t workers, uint32_t fill_percent,
                bool secondaries) {
    std::vector<const FoundObject*> first, second;
    for (const auto& [id, object] : survey.objects)
        (object.of == 0 ? first : second).push_back(&object);
    Rebuilt all = fill_all(store, survey, first, workers, fill_percent);
    if (!secondaries || !all.error.empty()) return all;
    const Rebuilt more = fill_all(store, survey, second, workers, fill_percent);
    all.entries = more.entries;
    all.error = more.error;
    return all;
}

}  // namespace lockstep::cli
