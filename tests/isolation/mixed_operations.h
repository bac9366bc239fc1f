// mixed_operations.h - the operations of the mixed workload: random ways to read and to change the
// records of its tables, with what they were told.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/need.h>
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
    // Before each epoch: longer than a period of snapshots lasts without one (sm/version).
    Nanos quiet = 0;
    bool scans = false;             // indexes are read by scans alone
    uint32_t kinds[3] = {8, 6, 6};  // odds of operations in eighths, by MixedTable::Kind
};

class MixedOperations {
public:
    explicit MixedOperations(const MixOptions& options) : options_(options) {
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
    }
    // Makes the tables, within a transaction.
    Result<void> make(Store& store, Txn& txn) {
        for (MixedTable& t : tables_) TRY(make(store, txn, t));
        return {};
    }
    // Finds them in a store that was opened again.
    Result<void> find(Store& store) {
        for (auto& grave : graves_) grave = kGraveUnknown;  // commits may have been lost
        for (MixedTable& t : tables_) {
            if (t.where & Table::heap) t.records = TRY(store.heap(t.name));
            else t.rows = TRY(store.index(t.name));
            if ((t.where & Table::secondary) == 0) continue;
            const std::string name = std::string(t.name) + "_secondary";
            t.by = TRY(store.index(name));
            TRY(store.attach_key(name, Table::keys_of));
        }
        return {};
    }
    // Begins an epoch: keys of their own, of which some records exist.
    Result<void> load(Txn& txn, Observed& seen, uint32_t epoch) {
        elements_ = 1;
        for (auto& grave : graves_) grave = kInitial;
        for (MixedTable& t : tables_) {
            t.epoch = epoch;
            t.ids.assign(1, {});
            for (uint32_t key = 1; key <= t.keys; ++key) TRY(load(txn, seen, t, key));
        }
        return {};
    }
    // Reads all records by each way that takes read locks.
    Result<void> read_everything(Txn& txn, Observed& seen) {
        for (MixedTable& t : tables_)
            for (const ReadWay& way : kReadWays) {
                if ((way.where & t.where) == 0 || way.access != Access::read || way.changes)
                    continue;
                TRY(everything(txn, seen, t, way));
            }
        return {};
    }
    // Names records that the transaction may use.
    void announce(Announcement& to) const {
        for (const MixedTable& t : tables_)
            if (t.rows) to.add(t.rows, t.key_of(1));
    }
    void tell_needs(Txn& txn, Rng& rng) {
        std::vector<std::string> keys;
        for (const MixedTable& t : tables_) keys.push_back(t.key_of(1 + key(t, rng)));
        std::vector<Need> needs;
        for (const MixedTable& t : tables_)
            if (t.rows) needs.push_back({.index = t.rows, .key = keys[t.id]});
        txn.will_need(needs);
    }
    // A few operations, with savepoints.
    Result<void> operate(Txn& txn, Observed& seen, Rng& rng) {
        std::optional<Savepoint> point;
        size_t point_at = 0;
        Range last;
        for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
            if (point && rng.chance(0.2)) {
                TRY(txn.rollback_to(*point));
                seen.operations.push_back({.kind = Operation::rollback, .from = point_at});
            } else if (rng.chance(0.15) && seen.level != Isolation::snapshot) {
                point = TRY(txn.savepoint());
                point_at = seen.operations.size();
            }
            // What was read once is read again, most often in another way.
            if (last.table != nullptr && rng.chance(0.3)) TRY(look(txn, seen, last, rng));
            else TRY(operation(txn, seen, table(rng), last, rng));
            // A snapshot that stays open meets ghosts that were cleaned away.
            if (seen.level == Isolation::snapshot && rng.chance(0.05)) sleep_for(30 * kMillisecond);
            else if (rng.chance(0.5)) yield();
        }
        return {};
    }

private:
    Result<void> make(Store& store, Txn& txn, MixedTable& t) {
        if (t.where & Table::heap) {
            t.records = TRY(store.create_heap(txn, t.name));
            return {};
        }
        t.rows = TRY(store.create_index(txn, t.name));
        if (t.where & Table::secondary)
            t.by = TRY(store.create_index(txn, std::string(t.name) + "_secondary",
                                          {.of = t.rows, .key = Table::keys_of}));
        return {};
    }

    MixedTable& table(Rng& rng) {
        for (;;) {
            MixedTable& t = tables_[rng.below(tables_.size())];
            if (rng.below(8) < options_.kinds[t.kind]) return t;
        }
    }
    std::atomic<Element>& grave_of(const MixedTable& t, uint32_t key) {
        return graves_[t.id * kKeysMax + key];
    }
    // To be asked while the read locks keep the key absent.
    Element grave_seen(const Observed& seen, const MixedTable& t, uint32_t key, Held held) {
        if (held != Held::range || seen.level == Isolation::snapshot) return kGraveUnknown;
        return grave_of(t, key).load();
    }
    // Lists or registers [low, high), or the queue `low`.
    struct Range {
        MixedTable* table = nullptr;
        uint32_t low = 0, high = 0;
    };
    Result<void> operation(Txn& txn, Observed& seen, MixedTable& t, Range& last, Rng& rng) {
        if (seen.level != Isolation::snapshot && rng.chance(0.5))
            return t.kind == MixedTable::queues ? change_queue(txn, seen, t, rng)
                                                : change(txn, seen, t, rng);
        const uint32_t low = key(t, rng);
        last = {&t, low, low + 1 + static_cast<uint32_t>(rng.below(t.keys + 1 - low))};
        return look(txn, seen, last, rng);
    }
    Result<void> look(Txn& txn, Observed& seen, const Range& range, Rng& rng) {
        MixedTable& t = *range.table;
        if (t.kind != MixedTable::queues) return read(txn, seen, t, range.low, range.high, rng);
        TRY(whole_queue(txn, seen, t, range.low, false, rng));
        return {};
    }
    static uint32_t key(const MixedTable& t, Rng& rng) {
        return 1 + static_cast<uint32_t>(rng.below(t.keys));
    }
    // `keeps`: what is read stays as it is.
    const ReadWay& read_way(const MixedTable& t, Isolation level, bool keeps, Rng& rng) const {
        for (;;) {
            const ReadWay& way = kReadWays[rng.below(std::size(kReadWays))];
            if ((way.where & t.where) == 0) continue;
            if (options_.scans && !is_scan(way) && t.rows) continue;
            if (level == Isolation::snapshot && (way.changes || way.access != Access::read))
                continue;
            if (!keeps || held_of(level, way.access, way.changes) != Held::nothing) return way;
        }
    }
    Result<void> read(Txn& txn, Observed& seen, MixedTable& t, uint32_t low, uint32_t high,
                      Rng& rng) {
        const ReadWay& way = read_way(t, seen.level, false, rng);
        Records records;
        TRY(way.read(t, txn, low, high, way.access, records));
        const Held held = held_of(seen.level, way.access, way.changes);
        note_records(seen, t, low, high, records, held, way.name,
                     [&](uint32_t key) { return grave_seen(seen, t, key, held); });
        return {};
    }
    Result<void> change(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const bool list = t.kind == MixedTable::lists;
        const uint32_t where = key(t, rng);
        const WriteWay* way = nullptr;
        do way = &kWriteWays[rng.below(std::size(kWriteWays))];
        while ((way->where & t.where) == 0 || (way->blind && list) ||
               ((list || options_.careful) && !keeps(seen.level, *way)));
        const bool erases = !list && !way->blind && rng.chance(0.4);
        size_t wrote = SIZE_MAX;
        const auto plan = [&](const Slice* now) -> Edit {
            const Held held = held_of(seen.level, way->access, way->access != Access::read);
            if (!way->blind)
                note_record(seen, t, where, now, held, way->name, grave_seen(seen, t, where, held));
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
        else if (erases && wrote != SIZE_MAX) dig(seen, t, where, wrote);
        return {};
    }
    // Behind an erase, whose lock keeps others away. If the transaction itself has made what it
    // erases, a rollback would bring back an earlier grave.
    void dig(const Observed& seen, const MixedTable& t, uint32_t key, size_t erase) {
        const auto end = seen.operations.begin() + static_cast<ptrdiff_t>(erase);
        const bool own = std::any_of(seen.operations.begin(), end, [&](const Operation& op) {
            return op.kind != Operation::read && op.object == t.object(key);
        });
        grave_of(t, key) = own ? kGraveUnknown : seen.operations[erase].element;
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
    // Rows enter or one leaves. Only serializable transactions let rows leave: they alone know that
    // the first row that they see is the front.
    Result<void> change_queue(Txn& txn, Observed& seen, MixedTable& t, Rng& rng) {
        const uint32_t queue = key(t, rng);
        const QueueRows rows = rows_of(TRY(whole_queue(txn, seen, t, queue, true, rng)));
        if (rows.empty()) return {};
        const bool leaves = seen.level == Isolation::serializable && rows.size() > 1 &&
                            (rows.size() == kSlots || rng.chance(0.5));
        if (leaves) {
            const uint32_t first = rows.begin()->first;
            note_row(seen, t, queue, first, Operation::erase);
            if (!TRY(t.rows.erase(txn, t.key_of(MixedTable::slot_of(queue, first)))))
                seen.operations.pop_back();
            return {};
        }
        const uint32_t last = rows.rbegin()->first, used = last - rows.begin()->first + 1;
        if (used >= kSlots) return {};
        const uint32_t n = 1 + static_cast<uint32_t>(rng.below(std::min(3u, kSlots - used)));
        return enter(txn, seen, t, queue, last + 1, n, rng);
    }
    void note_row(Observed& seen, const MixedTable& t, uint32_t queue, uint32_t row,
                  Operation::Kind kind) {
        seen.operations.push_back({.kind = kind,
                                   .object = t.object(queue, row),
                                   .element = elements_.fetch_add(1),
                                   .way = kind == Operation::erase ? "erase" : "insert"});
    }
    // Rows [row, row + n), one by one or together, until one of another transaction is there.
    Result<void> enter(Txn& txn, Observed& seen, MixedTable& t, uint32_t queue, uint32_t row,
                       uint32_t n, Rng& rng) {
        const bool together = rng.chance(0.5);
        std::vector<std::string> keys, values;
        std::vector<NewRecord> records;
        const Savepoint before = TRY(txn.savepoint());
        const size_t noted = seen.operations.size();
        for (uint32_t i = row; i < row + n; ++i) {
            note_row(seen, t, queue, i, Operation::write);
            keys.push_back(t.key_of(MixedTable::slot_of(queue, i)));
            values.push_back(bytes_of({i, seen.operations.back().element}));
        }
        for (uint32_t i = 0; i < n; ++i) records.push_back({keys[i], values[i]});
        Result<void> done;
        if (together) done = t.rows.insert_many(txn, records);
        for (uint32_t i = 0; i < n && !together && done; ++i)
            done = t.rows.insert(txn, keys[i], values[i]);
        if (done || done.error().code != ErrorCode::duplicate_key) return done;
        seen.operations.push_back({.kind = Operation::rollback, .from = noted});
        return txn.rollback_to(before);
    }

    // Every second list and register is there from the begin, and each heap record.
    Result<void> load(Txn& txn, Observed& seen, MixedTable& t, uint32_t key) {
        if (t.where & Table::heap) {
            t.ids.push_back(
                TRY(t.records.insert(txn, bytes_of({key}) + std::string(t.bytes_max, '\0'))));
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
    Result<void> everything(Txn& txn, Observed& seen, MixedTable& t, const ReadWay& way) {
        const bool queues = t.kind == MixedTable::queues;
        for (uint32_t key = 1; key <= t.keys; ++key) {
            const uint32_t low = queues ? MixedTable::slots_of(key) : key;
            Records records;
            TRY(way.read(t, txn, low, low + (queues ? kSlots : 1), way.access, records));
            if (queues) note_queue(seen, t, key, records, Held::range, way.name);
            else
                note_records(seen, t, low, low + 1, records, Held::range, way.name,
                             [&](uint32_t k) { return grave_seen(seen, t, k, Held::range); });
        }
        return {};
    }

    const MixOptions options_;
    std::vector<MixedTable> tables_;
    std::atomic<uint64_t> elements_{1};
    static constexpr uint32_t kKeysMax = 20;
    // The last erase of each register, by table and key. Whoever holds the key's lock uses it.
    std::array<std::atomic<Element>, kKeysMax * 10> graves_{};
};

}  // namespace lockstep::isolation
