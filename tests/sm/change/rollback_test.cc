// labels: unit
// rollback_test.cc - compensation: nothing is undone twice, whatever mix of
// savepoints, aborts and crashes.
#include <algorithm>
#include <array>

#include "sm/api/engine_of.h"
#include "sm/api/operation.h"
#include "sm/btree/btree_impl.h"
#include "sm/catalog/catalog.h"
#include "sm/recovery/recovery_parts.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::rollback_test {

struct Seen {
    std::map<std::string, std::string> keys;
    std::map<RecordId, std::string> records;
    bool operator==(const Seen&) const = default;
};

class RollbackTest : public StoreCrash {
protected:
    std::vector<RecordId> fill(Store& store, int count) {
        std::vector<RecordId> ids;
        auto done = store.run([&](Txn& txn) -> Result<void> {
            ids.clear();
            for (int i = 0; i < count; ++i) {
                ids.push_back(TRY(TRY(store.heap("h")).insert(txn, "heap " + std::to_string(i))));
                TRY(TRY(store.index("i"))
                        .insert(txn, "key " + std::to_string(i), "index " + std::to_string(i)));
            }
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
        return ids;
    }
    // A bit of everything, `steps` of it.
    static Result<void> churn(Store& store, Txn& txn, const std::vector<RecordId>& ids, Rng& rng,
                              int steps) {
        const Heap heap = TRY(store.heap("h"));
        const Index index = TRY(store.index("i"));
        for (int i = 0; i < steps; ++i) {
            const size_t n = rng.below(ids.size());
            const std::string key = "key " + std::to_string(n),
                              value = random_text(rng, rng.below(900));
            switch (rng.below(10)) {
                case 0: TRY(heap.erase(txn, ids[n])); break;
                case 1: TRY(heap.update(txn, ids[n], value)); break;
                case 2: TRY(heap.insert(txn, value)); break;
                case 3: TRY(index.erase(txn, key)); break;
                case 4: TRY(index.put(txn, key, value)); break;
                case 5: {
                    const std::string a = key + value.substr(0, 9) + std::to_string(i), b = a + "b",
                                      c = a + "c";
                    const NewRecord records[] = {{a, value}, {b, "second"}, {c, {}}};
                    // With a short value the key may be there.
                    const auto done = index.insert_many(txn, records);
                    if (!done && done.error().code != ErrorCode::duplicate_key) return done;
                    break;
                }
                case 6:
                case 7: TRY(modify(index, txn, rng, n)); break;
                case 8: TRY(index.erase_range(txn, key, key + "~")); break;
                default: TRY(index.put(txn, key + value.substr(0, 20), value));
            }
        }
        return {};
    }
    // Some of the first keys from `n` on, in order.
    static Result<void> modify(const Index& index, Txn& txn, Rng& rng, size_t n) {
        std::vector<std::string> keys;
        for (size_t i = 0; i < 6; ++i) keys.push_back("key " + std::to_string(n + i));
        std::ranges::sort(keys);
        std::byte room[6][20];
        std::vector<Lookup> rows;
        for (size_t i = 0; i < keys.size(); ++i)
            rows.push_back({.key = keys[i], .buffer = room[i], .hint = {}});
        const auto change = [&](size_t, std::span<std::byte> value) -> ByteRange {
            if (value.empty()) return {};
            value[rng.below(value.size())] ^= std::byte(1 + rng.below(100));
            return {0, value.size()};
        };
        TRY(index.modify_many(txn, rows, change));
        return {};
    }

    // All keys and records, as a transaction of its own sees them.
    static Seen content(Store& store) {
        return {index_content(store, "i"), heap_content(store, "h")};
    }
    static void expect_content(Store& store, const Seen& expected) {
        const Seen seen = content(store);
        EXPECT_EQ(seen.keys, expected.keys);
        EXPECT_EQ(seen.records, expected.records);
    }
    // What a crash at this moment leaves of the store "a".
    void take_image(Store& store) {
        ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
        copy("a", "image" + std::to_string(images_++));
    }
    // Undoes up to `most` records from `from` on, as a rollback that a crash stops.
    static void undo_some(Store& store, txn::Transaction& t, Lsn from, uint64_t most, Rng& rng) {
        std::string buffer;
        Lsn to = from;
        for (uint64_t skip = 1 + rng.below(most); skip > 0 && to != kLsnNone; --skip) {
            auto record = sm::engine_of(store).log->read(to, buffer);
            ASSERT_OK(record);
            to = Lsn{record->header->prev};
        }
        ASSERT_OK(sm::rollback(sm::engine_of(store), t, to));
    }
    // Closes the store, after the abort. It and each image, after its restart, have what was there
    // before the transaction.
    void expect_undone(Store& store, const Seen& before) {
        expect_content(store, before);
        expect_sound(store);
        ASSERT_OK(store.close());
        for (int i = 0; i < images_ && !HasFailure(); ++i) {
            SCOPED_TRACE("image " + std::to_string(i));
            Store image = open("image" + std::to_string(i));
            expect_content(image, before);
            expect_sound(image);
            ASSERT_OK(image.close());
        }
    }

    int images_ = 0;
};

TEST_F(RollbackTest, CrashAfterEveryNumberOfCompensations) {
    Store store = open("a");
    make(store, "i", "h");
    const auto ids = fill(store, 40);
    const Seen before = content(store);
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    on_thread(store, [&] {
        Rng rng(seed);
        auto txn = store.begin();
        ASSERT_OK(txn);
        ASSERT_OK(churn(store, *txn, ids, rng, 60));
        txn::Transaction* t = sm::TxnAccess::usable(*txn);
        do {
            undo_some(store, *t, images_ == 0 ? t->last_lsn : t->undo_next, 12, rng);
            take_image(store);
        } while (t->undo_next != kLsnNone && !HasFailure());
        ASSERT_OK(txn->abort());
    });
    EXPECT_GT(images_, 3);
    expect_undone(store, before);
}

// What the transaction itself sees.
Result<Seen> all_seen(Store& store, Txn& txn) {
    Seen seen;
    Cursor cursor = TRY(store.index("i")).scan(txn);
    while (TRY(cursor.next())) seen.keys.emplace(cursor.key(), cursor.value());
    TRY(TRY(store.heap("h")).scan(txn, [&](RecordId id, Slice value) {
        return seen.records.emplace(id, value).second;
    }));
    return seen;
}

// A record of many inserts leaves one compensation for each; a crash between them must not lose or
// repeat any.
TEST_F(RollbackTest, CrashBetweenTheCompensationsOfOneRecord) {
    Store store = open("a");
    make(store, "i", "h");
    fill(store, 40);
    const Seen before = content(store);
    constexpr size_t kMany = 12;
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*txn, "key 3", "changed before"));
        std::vector<std::string> names;
        std::vector<NewRecord> records;
        for (size_t i = 0; i < kMany; ++i)
            names.push_back("key 5 " + std::string(1, static_cast<char>('a' + i)));
        for (const std::string& name : names) records.push_back({name, "new"});
        ASSERT_OK(index.insert_many(*txn, records));
        txn::Transaction* t = sm::TxnAccess::usable(*txn);
        const Lsn many = t->last_lsn;
        std::string buffer;
        auto record = sm::engine_of(store).log->read(many, buffer);
        ASSERT_OK(record);
        ASSERT_EQ(record->header->kind, static_cast<uint16_t>(sm::LogKind::btree_insert_many));
        sm::BTree& tree = *sm::engine_of(store).catalog->index_by_id(index.id());
        for (size_t undone = 0; undone < kMany; ++undone) {
            take_image(store);
            // The last one belongs to the abort.
            if (undone + 1 == kMany) break;
            sm::BTree::Target at;
            ASSERT_OK(tree.latch_for(*t, Slice(names[kMany - 1 - undone]), true, at));
            ASSERT_TRUE(at.found);
            ASSERT_OK(tree.log_set_ghost(*t, at, names[kMany - 1 - undone], true,
                                         sm::ChangeRole::compensation,
                                         sm::LogKind::btree_undo_insert, many));
        }
        ASSERT_OK(txn->abort());
    });
    expect_undone(store, before);
}

// The same of a record of many erases, whose compensations give back several keys each.
TEST_F(RollbackTest, CrashBetweenTheCompensationsOfAnErasedRange) {
    Store store = open("a");
    make(store, "i", "h");
    fill(store, 40);
    const Seen before = content(store);
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*txn, "key 3", "changed before"));
        const size_t many = *index.erase_range(*txn, "key 1", "key 3");
        ASSERT_GT(many, 15u);
        txn::Transaction* t = sm::TxnAccess::usable(*txn);
        const Lsn erased = t->last_lsn;
        std::string buffer;
        auto record = sm::engine_of(store).log->read(erased, buffer);
        ASSERT_OK(record);
        ASSERT_EQ(record->header->kind, static_cast<uint16_t>(sm::LogKind::btree_erase_many));
        sm::BTree& tree = *sm::engine_of(store).catalog->index_by_id(index.id());
        // Two at a time, from the last on.
        for (size_t left = many; left > 2; left -= 2) {
            take_image(store);
            sm::BTree::Target at;
            ASSERT_OK(tree.latch_for(*t, Slice("key 1"), true, at));
            ASSERT_TRUE(at.found);
            const uint16_t last[] = {static_cast<uint16_t>(at.slot + left - 2),
                                     static_cast<uint16_t>(at.slot + left - 1)};
            ASSERT_OK(tree.log_set_ghosts(*t, at, last, false, sm::ChangeRole::compensation,
                                          sm::LogKind::btree_undo_erase, erased, 0));
        }
        take_image(store);
        ASSERT_OK(txn->abort());
    });
    expect_undone(store, before);
}

// The same of a record of many updates, in one leaf and in several.
TEST_F(RollbackTest, CrashBetweenTheCompensationsOfAGroup) {
    Store store = open("a");
    make(store, "i", "h");
    fill(store, 900);
    const Seen before = content(store);
    std::vector<std::string> names;
    for (const int n : {1, 2, 3, 300, 301, 450, 800, 801, 899})
        names.push_back("key " + std::to_string(n));
    std::ranges::sort(names);
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*txn, "key 3", "changed before"));
        std::vector<std::array<std::byte, 8>> room(names.size());
        std::vector<Lookup> rows;
        for (size_t i = 0; i < names.size(); ++i)
            rows.push_back({.key = names[i], .buffer = room[i], .hint = {}});
        const auto change = [](size_t, std::span<std::byte> value) {
            value[1] = std::byte('*');
            return ByteRange{0, 3};
        };
        ASSERT_OK(index.modify_many(*txn, rows, change));
        txn::Transaction* t = sm::TxnAccess::usable(*txn);
        const Lsn group = t->last_lsn;
        std::string buffer;
        auto record = sm::engine_of(store).log->read(group, buffer);
        ASSERT_OK(record);
        ASSERT_EQ(record->header->kind, static_cast<uint16_t>(sm::LogKind::btree_update_many));
        ASSERT_GT(record->header->parts, 1);
        ASSERT_LT(record->header->parts, names.size());
        sm::BTree& tree = *sm::engine_of(store).catalog->index_by_id(index.id());
        for (size_t undone = 0; undone < names.size(); ++undone) {
            take_image(store);
            // The last one belongs to the abort.
            if (undone + 1 == names.size()) break;
            const std::string& name = names[names.size() - 1 - undone];
            sm::BTree::Target at;
            ASSERT_OK(tree.latch_for(*t, Slice(name), true, at));
            ASSERT_TRUE(at.found);
            const Slice old = Slice(name) == "key 3" ? "changed" : "index";
            ASSERT_OK(tree.log_replace(*t, at, name, 1, 1, old.substr(1, 1), 0,
                                       sm::ChangeRole::compensation, sm::LogKind::btree_undo_update,
                                       group));
        }
        ASSERT_OK(txn->abort());
    });
    expect_undone(store, before);
}

// What each compensation of this kind, from `at` on, names as the next record to undo.
std::vector<uint64_t> undone_next(Store& store, Lsn at, sm::LogKind kind) {
    std::vector<uint64_t> next;
    std::string buffer;
    txn::Log& log = *sm::engine_of(store).log;
    while (at < log.tail()) {
        const auto record = log.read(at, buffer);
        if (!record) {
            ADD_FAILURE() << record.error().text();
            break;
        }
        if (record->header->kind == static_cast<uint16_t>(kind))
            next.push_back(record->header->prev);
        at = record->end();
    }
    return next;
}

// All compensations of a group but the last name the group's record as the next to undo: a crash
// between them leaves the rest to recovery.
TEST_F(RollbackTest, CompensationsOfAGroupLeadBackToIt) {
    Store store = open("a");
    make(store, "i", "h");
    fill(store, 900);
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*txn, "key 3", "changed before"));
        const Lsn before = sm::TxnAccess::usable(*txn)->last_lsn;
        const auto point = txn->savepoint();
        ASSERT_OK(point);
        constexpr const char* kNames[] = {"key 1", "key 300", "key 800"};
        std::array<std::byte, 8> room[3];
        Lookup rows[3];
        for (size_t i = 0; i < 3; ++i) rows[i] = {.key = kNames[i], .buffer = room[i], .hint = {}};
        ASSERT_OK(index.modify_many(*txn, rows, [](size_t, std::span<std::byte> value) {
            value[0] = std::byte('*');
            return ByteRange{0, 1};
        }));
        const Lsn group = sm::TxnAccess::usable(*txn)->last_lsn;
        ASSERT_OK(txn->rollback_to(*point));
        EXPECT_EQ(undone_next(store, group, sm::LogKind::btree_undo_update),
                  (std::vector<uint64_t>{group.value, group.value, before.value}));
        ASSERT_OK(txn->abort());
    });
    expect_sound(store);
    ASSERT_OK(store.close());
}

// The same of a record of many inserts.
TEST_F(RollbackTest, CompensationsOfManyInsertsLeadBackToThem) {
    Store store = open("a");
    make(store, "i", "h");
    fill(store, 40);
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        const Index index = *store.index("i");
        ASSERT_OK(index.put(*txn, "key 3", "changed before"));
        const Lsn before = sm::TxnAccess::usable(*txn)->last_lsn;
        const auto point = txn->savepoint();
        ASSERT_OK(point);
        const NewRecord records[] = {{"new 1", "a"}, {"new 2", "b"}, {"new 3", "c"}};
        ASSERT_OK(index.insert_many(*txn, records));
        const Lsn many = sm::TxnAccess::usable(*txn)->last_lsn;
        ASSERT_OK(txn->rollback_to(*point));
        EXPECT_EQ(undone_next(store, many, sm::LogKind::btree_undo_insert),
                  (std::vector<uint64_t>{many.value, many.value, before.value}));
        ASSERT_OK(txn->abort());
    });
    expect_sound(store);
    ASSERT_OK(store.close());
}

// A checkpoint in the middle of a rollback lists the transaction: a crash behind it leaves the rest
// of the rollback to restart, whose log begins at the checkpoint.
TEST_F(RollbackTest, CheckpointsInTheMiddleOfARollback) {
    Store store = open("a");
    make(store, "i", "h");
    const auto ids = fill(store, 40);
    const Seen before = content(store);
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    on_thread(store, [&] {
        Rng rng(seed);
        auto txn = store.begin();
        ASSERT_OK(txn);
        ASSERT_OK(churn(store, *txn, ids, rng, 20));
        txn::Transaction* t = sm::TxnAccess::usable(*txn);
        do {
            undo_some(store, *t, images_ == 0 ? t->last_lsn : t->undo_next, 6, rng);
            // As another thread finds it between two records of an abort.
            t->state = txn::TxnState::aborting;
            ASSERT_OK(store.checkpoint());
            t->state = txn::TxnState::active;
            take_image(store);
        } while (t->undo_next != kLsnNone && !HasFailure());
        ASSERT_OK(txn->abort());
    });
    EXPECT_GT(images_, 2);
    expect_undone(store, before);
}

TEST_F(RollbackTest, SavepointsAtRandom) {
    Store store = open("a");
    make(store, "i", "h");
    const auto ids = fill(store, 40);
    const uint64_t first = seed_of_run();
    for (uint64_t seed = first; seed < first + 30 && !HasFailure(); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        const Seen before = content(store);
        on_thread(store, [&] {
            Rng rng(seed);
            auto txn = store.begin();
            ASSERT_OK(txn);
            std::vector<std::pair<Savepoint, Seen>> points;
            const auto save = [&] {
                points.emplace_back(*txn->savepoint(), *all_seen(store, *txn));
            };
            // Before the first record: undoes everything.
            save();
            for (int i = 0; i < 30; ++i) {
                ASSERT_OK(churn(store, *txn, ids, rng, 3));
                if (rng.chance(0.4)) save();
                if (rng.chance(0.3)) {
                    points.resize(1 + rng.below(points.size()));
                    ASSERT_OK(txn->rollback_to(points.back().first));
                    ASSERT_EQ(*all_seen(store, *txn), points.back().second);
                }
            }
            ASSERT_OK(txn->rollback_to(points.front().first));
            if (rng.chance(0.5)) {
                ASSERT_OK(txn->commit());
            } else {
                ASSERT_OK(txn->abort());
            }
        });
        expect_content(store, before);
    }
    expect_sound(store);
    ASSERT_OK(store.close());
}

// A tenth more is left to others: a checkpoint that runs meanwhile logs too.
void abort_within_what_is_reserved(Store& store, Txn& txn) {
    const txn::Log& log = *sm::engine_of(store).log;
    const uint64_t reserved = log.undo_reserved_bytes();
    const Lsn before = log.tail();
    ASSERT_OK(txn.abort());
    EXPECT_GT(log.tail(), before);
    EXPECT_LE(log.tail() - before, reserved + reserved / 10);
}

TEST_F(RollbackTest, UndoNeedsNoLogSpaceThatWasNotReserved) {
    Options options = small_options();
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    Store store = open("a", options);
    make(store, "i", "h");
    const auto ids = fill(store, 40);
    const auto records = heap_content(store, "h");
    on_thread(store, [&] {
        Rng rng(seed_of_run());
        auto txn = store.begin();
        ASSERT_OK(txn);
        // One transaction writes until the log refuses: it holds the log from its first record on,
        // so checkpoints cannot help.
        ErrorCode refused = ErrorCode::none;
        const Heap heap = *store.heap("h");
        for (int i = 0; i < 200'000 && refused == ErrorCode::none; ++i) {
            auto done = heap.update(*txn, ids[rng.below(ids.size())], random_text(rng, 4000));
            if (!done.has_value()) refused = done.error().code;
        }
        EXPECT_EQ(refused, ErrorCode::log_full);
        abort_within_what_is_reserved(store, *txn);
    });
    EXPECT_EQ(heap_content(store, "h"), records);
    ASSERT_OK(store.checkpoint());
    ASSERT_OK(store.run([&](Txn& txn) { return store.heap("h")->insert(txn, "work resumes"); }));
    expect_sound(store);
    ASSERT_OK(store.close());
}

// Compensations of a group take more log than the group: one for each row.
TEST_F(RollbackTest, UndoOfGroupsNeedsNoLogSpaceThatWasNotReserved) {
    Options options = small_options();
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    Store store = open("a", options);
    make(store, "i", "h");
    fill(store, 900);
    const auto rows_before = index_content(store, "i");
    on_thread(store, [&] {
        auto txn = store.begin();
        ASSERT_OK(txn);
        std::vector<std::string> names;
        for (int n = 100; n < 116; ++n) names.push_back("key " + std::to_string(n));
        std::array<std::byte, 8> room[16];
        Lookup rows[16];
        for (size_t i = 0; i < 16; ++i) rows[i] = {.key = names[i], .buffer = room[i], .hint = {}};
        const Index index = *store.index("i");
        ErrorCode refused = ErrorCode::none;
        for (int i = 0; i < 1'000'000 && refused == ErrorCode::none; ++i) {
            const auto done =
                index.modify_many(*txn, rows, [&](size_t, std::span<std::byte> value) {
                    value[0] = static_cast<std::byte>('a' + i % 20);
                    return ByteRange{0, 1};
                });
            if (!done) refused = done.error().code;
        }
        EXPECT_EQ(refused, ErrorCode::log_full);
        abort_within_what_is_reserved(store, *txn);
    });
    EXPECT_EQ(index_content(store, "i"), rows_before);
    ASSERT_OK(store.checkpoint());
    expect_sound(store);
    ASSERT_OK(store.close());
}

}  // namespace lockstep::rollback_test
