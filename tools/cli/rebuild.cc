// rebuild.cc - one transaction for each index, batches for heaps.
#include "tools/cli/rebuild.h"

#include <fmt/core.h>

#include <atomic>

#include "threads/base/try.h"
#include "tools/cli/page_source.h"

namespace lockstep::cli {
namespace {

constexpr size_t kBatchBytes = 4u << 20;

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
            for (size_t bytes = 0; more && bytes < kBatchBytes; more = source.next(id, record)) {
                TRY(heap.insert(txn, record));
                bytes += record.size();
                ++records;
            }
            return {};
        }));
    return {};
}

}  // namespace

std::string new_name(const FoundObject& object) {
    return object.name.empty() ? fmt::format("object-{}", object.id) : object.name;
}

Rebuilt rebuild(Store& store, Survey& survey, uint32_t workers, uint32_t fill_percent) {
    std::vector<const FoundObject*> due;
    for (const auto& [id, object] : survey.objects) due.push_back(&object);
    std::vector<Rebuilt> parts(due.size());
    std::atomic<size_t> next{0};
    const auto fill_some = [&]() -> Result<void> {
        for (size_t i; (i = next.fetch_add(1)) < due.size();) {
            const FoundObject& object = *due[i];
            const auto source =
                object.is_index ? read_leaves(survey, object) : read_heap(survey, object);
            const auto done =
                object.is_index
                    ? fill_index(store, new_name(object), *source, fill_percent, parts[i].records)
                    : fill_heap(store, new_name(object), *source, parts[i].records);
            if (!done) parts[i].error = object.text() + ": " + done.error().text();
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
        if (all.error.empty()) all.error = part.error;
    }
    return all;
}

}  // namespace lockstep::cli
