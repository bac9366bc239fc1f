// crash_harness.h - random transactions on a simulated disk, crash images at its events, recovery
// of each image, comparison with an oracle.
//
// Concepts   The main run never crashes: at an I/O event the disk gives an image of what a crash
//            would leave, and a second store is opened on that between two steps of the run. The
//            oracle lives outside the disk: effects of transactions in the order in which they
//            called commit(), which is the order of their commit records, and which of them were
//            acknowledged as durable. A recovered store must hold exactly the effects of some
//            prefix of that order that contains every acknowledged one.
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

// What a committed transaction did; nullopt: gone.
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
    size_t acknowledged = 0;       // the first so many must survive
    bool made = false;             // index and heap exist for certain

    // Is `seen` the state after some number of commits between acknowledged and `called`?
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

// A crash that is still to be recovered from.
struct CrashImage {
    std::unique_ptr<threads::SimDisk> disk;
    uint64_t event;
    threads::SimCrash mode;
    size_t acknowledged, called;
    bool made;
};

// All there is in the index "i" and the heap "h"; nullopt if they do not exist.
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
