// player.h - plays scripts against a store, step by step in a given order, with exact lock waits.
//
// Concepts   The caller drives the store on a simulated disk. Time stands still while a schedule
//            runs. After each step the player runs the store until no thread can run. A transaction
//            whose step has not ended then waits for a lock, and continues by itself once it gets
//            the lock. A schedule thus plays the same way every time, and timing hides no schedule.
//            A durable commit cannot return while time stands still. The other transactions then
//            run on what early lock release gave them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include <lockstep/store.h>
#include "sm/api/engine_of.h"
#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "sm/host/test_hooks.h"
#include "tests/isolation/script.h"
#include "threads/io/sim_disk.h"
#include "threads/sync/event.h"

namespace lockstep::isolation {

struct PlayOptions {
    Isolation isolation = Isolation::serializable;
    Durability durability = Durability::lazy;
    bool heap = false;    // rows are heap records, not index entries
    bool groups = false;  // reads of index rows are get_many of several keys
    // Scripts that only read are snapshot transactions. They must neither wait nor fail.
    bool snapshot_readers = false;
};

class Player {
public:
    explicit Player(StepsMode steps = StepsMode::off, size_t row_bytes = 0)
        : row_bytes_(row_bytes) {
        hooks_ = {.disk = &disk_,
                  .clock = &clock_,
                  .caller_driven = true,
                  .seed = 1,
                  .random_schedule = false,
                  .idle = [this] { return idle(); }};
        Options options{.pool_bytes = 8 << 20,
                        .transactions_max = 64,
                        .log_bytes = 64 << 20,
                        .log_segment_bytes = 1 << 20,
                        .log_ring_bytes = 1 << 20,
                        .lock_timeout = kNever,
                        .lock_table_bytes_log2 = 16};
        options.steps.mode = steps;
        options.test_hooks = &hooks_;
        auto opened = Store::open("/store", options);
        EXPECT_TRUE(opened) << opened.error().text();
        store_.emplace(std::move(*opened));
        transact([&](Txn& txn) -> Result<void> {
            index_ = TRY(store_->create_index(txn, "rows"));
            heap_ = TRY(store_->create_heap(txn, "records"));
            return {};
        });
    }
    ~Player() { EXPECT_TRUE(store_->close()); }

    // Sets the rows to `table` and lets the ghost cleaner finish. The caller may make ghosts after
    // that.
    void reset(const Table& table, bool heap) {
        transact([&](Txn& txn) -> Result<void> {
            for (const auto& [key, value] : TRY(rows_of(txn, heap)))
                if (!table.contains(key)) TRY(erase(txn, key, heap));
            for (const auto& [key, value] : table) TRY(put(txn, key, value, heap));
            return {};
        });
        pass_time(20 * kMillisecond);
    }
    void change(const Action& action, bool heap) {
        transact([&](Txn& txn) -> Result<void> {
            Actor actor{*this, txn, heap, {}};
            TRY(actor.act(action));
            return {};
        });
    }
    Table table(bool heap) {
        Table all;
        transact([&](Txn& txn) -> Result<void> {
            for (const auto& [key, value] : TRY(rows_of(txn, heap))) all[key] = value;
            return {};
        });
        return all;
    }
    // The current shape of the index: leaves, ghosts.
    sm::BTree::Report shape() {
        sm::BTree::Report report;
        transact([&](Txn&) -> Result<void> {
            report = TRY(sm::engine_of(*store_).catalog->index_by_id(index_.id())->verify());
            return {};
        });
        return report;
    }
    // Lets the store's background work run: flushes, checkpoints, ghost cleaning.
    void pass_time(Nanos time) {
        for (const Nanos end = clock_.now() + time; clock_.now() < end; run_until_idle())
            if (!disk_.advance(clock_)) clock_.advance(kMillisecond);
    }

    // Each entry of `order` lets that transaction take its next step. The step after its last
    // action is its commit.
    std::vector<Outcome> play(std::span<const Script> scripts, std::span<const int> order,
                              const PlayOptions& options) {
        std::vector<std::unique_ptr<Part>> parts;
        for (const Script& script : scripts) {
            parts.push_back(std::make_unique<Part>());
            Part& part = *parts.back();
            part.handle = store_->start(
                [this, &part, &script, options] { return run(part, script, options); }, 0);
        }
        run_until_idle();
        for (const int who : order) {
            parts[static_cast<size_t>(who)]->go.release();
            run_until_idle();
        }
        // By now each waiter has got its locks or was a deadlock's victim. There is no lock
        // timeout here.
        const auto over = [&] {
            return std::ranges::all_of(parts, [](const auto& p) { return p->over; });
        };
        for (int turns = 0; turns < 1000 && !over(); ++turns) pass_time(kMillisecond);
        EXPECT_TRUE(over()) << "a transaction waits for ever";
        if (!over()) std::abort();  // its thread uses this frame
        std::vector<Outcome> outcomes;
        for (auto& part : parts) {
            EXPECT_TRUE(part->handle.join());
            outcomes.push_back(std::move(part->outcome));
        }
        return outcomes;
    }

private:
    struct Part {
        threads::Semaphore go{0};
        Handle<void> handle;
        Outcome outcome;
        bool over = false;
    };
    // Runs actions inside one transaction.
    struct Actor {
        Player& player;
        Txn& txn;
        bool heap;
        std::optional<Savepoint> point = {};
        bool groups = false;

        Result<Rows> act(const Action& a) {
            switch (a.kind) {
                case Action::read: {
                    const auto value = TRY(groups ? player.get_in_group(txn, a.key)
                                                  : player.get(txn, a.key, heap));
                    return value ? Rows{{a.key, *value}} : Rows{};
                }
                case Action::write:
                    return TRY(player.update(txn, a.key, a.value, heap)) ? Rows{{a.key, a.value}}
                                                                         : Rows{};
                case Action::put:
                    TRY(player.put(txn, a.key, a.value, heap));
                    return Rows{{a.key, a.value}};
                case Action::insert:
                    return Rows{
                        {a.key, TRY(player.insert(txn, a.key, a.value, heap)) ? a.value : -1}};
                case Action::erase:
                    return TRY(player.erase(txn, a.key, heap)) ? Rows{{a.key, 0}} : Rows{};
                case Action::erase_range:
                    return Rows{{a.key, TRY(player.erase_range(txn, a.key, a.key_end))}};
                case Action::select:
                case Action::select_back:
                case Action::erase_where: return select(a);
                case Action::savepoint: point = TRY(txn.savepoint()); return Rows{};
                case Action::rollback: TRY(txn.rollback_to(*point)); return Rows{};
                case Action::abort: TRY(txn.abort()); return Rows{};
            }
            __builtin_unreachable();
        }
        Result<Rows> select(const Action& a) {
            Rows rows = TRY(player.rows_of(txn, heap, a.key, a.key_end, a.kind));
            std::erase_if(rows, [&](const auto& row) {
                return a.kind == Action::erase_where ? row.second != a.value
                                                     : row.second % a.value != 0;
            });
            if (a.kind == Action::erase_where)
                for (const auto& [key, value] : rows) TRY(player.erase(txn, key, heap));
            return rows;
        }
    };

    Result<void> run(Part& part, const Script& script, const PlayOptions& options) {
        part.go.acquire();
        const bool snapshot = options.snapshot_readers && std::ranges::all_of(script, only_reads);
        const Isolation isolation = snapshot ? Isolation::snapshot : options.isolation;
        Txn txn = TRY(store_->begin({.isolation = isolation, .durability = options.durability}));
        Actor actor{*this, txn, options.heap, {}, options.groups};
        for (const Action& action : script) {
            Result<Rows> rows = actor.act(action);
            if (!rows) {
                EXPECT_FALSE(snapshot) << rows.error().text();
                EXPECT_EQ(rows.error().code, ErrorCode::deadlock) << rows.error().text();
                TRY(txn.abort());
                part.over = true;
                return {};
            }
            part.outcome.seen.push_back(std::move(*rows));
            if (!txn.live()) {  // the script's own abort
                part.over = true;
                return {};
            }
            part.go.acquire();
        }
        TRY(txn.commit());
        part.outcome.committed = part.over = true;
        return {};
    }

    template <class F>
    void transact(F fn) {
        bool ended = false;
        auto handle = store_->start(
            [&]() -> Result<void> {
                auto done = store_->run(fn, {.durability = Durability::lazy});
                EXPECT_TRUE(done) << done.error().text();
                ended = true;
                return {};
            },
            0);
        while (!ended)
            if (!sm::engine_of(*store_).runtime->step()) idle();
        EXPECT_TRUE(handle.join());
    }
    bool idle() {
        if (!disk_.advance(clock_)) clock_.advance(kMillisecond);
        return true;
    }
    void run_until_idle() {
        while (sm::engine_of(*store_).runtime->step()) {}
    }

    // --- Rows: in the index under a big-endian key, in the heap with the key as prefix.
    static std::string key_text(int key) {
        return std::string(Slice(Key().u32(static_cast<uint32_t>(key))));
    }
    std::string value_text(int key, int value) const {
        std::string text = std::to_string(key) + " " + std::to_string(value) + " ";
        text.resize(std::max(text.size(), row_bytes_), '.');
        return text;
    }
    static std::pair<int, int> row_of(Slice text) {
        std::pair<int, int> row;
        EXPECT_EQ(std::sscanf(std::string(text).c_str(), "%d %d", &row.first, &row.second), 2);
        return row;
    }
    Result<std::optional<int>> get(Txn& txn, int key, bool heap) {
        std::string text;
        const bool found = heap ? places_.contains(key) && TRY(heap_.get(txn, places_[key], text))
                                : TRY(index_.get(txn, key_text(key), text));
        return found ? std::optional(row_of(text).second) : std::nullopt;
    }
    // With keys beside it that never exist.
    Result<std::optional<int>> get_in_group(Txn& txn, int key) {
        std::array<std::byte, 64> buffers[3];
        const std::string keys[] = {key_text(1'000'001), key_text(key), key_text(1'000'002)};
        Lookup rows[3];
        for (size_t i = 0; i < 3; ++i) rows[i] = {.key = keys[i], .buffer = buffers[i]};
        const size_t found = TRY(index_.get_many(txn, rows));
        EXPECT_EQ(found, rows[1].found);
        if (!rows[1].found) return std::nullopt;
        const Slice text(reinterpret_cast<const char*>(buffers[1].data()),
                         std::min(rows[1].bytes, buffers[1].size()));
        return row_of(text).second;
    }
    Result<bool> update(Txn& txn, int key, int value, bool heap) {
        const std::string text = value_text(key, value);
        if (heap) return places_.contains(key) && TRY(heap_.update(txn, places_[key], text));
        return index_.update(txn, key_text(key), text);
    }
    Result<bool> insert(Txn& txn, int key, int value, bool heap) {
        const std::string text = value_text(key, value);
        // A heap has no keys, so the test inserts each key only once.
        if (heap) {
            places_[key] = TRY(heap_.insert(txn, text));
            return true;
        }
        const auto done = index_.insert(txn, key_text(key), text);
        if (!done && done.error().code == ErrorCode::duplicate_key) return false;
        if (!done) return std::unexpected(done.error());
        return true;
    }
    Result<void> put(Txn& txn, int key, int value, bool heap) {
        if (!heap) return index_.put(txn, key_text(key), value_text(key, value));
        if (!TRY(update(txn, key, value, true))) TRY(insert(txn, key, value, true));
        return {};
    }
    Result<bool> erase(Txn& txn, int key, bool heap) {
        if (heap) return places_.contains(key) && TRY(heap_.erase(txn, places_[key]));
        return index_.erase(txn, key_text(key));
    }
    Result<int> erase_range(Txn& txn, int low, int high) {
        return static_cast<int>(TRY(index_.erase_range(txn, key_text(low), key_text(high))));
    }
    Result<Rows> rows_of(Txn& txn, bool heap, int low = 0, int high = 1'000'000,
                         Action::Kind kind = Action::select) {
        Rows rows;
        if (heap) {
            TRY(heap_.scan(txn, [&](RecordId, Slice text) {
                const auto row = row_of(text);
                if (row.first >= low && row.first < high) rows.push_back(row);
                return true;
            }));
            std::ranges::sort(rows);
            if (kind == Action::select_back) std::ranges::reverse(rows);
            return rows;
        }
        Cursor cursor = index_.scan(txn, key_text(low), key_text(high),
                                    kind == Action::erase_where ? Access::write : Access::read);
        while (TRY(kind == Action::select_back ? cursor.prev() : cursor.next())) {
            const auto row = row_of(cursor.value());
            EXPECT_EQ(cursor.key(), key_text(row.first));
            rows.push_back(row);
        }
        return rows;
    }

    const size_t row_bytes_;  // rows are padded to this size
    threads::SimDisk disk_;
    ManualClock clock_;
    TestHooks hooks_;
    std::optional<Store> store_;
    Index index_;
    Heap heap_;
    std::map<int, RecordId> places_;  // heap rows by key, erased ones too
};

}  // namespace lockstep::isolation
