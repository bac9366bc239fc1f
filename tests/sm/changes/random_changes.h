// random_changes.h - transactions that change a store by all calls that write, for tests of the
// change feed.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "tests/sm/test_util.h"
#include "threads/base/rng.h"
#include "threads/base/try.h"

namespace lockstep {

class RandomChanges {
public:
    explicit RandomChanges(uint64_t seed) : rng_(seed) {}

    // Makes what is always there.
    static Result<void> make(Store& store) {
        return store.run([&](Txn& txn) -> Result<void> {
            for (const char* name : {"a", "b", "end"}) TRY(store.create_index(txn, name));
            for (const char* name : {"h", "g"}) TRY(store.create_heap(txn, name));
            TRY(store.create_index(txn, "s",
                                   {.of = TRY(store.index(txn, "b")),
                                    .key = [](Slice key, Slice value, SecondaryKeys& keys) {
                                        keys.add(value.substr(0, 3));
                                        if (key.size() > 3) keys.add(key.substr(0, 2));
                                    }}));
            return {};
        });
    }
    // One transaction, which ends in any way. Its own errors only end it.
    void transaction(Store& store) {
        auto txn = store.begin();
        if (!txn) return;
        const bool schema = rng_.below(8) == 0;
        std::optional<Savepoint> savepoint;
        for (uint64_t left = 1 + rng_.below(8); left > 0; --left) {
            if (rng_.below(6) == 0) savepoint = txn->savepoint().value_or(Savepoint{});
            const Result<void> done = schema ? change_schema(store, *txn) : change(store, *txn);
            if (!done && done.error().code != ErrorCode::duplicate_key) {
                if (txn->live()) (void)txn->abort();
                return;
            }
            if (savepoint && rng_.below(5) == 0)
                if (!txn->rollback_to(*savepoint)) savepoint.reset();
        }
        end(store, *txn);
    }
    // Ends some of those that are in doubt.
    void decide(Store& store) {
        for (const PreparedInfo& of : store.prepared()) {
            if (rng_.below(3) == 0) continue;
            if (rng_.below(3) == 0) (void)store.rollback_prepared(of.gid);
            else (void)store.commit_prepared(of.gid);
        }
    }

private:
    void end(Store& store, Txn& txn) {
        const uint64_t way = rng_.below(10);
        if (!txn.live()) return;
        if (way == 0) {
            (void)txn.abort();
        } else if (way == 1 && store.prepared().size() < 4) {
            const auto vote = txn.prepare("gid " + std::to_string(++gids_));
            if (!vote && txn.live()) (void)txn.abort();
        } else if (!txn.commit() && txn.live()) {
            (void)txn.abort();
        }
    }
    std::string key() {
        std::string text(1, static_cast<char>('a' + rng_.below(5)));
        return text.append(rng_.below(4) == 0 ? 20 : 1, 'k') + std::to_string(rng_.below(8));
    }
    // Some begin and end alike, as references to large values do.
    std::string value() {
        const uint64_t sizes[] = {8, 40, 400, 1800, 9000, 70'000};
        const uint64_t size = 8 + rng_.below(sizes[std::min<uint64_t>(rng_.below(9), 5)]);
        return rng_.below(3) == 0 ? std::string(size, '\0') : random_text(rng_, size);
    }
    Result<void> change(Store& store, Txn& txn) {
        if (rng_.below(3) == 0) return change_heap(store, txn);
        const std::string names[] = {"a", "b", "c0", "c1"};
        const std::string& name = names[rng_.below(4)];
        if (name == "c0" || name == "c1") {
            const auto index = store.index(txn, name);
            if (!index) return change_heap(store, txn);
            return change_index(*index, txn);
        }
        return change_index(TRY(store.index(txn, name)), txn);
    }
    Result<void> change_index(const Index& index, Txn& txn) {
        std::array<std::byte, 16> buffer;
        switch (rng_.below(10)) {
            case 0: TRY(index.erase(txn, key())); return {};
            case 1: TRY(index.update(txn, key(), value())); return {};
            case 2: TRY(index.patch(txn, key(), rng_.below(6), random_text(rng_, 2))); return {};
            case 3: TRY(index.add(txn, key(), 0, 7)); return {};
            case 4: {
                const auto alter = [&](std::span<std::byte> part) {
                    part[1] = static_cast<std::byte>(rng_.below(256));
                    return ByteRange{1, 1};
                };
                TRY(index.modify(txn, key(), buffer, alter));
                return {};
            }
            case 5: {
                const std::string low = key();
                TRY(index.erase_range(txn, low, low + "5"));
                return {};
            }
            case 6: return insert_many(index, txn);
            case 7: return modify_many(index, txn);
            default: return index.put(txn, key(), value());
        }
    }
    Result<void> insert_many(const Index& index, Txn& txn) {
        std::vector<std::string> keys;
        const std::string prefix = key(), small = random_text(rng_, 10);
        for (uint64_t i = 0, n = 1 + rng_.below(30); i < n; ++i)
            keys.push_back(prefix + std::to_string(100 + i));
        std::vector<NewRecord> records;
        for (const std::string& of : keys) records.push_back({of, small});
        return index.insert_many(txn, records);
    }
    Result<void> modify_many(const Index& index, Txn& txn) {
        std::vector<std::string> keys;
        const std::string prefix = key();
        for (int i = 0; i < 20; ++i) keys.push_back(prefix + std::to_string(100 + i));
        std::vector<std::array<std::byte, 12>> buffers(keys.size());
        std::vector<Lookup> rows;
        for (size_t i = 0; i < keys.size(); ++i) rows.push_back({keys[i], buffers[i]});
        TRY(index.modify_many(txn, rows, [&](size_t, std::span<std::byte> part) {
            part[2] = static_cast<std::byte>(rng_.below(256));
            part[5] = static_cast<std::byte>(rng_.below(256));
            return ByteRange{2, 4};
        }));
        return {};
    }
    Result<void> change_heap(Store& store, Txn& txn) {
        const size_t which = rng_.below(2);
        const Heap heap = TRY(store.heap(txn, which == 0 ? "h" : "g"));
        std::vector<RecordId>& ids = ids_[which];
        const std::string record = random_text(rng_, rng_.below(4) == 0 ? 3000 : rng_.below(300));
        if (ids.size() < 20 || rng_.below(3) == 0) {
            ids.push_back(TRY(heap.insert(txn, record)));
            return {};
        }
        const RecordId id = ids[rng_.below(ids.size())];
        std::string now;
        switch (rng_.below(4)) {
            case 0: TRY(heap.erase(txn, id)); return {};
            case 1:
                if (!TRY(heap.get(txn, id, now, Access::write)) || now.empty()) return {};
                now[rng_.below(now.size())] = '!';
                TRY(heap.update(txn, id, now));
                return {};
            default: TRY(heap.update(txn, id, record)); return {};
        }
    }
    Result<void> change_schema(Store& store, Txn& txn) {
        const std::string name = rng_.below(2) == 0 ? "c0" : "c1";
        const auto index = store.index(txn, name);
        if (index && rng_.below(2) == 0) return store.drop(txn, name);
        if (index) return change_index(*index, txn);
        const Index made = TRY(store.create_index(txn, name));
        if (rng_.below(2) == 0) return change_index(made, txn);
        const uint64_t records = rng_.below(300);
        uint64_t n = 0;
        std::string key_bytes, value_bytes;
        return store.bulk_load(txn, made, [&](Slice& key, Slice& value) {
            if (n == records) return false;
            key_bytes = std::to_string(1000 + n++);
            value_bytes = n % 50 == 0 ? std::string(5000, 'l') : std::string(30, 'v');
            key = key_bytes;
            value = value_bytes;
            return true;
        });
    }

    Rng rng_;
    uint64_t gids_ = 0;
    std::vector<RecordId> ids_[2];
};

}  // namespace lockstep
