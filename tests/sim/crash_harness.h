// crash_harness.h - parts of the crash tests: effects, content, oracle and crash images.
//
// Concepts   The main run never crashes. At an I/O event the disk gives an image of what a crash
//            would leave. A second store opens that image between two steps of the run. The oracle
//            is outside the disk. It keeps the effects of transactions in the order in which they
//            called commit(), which is the order of their commit records. It also knows which were
//            acknowledged as durable. A recovered store must hold exactly the effects of a prefix
//            of that order, and the prefix must contain every acknowledged transaction.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep::sim {

// What a committed transaction did; nullopt: erased.
struct Effects {
    std::map<std::string, std::optional<std::string>> keys;
    std::map<RecordId, std::optional<std::string>> records;
};

struct Content {
    std::map<std::string, std::string> keys;
    std::map<RecordId, std::string> records;
    bool operator==(const Content&) const = default;

    void apply(const Effects& effects) {
        for (const auto& [key, value] : effects.keys)
            if (value) keys[key] = *value;
            else keys.erase(key);
        for (const auto& [id, value] : effects.records)
            if (value) records[id] = *value;
            else records.erase(id);
    }
};

struct Oracle {
    std::vector<Effects> commits;  // in the order of commit()
    size_t acknowledged = 0;       // number of first commits that must survive
    bool made = false;             // index and heap exist for certain

    // True if `seen` is the state after n commits, acked <= n <= called.
    bool explains(const Content& seen, size_t acked, size_t called) const {
        Content state;
        for (size_t i = 0; i < acked; ++i) state.apply(commits[i]);
        for (size_t i = acked;; ++i) {
            if (state == seen) return true;
            if (i == called) return false;
            state.apply(commits[i]);
        }
    }
};

// An image that waits for its recovery.
struct CrashImage {
    std::unique_ptr<threads::SimDisk> disk;
    uint64_t event;
    threads::SimCrash mode;
    size_t acknowledged, called;
    bool made;
};

// Content of the index "i" and the heap "h"; nullopt if they do not exist.
inline Result<std::optional<Content>> read_all(SimStore& store) {
    auto result = Result<std::optional<Content>>(std::optional<Content>{});
    store.on_thread([&] {
        auto done = store->run([&](Txn& txn) -> Result<void> {
            auto index = store->index("i");
            auto heap = store->heap("h");
            if (!index || !heap) return {};
            Content content;
            Cursor cursor = index->scan(txn);
            while (TRY(cursor.next())) content.keys.emplace(cursor.key(), cursor.value());
            TRY(heap->scan(txn, [&](RecordId id, Slice value) {
                return content.records.emplace(id, value).second;
            }));
            result = std::optional<Content>(std::move(content));
            return {};
        });
        if (!done) result = std::unexpected(done.error());
    });
    return result;
}

}  // namespace lockstep::sim
