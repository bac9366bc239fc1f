// crash_harness.h - random transactions on a simulated disk, crash images at its events, recovery of each image, comparison with an oracle.
//
// Concepts   The main run never crashes: at an I/O event the disk gives an image of what a crash would leave, and a second store is opened on
//            that between two steps of the run. The oracle lives outside the disk: effects of transactions in the order in which they
//            called commit(), which is the order of their commit records, and which of them were acknowledged as durable.
//            A recovered store must hold exactly the effects of some prefix of that order that contains every acknowledged one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sm/engine.h"
#include "sm/recovery.h"
#include "sm/store.h"
#include "threads/base/rng.h"
#include "tests/sm/store_crash_util.h"
#include "threads/io/sim_disk.h"
#include "tests/steps_of_run.h"

namespace lockstep::sim {

inline uint64_t number_from(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

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
    std::vector<Effects> commits;                // in the order of commit()
    size_t acknowledged = 0;                     // the first so many must survive
    bool made = false;                           // index and heap exist for certain

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

// A store on a simulated disk, driven by the calling kernel thread.
class SimStore {
public:
    SimStore(threads::SimDisk& disk, uint64_t seed, uint32_t workers) : disk_(disk) {
        seams_.disk = &disk;
        seams_.clock = &clock_;
        seams_.caller_driven = true;
        seams_.seed = seed;
        seams_.random_schedule = true;
        seams_.idle = [this] { return idle(); };
        options_.workers = workers;
        options_.pool_bytes = 4 << 20;
        options_.log_bytes = 64 << 20;
        options_.log_segment_bytes = 1 << 20;
        options_.log_ring_bytes = 1 << 20;
        options_.lock_table_bytes_log2 = 16;
        options_.transactions_max = 64;
        options_.lock_timeout = 200 * kMillisecond;
        options_.steps = steps_of_run();
        options_.seams = &seams_;
        options_.logger = [this](int level, std::string_view text) {
            if (level == 0) messages_ += std::string(text) + "\n";
        };
    }
    Options& options() { return options_; }
    Result<void> open() {
        auto opened = Store::open("/store", options_);
        if (!opened) return std::unexpected(opened.error());
        store_.emplace(std::move(*opened));
        return {};
    }
    Result<void> close() {
        auto done = store_->close();
        store_.reset();
        return done;
    }
    Store& operator*() { return *store_; }
    Store* operator->() { return &*store_; }
    const std::string& messages() const { return messages_; }

    // One step of the run, or time passes.
    void step() {
        if (!store_->engine().runtime->step()) idle();
    }
    // Runs fn on a user thread and drives until it has ended.
    void on_thread(std::function<void()> fn) {
        bool ended = false;
        auto handle = store_->start([&]() -> Result<void> {
            fn();
            ended = true;
            return {};
        }, 0);
        while (!ended) step();
    }

private:
    bool idle() {
        if (!disk_.advance(clock_)) clock_.advance(kMillisecond);
        return true;
    }
    threads::SimDisk& disk_;
    ManualClock clock_;
    Seams seams_;
    Options options_;
    std::optional<Store> store_;
    std::string messages_;
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
            TRY(heap->scan(txn, [&](RecordId id, Slice value) { return content.records.emplace(id, value).second; }));
            result = std::optional<Content>(std::move(content));
            return {};
        });
        if (!done) result = std::unexpected(done.error());
    });
    return result;
}

}  // namespace lockstep::sim
