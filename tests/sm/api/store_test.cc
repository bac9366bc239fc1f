// labels: unit
// store_test.cc - the public interface: open and close, transactions, objects, errors for
// every misuse.
#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include "tests/code_of.h"

namespace lockstep::store_test {

namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
protected:
    void SetUp() override {
        root = make_own_directory("store");
        directory = root / "db";
    }
    void TearDown() override { fs::remove_all(root); }

    static Options small() {
        return {.pool_bytes = 16ull << 20,
                .log_bytes = 64ull << 20,
                .log_segment_bytes = 4ull << 20,
                .log_ring_bytes = 4ull << 20,
                .steps = steps_of_run()};
    }
    Store open(Options options = small()) {
        auto store = Store::open(directory.string(), options);
        EXPECT_TRUE(store) << store.error().text();
        return std::move(*store);
    }
    static Index make_index(Store& store, std::string_view name) {
        auto index = store.run([&](Txn& txn) { return store.create_index(txn, name); });
        EXPECT_TRUE(index) << index.error().text();
        return *index;
    }
    static std::optional<std::string> read(Store& store, Index index, Slice key) {
        auto value = store.run([&](Txn& txn) -> Result<std::optional<std::string>> {
            std::string v;
            if (!TRY(index.get(txn, key, v))) return std::optional<std::string>{};
            return std::optional<std::string>(v);
        });
        EXPECT_TRUE(value) << value.error().text();
        return value ? *value : std::nullopt;
    }

    fs::path root, directory;  // the second is made by the first open
};

TEST_F(StoreTest, WhatIsCommittedIsThereAfterReopening) {
    {
        Store store = open();
        const Index index = make_index(store, "t");
        ASSERT_TRUE(store.run([&](Txn& txn) { return index.insert(txn, "a", "1"); }));
        ASSERT_TRUE(store.close());
    }
    Store store = open();
    auto index = store.index("t");
    ASSERT_TRUE(index) << index.error().text();
    EXPECT_EQ(read(store, *index, "a"), "1");
    EXPECT_EQ(read(store, *index, "b"), std::nullopt);
    const auto faults = store.verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
}

TEST_F(StoreTest, AnErrorOfTheFunctionRollsBack) {
    Store store = open();
    const Index index = make_index(store, "t");
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        TRY(index.insert(txn, "a", "1"));
        return fail(ErrorCode::rolled_back);
    });
    EXPECT_EQ(code_of(done), ErrorCode::rolled_back);
    EXPECT_EQ(read(store, index, "a"), std::nullopt);
}

TEST_F(StoreTest, ASavepointOfAnotherTransactionIsRefused) {
    Store store = open();
    const Index index = make_index(store, "t");
    Savepoint other;
    ASSERT_TRUE(store.run([&](Txn& txn) -> Result<void> {
        TRY(txn.savepoint());
        other = TRY(txn.savepoint());
        return {};
    }));
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        TRY(index.insert(txn, "a", "1"));
        EXPECT_EQ(code_of(txn.rollback_to(other)), ErrorCode::bad_argument);
        TRY(txn.savepoint());
        EXPECT_EQ(code_of(txn.rollback_to(other)), ErrorCode::bad_argument);
        return {};
    });
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(read(store, index, "a"), "1");
}

TEST_F(StoreTest, SavepointsUndoWhatCameLater) {
    Store store = open();
    const Index index = make_index(store, "t");
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        TRY(index.insert(txn, "a", "1"));
        const Savepoint s = TRY(txn.savepoint());
        TRY(index.update(txn, "a", "2"));
        TRY(index.insert(txn, "b", "1"));
        TRY(txn.rollback_to(s));
        TRY(index.insert(txn, "c", "1"));
        TRY(txn.rollback_to(s));
        return index.insert(txn, "d", "1");
    });
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(read(store, index, "a"), "1");
    EXPECT_EQ(read(store, index, "b"), std::nullopt);
    EXPECT_EQ(read(store, index, "c"), std::nullopt);
    EXPECT_EQ(read(store, index, "d"), "1");
}

TEST_F(StoreTest, MisuseOfATransactionIsAnError) {
    Store store = open();
    const Index index = make_index(store, "t");
    EXPECT_EQ(code_of(store.begin()), ErrorCode::wrong_thread);
    std::optional<Txn> kept;
    auto done = store
                    .start([&]() -> Result<void> {
                        Txn txn = TRY(store.begin());
                        TRY(index.insert(txn, "a", "1"));
                        EXPECT_EQ(code_of(index.insert(txn, "a", "2")), ErrorCode::duplicate_key);
                        EXPECT_EQ(code_of(index.insert(txn, std::string(2000, 'k'), "2")),
                                  ErrorCode::key_too_long);
                        EXPECT_EQ(code_of(index.insert(txn, "v", std::string(17 << 20, 'v'))),
                                  ErrorCode::value_too_long);
                        EXPECT_EQ(code_of(index.patch(txn, "a", 1, "xx")), ErrorCode::bad_argument);
                        TRY(txn.commit());  // none of these forced a rollback
                        EXPECT_EQ(code_of(txn.commit()), ErrorCode::txn_ended);
                        EXPECT_EQ(code_of(txn.abort()), ErrorCode::txn_ended);
                        EXPECT_EQ(code_of(index.insert(txn, "b", "1")), ErrorCode::txn_ended);
                        EXPECT_EQ(code_of(txn.savepoint()), ErrorCode::txn_ended);
                        Txn reader = TRY(store.begin({.read_only = true}));
                        EXPECT_EQ(code_of(index.insert(reader, "b", "1")), ErrorCode::read_only);
                        EXPECT_EQ(code_of(store.create_index(reader, "u")), ErrorCode::read_only);
                        TRY(reader.commit());
                        kept.emplace(TRY(store.begin()));
                        return index.insert(*kept, "z", "0");
                    })
                    .join();
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(read(store, index, "a"), "1");
    // A transaction left open by its thread: others may not use it.
    auto other = store
                     .start([&]() -> Result<void> {
                         EXPECT_EQ(code_of(index.insert(*kept, "z", "1")), ErrorCode::wrong_thread);
                         EXPECT_EQ(code_of(kept->commit()), ErrorCode::wrong_thread);
                         return {};
                     })
                     .join();
    EXPECT_TRUE(other);
    // close() rolls back what nobody can end any more, and says so. The handle may outlast it.
    EXPECT_TRUE(store.close());
    EXPECT_FALSE(kept->live());
    EXPECT_EQ(kept->id(), kTxnNone);
    EXPECT_EQ(code_of(kept->commit()), ErrorCode::txn_ended);
    EXPECT_EQ(code_of(kept->abort()), ErrorCode::txn_ended);
    EXPECT_EQ(code_of(index.insert(*kept, "z", "2")), ErrorCode::txn_ended);
    kept.reset();
    Store again = open();
    EXPECT_EQ(read(again, *again.index("t"), "z"), std::nullopt);
}

TEST_F(StoreTest, NamesAndKindsAreChecked) {
    Store store = open();
    make_index(store, "t");
    const auto create = [&](std::string_view name) {
        return code_of(store.run([&](Txn& txn) { return store.create_index(txn, name); }));
    };
    EXPECT_EQ(create("t"), ErrorCode::already_exists);
    EXPECT_EQ(create(""), ErrorCode::bad_argument);
    EXPECT_EQ(create(std::string(200, 'n')), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(store.index("none")), ErrorCode::no_such_object);
    EXPECT_EQ(code_of(store.heap("t")), ErrorCode::wrong_kind);
    EXPECT_EQ(code_of(store.run([&](Txn& txn) { return store.drop(txn, "none"); })),
              ErrorCode::no_such_object);
    Index empty;
    EXPECT_EQ(code_of(store.run([&](Txn& txn) { return empty.insert(txn, "a", "b"); })),
              ErrorCode::no_such_object);
    const auto faults = store.verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
}

TEST_F(StoreTest, CreatedObjectsVanishWithTheirTransactionAndDroppedOnesGiveTheirSpaceBack) {
    Store store = open();
    (void)store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.create_index(txn, "gone"));
        TRY(index.insert(txn, "a", "1"));
        return fail(ErrorCode::rolled_back);
    });
    EXPECT_EQ(code_of(store.index("gone")), ErrorCode::no_such_object);
    const Index index = make_index(store, "big");
    ASSERT_TRUE(store.run([&](Txn& txn) -> Result<void> {
        for (uint32_t i = 0; i < 5000; ++i)
            TRY(index.insert(txn, Key().u32(i), std::string(100, 'x')));
        return {};
    }));
    auto heap = store.run([&](Txn& txn) { return store.create_heap(txn, "heap"); });
    ASSERT_TRUE(heap);
    ASSERT_TRUE(store.run([&](Txn& txn) { return heap->insert(txn, "record"); }));
    ASSERT_TRUE(store.run([&](Txn& txn) { return store.drop(txn, "big"); }));
    ASSERT_TRUE(store.run([&](Txn& txn) { return store.drop(txn, "heap"); }));
    EXPECT_EQ(code_of(store.index("big")), ErrorCode::no_such_object);
    EXPECT_EQ(code_of(store.run([&](Txn& txn) { return index.insert(txn, "a", "1"); })),
              ErrorCode::no_such_object);
    auto faults = store.verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
    ASSERT_TRUE(store.close());
    Store again = open();
    EXPECT_TRUE(again.list().empty());
    faults = again.verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
}

TEST_F(StoreTest, HeapRecordsKeepTheirIds) {
    Store store = open();
    auto heap = store.run([&](Txn& txn) { return store.create_heap(txn, "h"); });
    ASSERT_TRUE(heap) << heap.error().text();
    const auto done = store.run([&](Txn& txn) -> Result<void> {
        const RecordId id = TRY(heap->insert(txn, "short"));
        for (int i = 0; i < 200; ++i) TRY(heap->insert(txn, std::string(100, 'f')));
        EXPECT_TRUE(TRY(heap->update(txn, id, std::string(3000, 'l'))));
        std::string record;
        EXPECT_TRUE(TRY(heap->get(txn, id, record)));
        EXPECT_EQ(record, std::string(3000, 'l'));
        EXPECT_TRUE(TRY(heap->erase(txn, id)));
        EXPECT_FALSE(TRY(heap->get(txn, id, record)));
        EXPECT_FALSE(TRY(heap->erase(txn, id)));
        EXPECT_EQ(code_of(heap->insert(txn, std::string(9000, 'x'))), ErrorCode::value_too_long);
        size_t records = 0;
        TRY(heap->scan(txn, [&](RecordId, Slice) { return ++records, true; }));
        EXPECT_EQ(records, 200u);
        return {};
    });
    ASSERT_TRUE(done) << done.error().text();
}

TEST_F(StoreTest, SeveralStoresLiveInOneProcess) {
    const auto other_path = (root / "other").string();
    {
        Store one = open();
        auto two = Store::open(other_path, small());
        ASSERT_TRUE(two);
        const Index a = make_index(one, "t"), b = make_index(*two, "t");
        ASSERT_TRUE(one.run([&](Txn& txn) { return a.insert(txn, "k", "one"); }));
        ASSERT_TRUE(two->run([&](Txn& txn) { return b.insert(txn, "k", "two"); }));
        EXPECT_EQ(read(one, a, "k"), "one");
        EXPECT_EQ(read(*two, b, "k"), "two");
        EXPECT_EQ(code_of(one.run([&](Txn& txn) { return b.insert(txn, "x", "y"); })),
                  ErrorCode::bad_argument);
        EXPECT_EQ(code_of(Store::open(directory.string(), small())), ErrorCode::store_locked);
    }
}

TEST_F(StoreTest, OpeningWhatIsNoStoreIsRefusedAndChangesNothing) {
    Options no_create = small();
    no_create.create = false;
    EXPECT_EQ(code_of(Store::open(directory.string(), no_create)), ErrorCode::bad_path);
    EXPECT_FALSE(fs::exists(directory));
    EXPECT_EQ(code_of(Store::open("", small())), ErrorCode::bad_path);
    EXPECT_EQ(code_of(Store::open("/proc/nowhere/store", small())), ErrorCode::bad_path);
    { open(); }
    // Damage to both superblocks, then an unknown version.
    const auto data = directory / "data";
    const auto overwrite = [&](uint64_t at, std::string bytes) {
        std::fstream f(data, std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(static_cast<std::streamoff>(at));
        f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    };
    std::string first(2 * kPageBytes, '\0');
    std::ifstream(data, std::ios::binary)
        .read(first.data(), static_cast<std::streamsize>(first.size()));
    overwrite(0, std::string(2 * kPageBytes, '\0'));
    EXPECT_EQ(code_of(Store::open(directory.string(), small())), ErrorCode::corrupt_superblock);
    overwrite(0, first);
    EXPECT_TRUE(Store::open(directory.string(), small()));
}

TEST_F(StoreTest, TheRangeOfAnOptionIsNamed) {
    Options options = small();
    options.workers = 0;
    const auto none = Store::open(directory.string(), options);
    ASSERT_EQ(code_of(none), ErrorCode::bad_option);
    EXPECT_NE(none.error().text().find("it is 0, allowed are 1 to 64"), std::string::npos)
        << none.error().text();
    options = small();
    options.pool_bytes = 1ull << 40;  // what the pool cannot have is refused here, with the range
    const auto large = Store::open(directory.string(), options);
    ASSERT_EQ(code_of(large), ErrorCode::bad_option);
    EXPECT_NE(large.error().text().find("to 1099511627775"), std::string::npos);
}

TEST_F(StoreTest, OptionsOutOfRangeAreNamed) {
    const auto refused = [&](auto change) {
        Options options = small();
        change(options);
        auto store = Store::open(directory.string(), options);
        EXPECT_EQ(code_of(store), ErrorCode::bad_option);
        return store ? std::string() : std::string(store.error().what);
    };
    EXPECT_EQ(refused([](Options& o) { o.workers = 0; }), "workers");
    EXPECT_EQ(refused([](Options& o) { o.workers = 65; }), "workers");
    EXPECT_EQ(refused([](Options& o) { o.pool_bytes = 1; }), "pool_bytes");
    EXPECT_EQ(refused([](Options& o) { o.stack_bytes = 32 * 1024; }), "stack_bytes");
    EXPECT_EQ(refused([](Options& o) { o.transactions_max = 1; }), "transactions_max");
    EXPECT_EQ(refused([](Options& o) { o.log_bytes = 1; }), "log_bytes");
    // One beyond the bounds.
    constexpr uint64_t kMiB = 1 << 20;
    EXPECT_EQ(refused([](Options& o) { o.pool_bytes = 4 * kMiB - 1; }), "pool_bytes");
    EXPECT_EQ(refused([](Options& o) { o.stack_bytes = 8 * kMiB + 1; }), "stack_bytes");
    EXPECT_EQ(refused([](Options& o) { o.transactions_max = 15; }), "transactions_max");
    EXPECT_EQ(refused([](Options& o) { o.transactions_max = 65537; }), "transactions_max");
    EXPECT_EQ(refused([](Options& o) { o.user_threads_max = 0; }), "user_threads_max");
    EXPECT_EQ(refused([](Options& o) { o.executors = 0; }), "executors");
    EXPECT_EQ(refused([](Options& o) { o.packets_max = 15; }), "packets_max");
    EXPECT_EQ(refused([](Options& o) { o.packet_policy = PacketPolicy{2}; }), "packet_policy");
    EXPECT_EQ(refused([](Options& o) { o.transaction_age_max = kMillisecond - 1; }),
              "transaction_age_max");
    EXPECT_EQ(refused([](Options& o) { o.log_segment_bytes = kMiB - 4096; }), "log_segment_bytes");
    EXPECT_EQ(refused([](Options& o) { o.log_ring_bytes = kMiB / 2; }), "log_ring_bytes");
    EXPECT_EQ(refused([](Options& o) { o.lazy_flush_interval = 10 * kMicrosecond - 1; }),
              "lazy_flush_interval");
    EXPECT_EQ(refused([](Options& o) { o.checkpoint_log_bytes = kMiB - 1; }),
              "checkpoint_log_bytes");
    EXPECT_EQ(refused([](Options& o) { o.checkpoint_log_bytes = o.log_bytes / 2 + 1; }),
              "checkpoint_log_bytes");
    EXPECT_EQ(refused([](Options& o) { o.lock_timeout = 0; }), "lock_timeout");
    EXPECT_EQ(refused([](Options& o) { o.lock_stage.bypass_max = 65536; }),
              "lock_stage.bypass_max");
    EXPECT_EQ(refused([](Options& o) { o.version_bytes = kMiB - 1; }), "version_bytes");
    EXPECT_EQ(refused([](Options& o) { o.lock_table_bytes_log2 = 15; }), "lock_table_bytes_log2");
    EXPECT_EQ(refused([](Options& o) { o.slice_warning = kMillisecond - 1; }), "slice_warning");
    EXPECT_EQ(refused([](Options& o) { o.offload_threads = 0; }), "offload_threads");
    for (const uint32_t mode : {0u, 0400u, 0700u, 0644u | 01000u})
        EXPECT_EQ(refused([&](Options& o) { o.file_mode = mode; }),
                  "file_mode (0600 and what is within 0666)");
    EXPECT_EQ(refused([](Options& o) { o.retries_max = 1'000'001; }), "retries_max");
    EXPECT_EQ(refused([](Options& o) { o.archive_interval = 100 * kMillisecond - 1; }),
              "archive_interval");
    EXPECT_EQ(refused([](Options& o) { o.archive_backlog_bytes = *o.log_segment_bytes - 1; }),
              "archive_backlog_bytes");
    EXPECT_EQ(refused([](Options& o) { o.steps.team_max = 0; }), "steps.team_max");
    EXPECT_EQ(refused([](Options& o) { o.steps.rounds_max = 0; }), "steps.rounds_max");
    EXPECT_TRUE(refused([](Options& o) {
                    o.log_segment_bytes = (1 << 20) + 1;
                }).starts_with("log_segment_bytes"));
    EXPECT_TRUE(refused([](Options& o) {
                    o.log_ring_bytes = (1 << 20) + 1;
                }).starts_with("log_ring_bytes"));
    EXPECT_EQ(refused([](Options& o) { o.lazy_flush_interval = 0; }), "lazy_flush_interval");
    EXPECT_EQ(refused([](Options& o) { o.checkpoint_log_bytes = 5; }), "checkpoint_log_bytes");
    EXPECT_EQ(refused([](Options& o) { o.lock_timeout = 0; }), "lock_timeout");
    EXPECT_EQ(refused([](Options& o) { o.lock_table_bytes_log2 = 5; }), "lock_table_bytes_log2");
    EXPECT_EQ(refused([](Options& o) { o.io = static_cast<IoMethod>(9); }), "io");
    EXPECT_FALSE(fs::exists(directory));
}

TEST_F(StoreTest, CallsOnAClosedStoreSaySo) {
    Store store = open();
    const Index index = make_index(store, "t");
    ASSERT_TRUE(store.close());
    EXPECT_TRUE(store.close());
    EXPECT_EQ(code_of(store.begin()), ErrorCode::store_closed);
    EXPECT_EQ(code_of(store.index("t")), ErrorCode::store_closed);
    EXPECT_EQ(code_of(store.run([&](Txn& txn) { return index.insert(txn, "a", "b"); })),
              ErrorCode::store_closed);
    EXPECT_EQ(code_of(store.verify()), ErrorCode::store_closed);
    EXPECT_EQ(code_of(store.spawn([&](Txn& txn) { return index.insert(txn, "a", "b"); }).join()),
              ErrorCode::store_closed);
}

TEST_F(StoreTest, DeadlockVictimsRunAgain) {
    Store store = open();
    const Index index = make_index(store, "t");
    ASSERT_TRUE(store.run([&](Txn& txn) -> Result<void> {
        TRY(index.insert(txn, "a", "0"));
        return index.insert(txn, "b", "0");
    }));
    int holding = 0;
    const auto both = [&](Slice first, Slice second) {
        return [&, first, second](Txn& txn) -> Result<void> {
            TRY(index.update(txn, first, "1"));
            ++holding;
            while (holding < 2) yield();  // until each has its first lock
            TRY(index.update(txn, second, "1"));
            return {};
        };
    };
    auto one = store.spawn(both("a", "b"), {}, 0);
    auto two = store.spawn(both("b", "a"), {}, 0);
    EXPECT_TRUE(one.join());
    EXPECT_TRUE(two.join());
    EXPECT_GE(store.stats().deadlock_retries, 1u);
    EXPECT_GE(store.stats().deadlocks, 1u);
}

// An operation that failed half way leaves nothing to do but a rollback: its transaction is refused
// everything else, the commit first of all.
TEST_F(StoreTest, AfterAFailureOnlyARollback) {
    Store store = open();
    const Index index = make_index(store, "t");
    const auto done =
        store
            .start([&]() -> Result<void> {
                Txn holder = TRY(store.begin());
                TRY(index.put(holder, "held", "v"));
                Txn failed = TRY(store.begin({.lock_timeout = kMillisecond}));
                TRY(index.put(failed, "before", "v"));
                const Savepoint point = TRY(failed.savepoint());
                std::string text;
                EXPECT_EQ(code_of(index.put(failed, "held", "w")), ErrorCode::self_deadlock);
                EXPECT_EQ(code_of(index.put(failed, "after", "v")), ErrorCode::txn_aborting);
                EXPECT_EQ(code_of(index.get(failed, "before", text)), ErrorCode::txn_aborting);
                EXPECT_EQ(code_of(failed.savepoint()), ErrorCode::txn_aborting);
                EXPECT_EQ(code_of(failed.rollback_to(point)), ErrorCode::txn_aborting);
                EXPECT_EQ(code_of(failed.commit()), ErrorCode::txn_aborting);
                EXPECT_TRUE(failed.live());
                TRY(failed.abort());
                TRY(holder.commit());
                return {};
            })
            .join();
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(read(store, index, "before"), std::nullopt);
    EXPECT_EQ(read(store, index, "held"), "v");
}

TEST_F(StoreTest, BulkLoadWantsAscendingKeysAndAnEmptyIndex) {
    Store store = open();
    const Index index = make_index(store, "t");
    const auto load = [&](std::vector<std::string> keys) {
        return code_of(store.run([&](Txn& txn) {
            size_t next = 0;
            return store.bulk_load(txn, index, [&, next](Slice& k, Slice& v) mutable {
                if (next == keys.size()) return false;
                k = keys[next++];
                v = "value";
                return true;
            });
        }));
    };
    EXPECT_EQ(load({"b", "a"}), ErrorCode::bad_argument);
    EXPECT_EQ(load({"a", "b", "c"}), ErrorCode::none);
    EXPECT_EQ(load({"d"}), ErrorCode::bad_argument);
    EXPECT_EQ(read(store, index, "b"), "value");
    const auto faults = store.verify();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
}

TEST_F(StoreTest, WaitDurableAndCheckpointWorkFromOutside) {
    Store store = open();
    const Index index = make_index(store, "t");
    const auto point = store
                           .start([&]() -> Result<Lsn> {
                               Txn txn = TRY(store.begin({.durability = Durability::lazy}));
                               TRY(index.insert(txn, "a", "1"));
                               return TRY(txn.commit());
                           })
                           .join();
    ASSERT_TRUE(point);
    EXPECT_NE(*point, kLsnNone);
    EXPECT_TRUE(store.wait_durable(*point));
    const uint64_t before = store.stats().checkpoints;
    EXPECT_TRUE(store.checkpoint());
    EXPECT_GT(store.stats().checkpoints, before);
}

}  // namespace lockstep::store_test
