// mixed_workload.h - random transactions over every way to read, to change and to run, for the
// checker of histories.
//
// Concepts   Processes are user threads. Each runs one transaction after the other: at a random
//            level, by a random vehicle (kVehicles), with a few operations of random ways (ways.h)
//            on few keys. Some roll back to a savepoint, some abort, some prepare and are decided
//            later. Deadlocks and lock timeouts end an attempt. An epoch is one history with keys
//            of its own: it begins with a transaction that loads, and ends with reads of
//            everything. The caller says how threads are run: on workers, or under the simulator.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/need.h>
#include <lockstep/store.h>
#include <lockstep/sync.h>
#include "tests/isolation/mixed_tables.h"
#include "threads/base/rng.h"

namespace lockstep::isolation {

struct MixOptions {
    uint32_t levels[4] = {4, 2, 2, 2};  // odds, by Isolation
    uint32_t processes = 6;
    uint32_t keys = 3;  // of each table
    Nanos lock_timeout = kNever;
    double durable = 0.2;  // odds of a durable commit
    bool careful = true;   // at read_committed no register loses an update
};

class MixedWorkload {
public:
    using Threads = std::vector<std::function<Result<void>()>>;
    // Runs each as a user thread of the store, and returns when all have ended.
    using RunAll = std::function<void(Threads)>;

    MixedWorkload(Store& store, const MixOptions& options, RunAll run_all)
        : store_(store), options_(options), run_all_(std::move(run_all)) {
        static constexpr struct {
            const char* name;
            MixedTable::Kind kind;
            uint8_t where;
            size_t bytes_max;
        } kTables[] = {
            {"lists", MixedTable::lists, Table::index, kListMax * 8},
            {"lists_by", MixedTable::lists, Table::index | Table::secondary, kListMax * 8},
            {"list_records", MixedTable::lists, Table::heap, kListMax * 8},
            {"registers", MixedTable::registers, Table::index, 16},
            {"registers_by", MixedTable::registers, Table::index | Table::secondary, 16},
            {"queues", MixedTable::queues, Table::index, 16},
            {"queues_by", MixedTable::queues, Table::index | Table::secondary, 16},
        };
        for (const auto& of : kTables) {
            MixedTable t;
            t.name = of.name;
            t.kind = of.kind;
            t.where = of.where;
            t.bytes_max = of.bytes_max;
            t.id = static_cast<uint32_t>(tables_.size());
            t.keys = options.keys;
            tables_.push_back(std::move(t));
        }
        alone([this]() -> Result<void> {
            for (MixedTable& t : tables_)
                TRY(store_.run([&](Txn& txn) { return make(txn, t); }));
            return {};
        });
    }

    // A history of `count` transactions and three more.
    std::vector<Observed> epoch(uint64_t seed, uint64_t count) {
        ++epoch_;
        clock_ = 1;
        elements_ = 1;
        histories_.assign(options_.processes + 1, {});
        alone([this] { return load(histories_.back()); });
        Threads threads;
        for (uint32_t p = 0; p < options_.processes; ++p)
            threads.push_back([this, p, seed, count]() -> Result<void> {
                Rng rng = Rng(seed).fork(p);
                while (histories_[p].size() < (count + p) / options_.processes)
                    TRY(transaction(p, rng));
                return {};
            });
        run_all_(std::move(threads));
        alone([this] { return read_everything(histories_.back()); });
        std::vector<Observed> all;
        for (auto& history : histories_) std::ranges::move(history, std::back_inserter(all));
        return all;
    }

private:
    using History = std::deque<Observed>;  // its elements stay where they are

    void alone(std::function<Result<void>()> fn) {
        Threads one;
        one.push_back(std::move(fn));
        run_all_(std::move(one));
    }
    Result<void> make(Txn& txn, MixedTable& t) {
        if (t.where & Table::heap) {
            t.records = TRY(store_.create_heap(txn, t.name));
            return {};
        }
        t.rows = TRY(store_.create_index(txn, t.name));
        if (t.where & Table::secondary)
            t.by = TRY(store_.create_index(txn, std::string(t.name) + "_secondary",
                                           {.of = t.rows, .key = Table::keys_of}));
        return {};
    }

    // --- One transaction from its begin to its end.

    Observed& begin(uint32_t process, const TxnOptions& options, const char* way) {
        History& history = histories_[process];
        history.push_back({.process = process,
                           .began = clock_.fetch_add(1),
                           .level = options.isolation,
                           .way = way});
        return history.back();
    }
    void end(Observed& seen, Ended ended) {
        seen.ended = ended;
        seen.ended_at = clock_.fetch_add(1);
    }
    static bool ends_attempt(const Error& error) {
        return error.code == ErrorCode::deadlock || error.code == ErrorCode::lock_timeout;
    }

    Result<void> transaction(uint32_t process, Rng& rng) {
        uint64_t sum = 0;
        for (const uint32_t odds : options_.levels) sum += odds;
        uint64_t drawn = rng.below(sum), level = 0;
        while (drawn >= options_.levels[level]) drawn -= options_.levels[level++];
        const TxnOptions options{
            .isolation = static_cast<Isolation>(level),
            .durability = rng.chance(options_.durable) ? Durability::durable : Durability::lazy,
            .lock_timeout = options_.lock_timeout};
        using Vehicle = Result<void> (MixedWorkload::*)(uint32_t, const TxnOptions&, Rng&);
        static constexpr Vehicle kVehicles[] = {&MixedWorkload::by_hand, &MixedWorkload::by_hand,
                                                &MixedWorkload::by_run, &MixedWorkload::by_packet,
                                                &MixedWorkload::by_prepare};
        return (this->*kVehicles[rng.below(std::size(kVehicles))])(process, options, rng);
    }

    Result<void> by_hand(uint32_t process, const TxnOptions& options, Rng& rng) {
        return alone_by_hand(process, options, rng, "begin");
    }
    Result<void> alone_by_hand(uint32_t process, const TxnOptions& options, Rng& rng,
                               const char* way) {
        Observed& seen = begin(process, options, way);
        Txn txn = TRY(store_.begin(options));
        if (rng.chance(0.2)) tell_needs(txn, rng);
        if (!TRY(act(txn, seen, rng)) || rng.chance(0.1)) return abort(txn, seen);
        TRY(txn.commit());
        end(seen, Ended::committed);
        return {};
    }
    Result<void> abort(Txn& txn, Observed& seen) {
        TRY(txn.abort());
        end(seen, Ended::aborted);
        return {};
    }
    // Store::run() repeats deadlock victims. Each attempt is a transaction of its own.
    Result<void> by_run(uint32_t process, const TxnOptions& options, Rng& rng) {
        Observed* seen = &begin(process, options, "run");
        bool again = false;
        const auto done = store_.run(
            [&](Txn& txn) -> Result<void> {
                if (again) seen = &begin(process, options, "run again");
                again = true;
                auto acted = operate(txn, *seen, rng);
                // The rollback comes behind this moment, but nothing is read there.
                end(*seen, Ended::aborted);
                if (acted && rng.chance(0.1)) return fail(ErrorCode::rolled_back, "test");
                return acted;
            },
            options);
        if (done) end(*seen, Ended::committed);
        else if (done.error().code != ErrorCode::rolled_back && !ends_attempt(done.error()))
            return done;
        return {};
    }
    class OneShot final : public Packet {
    public:
        OneShot(MixedWorkload& of, uint32_t process, const TxnOptions& options, Rng& rng)
            : of_(of), process_(process), options_(options), rng_(rng) {}
        void announce(Announcement& to) override {
            for (const MixedTable& t : of_.tables_)
                if (t.rows) to.add(t.rows, t.key_of(1));
        }
        void run() override {
            result = of_.alone_by_hand(process_, options_, rng_, "packet");
            over.set();
        }
        Event over;
        Result<void> result;

    private:
        MixedWorkload& of_;
        const uint32_t process_;
        const TxnOptions options_;
        Rng& rng_;
    };
    Result<void> by_packet(uint32_t process, const TxnOptions& options, Rng& rng) {
        OneShot packet(*this, process, options, rng);
        TRY(store_.submit(packet));
        TRY(packet.over.wait());
        return packet.result;
    }
    Result<void> by_prepare(uint32_t process, const TxnOptions& options, Rng& rng) {
        Observed& seen = begin(process, options, "prepare");
        Txn txn = TRY(store_.begin(options));
        if (!TRY(act(txn, seen, rng))) return abort(txn, seen);
        const std::string gid = "gid " + std::to_string(gids_.fetch_add(1));
        const Vote vote = TRY(txn.prepare(gid));
        bool commits = true;
        if (vote == Vote::prepared) {
            commits = rng.chance(0.7);
            for (uint64_t pauses = rng.below(6); pauses > 0; --pauses) yield();
            if (rng.chance(0.5)) sleep_for(20 * kMicrosecond);
            const bool ended = TRY(commits ? store_.commit_prepared(gid)
                                           : store_.rollback_prepared(gid));
            EXPECT_TRUE(ended) << gid;
        }
        end(seen, commits ? Ended::committed : Ended::aborted);
        return {};
    }
    void tell_needs(Txn& txn, Rng& rng) {
        std::vector<std::string> keys;
        for (const MixedTable& t : tables_) keys.push_back(t.key_of(1 + key(t, rng)));
        std::vector<Need> needs;
        for (const MixedTable& t : tables_)
            if (t.rows) needs.push_back({.index = t.rows, .key = keys[t.id]});
        txn.will_need(needs);
    }

    // --- Operations.

    // False: the attempt was ended by a deadlock or a timeout.
    Result<bool> act(Txn& txn, Observed& seen, Rng& rng) {
        const auto done = operate(txn, seen, rng);
        if (done) return true;
        if (ends_attempt(done.error())) return false;
        return std::unexpected(done.error());
    }
    Result<void> operate(Txn& txn, Observed& seen, Rng& rng) {
        std::optional<Savepoint> point;
        size_t point_at = 0;
        for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
            if (point && rng.chance(0.2)) {
                TRY(txn.rollback_to(*point));
                seen.operations.push_back({.kind = Operation::rollback, .from = point_at});
            } else if (rng.chance(0.15) && seen.level != Isolation::snapshot) {
                point = TRY(txn.savepoint());
                point_at = seen.operations.size();
            }
            TRY(operation(txn, seen, tables_[rng.below(tables_.size())], rng));
            if (rng.chance(0.5)) yield();
        }
        return {};
    }
    Result<void> operation(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const bool changes = seen.level != Isolation::snapshot && rng.chance(0.5);
        if (t.kind == MixedTable::queues) return changes ? change_queue(txn, seen, t, rng)
                                                         : read_queue(txn, seen, t, rng);
        return changes ? change(txn, seen, t, rng) : read(txn, seen, t, rng);
    }
    static uint32_t key(const MixedTable& t, Rng& rng) {
        return 1 + static_cast<uint32_t>(rng.below(t.keys));
    }
    // `keeps`: what is read stays as it is.
    static const ReadWay& read_way(const MixedTable& t, Isolation level, bool keeps, Rng& rng) {
        for (;;) {
            const ReadWay& way = kReadWays[rng.below(std::size(kReadWays))];
            if ((way.where & t.where) == 0) continue;
            if (level == Isolation::snapshot && (way.changes || way.access != Access::read))
                continue;
            if (!keeps || held_of(level, way.access, way.changes) != Held::nothing) return way;
        }
    }
    Result<void> read(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const uint32_t low = key(t, rng),
                       high = low + 1 + static_cast<uint32_t>(rng.below(t.keys + 1 - low));
        const ReadWay& way = read_way(t, seen.level, false, rng);
        Records records;
        TRY(way.read(t, txn, low, high, way.access, records));
        note_records(seen, t, low, high, records, held_of(seen.level, way.access, way.changes),
                     way.name);
        return {};
    }
    Result<void> change(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const bool list = t.kind == MixedTable::lists;
        const uint32_t where = key(t, rng);
        const WriteWay* way = nullptr;
        do way = &kWriteWays[rng.below(std::size(kWriteWays))];
        while ((way->where & t.where) == 0 || (way->blind && list) ||
               ((list || options_.careful) && !keeps(seen.level, *way)));
        const bool erases = !list && !way->blind && rng.chance(0.3);
        size_t wrote = SIZE_MAX;
        const auto plan = [&](const Slice* now) -> Edit {
            if (!way->blind)
                note_record(seen, t, where, now,
                            held_of(seen.level, way->access, way->access != Access::read),
                            way->name);
            const size_t n = now && list ? elements_of(*now).size() : 0;
            if (n + 1 >= kListMax || (erases && !now)) return {};
            const Element element = elements_.fetch_add(1);
            wrote = seen.operations.size();
            seen.operations.push_back({.kind = erases ? Operation::erase : Operation::write,
                                       .object = t.object(where),
                                       .element = element,
                                       .way = way->name});
            if (erases) return {.kind = Edit::erase};
            if (now) return {Edit::part, bytes_of({element}), 8 * n};
            return {Edit::whole, bytes_of({element}, t.bytes_max)};
        };
        const bool changed = TRY(way->change(t, txn, where, plan));
        if (!changed && wrote != SIZE_MAX)
            seen.operations.erase(seen.operations.begin() + static_cast<ptrdiff_t>(wrote));
        return {};
    }
    static bool keeps(Isolation level, const WriteWay& way) {
        return held_of(level, way.access, way.access != Access::read) != Held::nothing;
    }

    Result<Records> whole_queue(Txn& txn, Observed& seen, MixedTable& t, uint32_t queue, bool keeps,
                                Rng& rng) {
        const ReadWay& way = read_way(t, seen.level, keeps, rng);
        const uint32_t low = MixedTable::slots_of(queue);
        Records records;
        TRY(way.read(t, txn, low, low + kSlots, way.access, records));
        note_queue(seen, t, queue, records, held_of(seen.level, way.access, way.changes), way.name);
        return records;
    }
    Result<void> read_queue(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        TRY(whole_queue(txn, seen, t, key(t, rng), false, rng));
        return {};
    }
    // A row enters or leaves. Only serializable transactions let rows leave: they alone know that
    // the first row that they see is the front.
    Result<void> change_queue(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const uint32_t queue = key(t, rng);
        const QueueRows rows = rows_of(TRY(whole_queue(txn, seen, t, queue, true, rng)));
        if (rows.empty()) return {};
        const bool leaves = seen.level == Isolation::serializable && rows.size() > 1 &&
                            (rows.size() == kSlots || rng.chance(0.5));
        if (!leaves && rows.size() == kSlots) return {};
        const uint32_t row = leaves ? rows.begin()->first : rows.rbegin()->first + 1;
        const std::string at = t.key_of(MixedTable::slots_of(queue) + row % kSlots);
        const Element element = elements_.fetch_add(1);
        seen.operations.push_back({.kind = leaves ? Operation::erase : Operation::write,
                                   .object = t.object(queue, row),
                                   .element = element,
                                   .way = leaves ? "erase" : "insert"});
        bool done = true;
        if (leaves) {
            done = TRY(t.rows.erase(txn, at));
        } else {
            const std::string value = bytes_of({row, element});
            const NewRecord record{at, value};
            const auto in = rng.chance(0.5) ? t.rows.insert(txn, at, value)
                                            : t.rows.insert_many(txn, std::span(&record, 1));
            done = in.has_value();
            if (!done && in.error().code != ErrorCode::duplicate_key) return in;
        }
        if (!done) seen.operations.pop_back();
        return {};
    }

    // --- Before and after.

    Result<void> load(History& history) {
        const auto process = static_cast<uint32_t>(histories_.size() - 1);
        return store_.run([&](Txn& txn) -> Result<void> {
            history.clear();
            Observed& seen = begin(process, {}, "load");
            for (MixedTable& t : tables_) {
                t.epoch = epoch_;
                t.ids.assign(1, {});
                for (uint32_t key = 1; key <= t.keys; ++key) TRY(load(txn, seen, t, key));
            }
            end(seen, Ended::committed);
            return {};
        });
    }
    // Every second list and register is there from the begin, and each heap record.
    Result<void> load(Txn& txn, Observed& seen, MixedTable& t, uint32_t key) {
        if (t.where & Table::heap) {
            t.ids.push_back(TRY(t.records.insert(
                txn, bytes_of({key}) + std::string(t.bytes_max, '\0'))));
            return {};
        }
        if (t.kind == MixedTable::lists)
            return key % 2 == 0 ? Result<void>{}
                                : t.rows.insert(txn, t.key_of(key), std::string(t.bytes_max, '\0'));
        if (t.kind == MixedTable::registers && key % 2 == 0) return {};
        const Element element = elements_.fetch_add(1);
        seen.operations.push_back(
            {.kind = Operation::write, .object = t.object(key), .element = element, .way = "load"});
        const bool queue = t.kind == MixedTable::queues;
        return t.rows.insert(txn, t.key_of(queue ? MixedTable::slots_of(key) : key),
                             queue ? bytes_of({0, element}) : bytes_of({element}, t.bytes_max));
    }
    // Serializable and in a snapshot, by each way that fits.
    Result<void> read_everything(History& history) {
        const auto process = static_cast<uint32_t>(histories_.size() - 1);
        for (const Isolation level : {Isolation::serializable, Isolation::snapshot}) {
            const TxnOptions options{.isolation = level};
            Txn txn = TRY(store_.begin(options));
            Observed& seen = begin(process, options, "everything");
            for (MixedTable& t : tables_)
                for (const ReadWay& way : kReadWays) {
                    if ((way.where & t.where) == 0 || way.access != Access::read || way.changes)
                        continue;
                    TRY(everything(txn, seen, t, way));
                }
            TRY(txn.commit());
            end(seen, Ended::committed);
        }
        EXPECT_EQ(history.size(), 3u);
        return {};
    }
    Result<void> everything(Txn& txn, Observed& seen, MixedTable& t, const ReadWay& way) {
        const bool queues = t.kind == MixedTable::queues;
        for (uint32_t key = 1; key <= t.keys; ++key) {
            const uint32_t low = queues ? MixedTable::slots_of(key) : key;
            Records records;
            TRY(way.read(t, txn, low, low + (queues ? kSlots : 1), way.access, records));
            if (queues) note_queue(seen, t, key, records, Held::range, way.name);
            else note_records(seen, t, low, low + 1, records, Held::range, way.name);
        }
        return {};
    }

    Store& store_;
    const MixOptions options_;
    const RunAll run_all_;
    std::vector<MixedTable> tables_;
    std::vector<History> histories_;  // by process; the last one loads and reads everything
    std::atomic<uint64_t> clock_{1}, elements_{1}, gids_{1};
    uint32_t epoch_ = 0;
};

}  // namespace lockstep::isolation
